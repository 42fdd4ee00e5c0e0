"""The rules across the records of a manifest. Those of each are rows in ``manifest_rules``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET

from gatemark.core.record import FileRules, Remark
from gatemark.plugins.runlog.records.manifest import (
    ManifestMeta,
    ManifestProvenance,
    ManifestRecord,
    ManifestSummary,
    RunManifest,
    TraceEntry,
)
from gatemark.plugins.runlog.records.names import hash_trace_dataset

MANIFEST_RULES: Final[Mapping[str, str]] = {
    "record_order": "meta, provenance, entries and summary follow each other",
    "one_of_each": "a manifest has one meta, one provenance and one summary",
    "unique_entries": "a case and a file are listed once",
    "summary_adds_up": "the summary counts the entries",
    "dataset_hash": "the hash of the data set is that of the traces listed",
}
"""Every rule."""
_ORDER: Final = ("manifest_meta", "provenance", "trace_entry", "summary")


class ManifestRules(FileRules):
    """One meta, one provenance, entries once per case, and a summary that adds up."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._place = 0
        self._entries: list[TraceEntry] = []
        self._cases: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._meta: ManifestMeta | None = None
        self._provenance: ManifestProvenance | None = None
        self._summary: ManifestSummary | None = None
        self._some_lost = False

    def see(self, lines: Sequence[int], records: Sequence[ManifestRecord]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            word = str(record.__struct_config__.tag)
            place = _ORDER.index(word)
            if place < self._place:
                message = f"{word} must not come after {_ORDER[self._place]}"
                yield Remark(line, "record_order", "$.record_type", message)
            self._place = max(self._place, place)
            if isinstance(record, TraceEntry):
                yield from self._see_entry(line, record)
                continue
            first = self._seen.setdefault(word, line)
            if first != line:
                message = f"a manifest has one {word}, the first is on line {first}"
                yield Remark(line, "one_of_each", "$.record_type", message)
            elif isinstance(record, ManifestMeta):
                self._meta = record
            elif isinstance(record, ManifestProvenance):
                self._provenance = record
            else:
                self._summary = record

    def lost(self) -> None:
        self._some_lost = True

    def end(self) -> Iterator[Remark]:
        if self._some_lost:
            return
        for word in ("manifest_meta", "provenance", "summary"):
            if word not in self._seen:
                yield Remark(1, "one_of_each", "$", f"the manifest has no {word} record")
        if self._summary is not None:
            yield from self._check_sums(self._summary)
        if self._meta is not None and self._provenance is not None:
            yield from self._check_dataset_hash(self._meta, self._provenance)

    def manifest(self) -> RunManifest | None:
        """Return the whole manifest; None if a part is missing."""
        if self._meta is None or self._provenance is None or self._summary is None:
            return None
        return RunManifest(self._meta, self._provenance, tuple(self._entries), self._summary)

    def _see_entry(self, line: int, entry: TraceEntry) -> Iterator[Remark]:
        self._entries.append(entry)
        for field, seen in (("case_id", self._cases), ("file", self._files)):
            name = getattr(entry, field)
            first = seen.setdefault(name, line)
            if first != line:
                message = f"{name!r} was seen before on line {first}"
                yield Remark(line, "unique_entries", f"$.{field}", message)

    def _check_sums(self, summary: ManifestSummary) -> Iterator[Remark]:
        line = self._seen["summary"]
        failed = 0 if summary.failed_cases is UNSET else summary.failed_cases
        if not len(self._entries) <= summary.total_cases <= len(self._entries) + failed:
            message = f"must count the {len(self._entries)} entries, got {summary.total_cases}"
            yield Remark(line, "summary_adds_up", "$.total_cases", message)
        sums = {
            "total_deltas": sum(entry.delta_count for entry in self._entries),
            "total_turns": sum(entry.turn_count for entry in self._entries),
        }
        for field, expected in sums.items():
            stated = getattr(summary, field)
            if stated != expected:
                message = f"must be {expected}, the sum over the entries, got {stated}"
                yield Remark(line, "summary_adds_up", f"$.{field}", message)

    def _check_dataset_hash(
        self, meta: ManifestMeta, provenance: ManifestProvenance
    ) -> Iterator[Remark]:
        stated = provenance.trace_dataset_hash
        if stated is UNSET:
            return
        expected = hash_trace_dataset(
            case_list_hash=provenance.case_list_hash,
            mas_run=meta.mas_run_id,
            traces=((entry.case_id, entry.sha256) for entry in self._entries),
        )
        if stated != expected:
            message = f"must be {expected}, the hash of what is listed, got {stated}"
            line = self._seen["provenance"]
            yield Remark(line, "dataset_hash", "$.trace_dataset_hash", message)
