"""``exaid.manifest``: which traces make up a data set, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadFile, FileRules, Problem, RecordSchema, Remark
from gatemark.exams.runlog.records.examples import (
    Example,
    change_record,
    drop_keys,
    make_bad,
    make_tagged_form,
)
from gatemark.exams.runlog.records.fields import (
    CaseId,
    Count,
    DatasetId,
    Hash,
    MasRunId,
    Moment,
    Uri,
    check_texts,
)
from gatemark.exams.runlog.records.names import hash_trace_dataset

MANIFEST_VERSION: Final = "2.0.0"


class ManifestDecoding(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Sampling settings of the model; null if the traces do not say."""

    temperature: float | None
    top_p: float | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET


class _ManifestPart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="record_type"
):
    """What all records of a manifest share."""


class ManifestMeta(_ManifestPart, frozen=True, tag="manifest_meta"):
    """Which data set this is; the first record. ``stub_mode`` is present only if true."""

    schema_version: Literal["2.0.0"]
    dataset_id: DatasetId
    mas_run_id: MasRunId
    created_at: Moment
    stub_mode: bool | UnsetType = UNSET


class ManifestProvenance(_ManifestPart, frozen=True, tag="provenance"):
    """Which code and model made the traces, and the hashes of their inputs."""

    mac_fork_url: Uri
    mac_commit: Annotated[str, Meta(min_length=40, max_length=40)]
    exaid_commit: str
    model: str
    decoding: ManifestDecoding
    case_list_hash: Hash
    config_hash: Hash
    case_list_hash_input: str | UnsetType = UNSET
    trace_dataset_hash: Hash | UnsetType = UNSET
    trace_dataset_hash_definition: str | UnsetType = UNSET


class TraceEntry(_ManifestPart, frozen=True, tag="trace_entry"):
    """One trace; ``sha256`` is the hash of its content before compression."""

    case_id: CaseId
    file: Annotated[str, Meta(min_length=1)]
    sha256: Hash
    delta_count: Count
    turn_count: Count


class ManifestSummary(_ManifestPart, frozen=True, tag="summary"):
    """The sums over all entries; the last record."""

    total_cases: Count
    total_deltas: Count
    total_turns: Count
    successful_cases: Count | UnsetType = UNSET
    failed_cases: Count | UnsetType = UNSET


ManifestRecord = ManifestMeta | ManifestProvenance | TraceEntry | ManifestSummary


class RunManifest(Struct, frozen=True):
    """A whole manifest."""

    meta: ManifestMeta
    provenance: ManifestProvenance
    entries: tuple[TraceEntry, ...]
    summary: ManifestSummary


_ORDER: Final = ("manifest_meta", "provenance", "trace_entry", "summary")


def check_manifest_record(record: ManifestRecord) -> Sequence[Problem]:
    """Return the problems of one manifest record."""
    found = list(check_texts(record, type(record)))
    if isinstance(record, ManifestMeta) and record.stub_mode is False:
        found.append(Problem("$.stub_mode", "is there only when it is true, got false"))
    return found


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


_HASH: Final = "sha256:" + "4f" * 32
_CASE: Final = "case-synth-000"
_CONTENT: Final = "sha256:" + "a7" * 32
_RUN: Final = "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf"

_META: Final[Example] = {
    "record_type": "manifest_meta",
    "schema_version": "2.0.0",
    "dataset_id": "exaid_traces_0a1b2c3d_0ad5f2b4_d22060bf",
    "mas_run_id": _RUN,
    "created_at": "2023-11-14T22:13:20.000Z",
}
_ENTRY: Final[Example] = {
    "record_type": "trace_entry",
    "case_id": _CASE,
    "file": "case-synth-000.trace.jsonl.gz",
    "sha256": _CONTENT,
    "delta_count": 412,
    "turn_count": 9,
}
_PROVENANCE: Final[Example] = {
    "record_type": "provenance",
    "mac_fork_url": "https://example.org/agents.git",
    "mac_commit": "0a1b2c3d" * 5,
    "exaid_commit": "unknown",
    "model": "synthetic-1",
    "decoding": {"temperature": 1.0, "top_p": None, "max_tokens": 4096, "seed": None},
    "case_list_hash": _HASH,
    "config_hash": _HASH,
    "trace_dataset_hash": hash_trace_dataset(
        case_list_hash=_HASH, mas_run=_RUN, traces=[(_CASE, _CONTENT)]
    ),
}
_SUMMARY: Final[Example] = {
    "record_type": "summary",
    "total_cases": 1,
    "total_deltas": 412,
    "total_turns": 9,
    "successful_cases": 1,
    "failed_cases": 0,
}
_FILE: Final = (_META, _PROVENANCE, _ENTRY, _SUMMARY)


SCHEMA: Final = RecordSchema(
    name="exaid.manifest",
    summary="Which traces make up a data set, with their hashes and where they came from.",
    tag="record_type",
    across=ManifestRules,
    forms=(
        make_tagged_form(
            ManifestMeta,
            check_manifest_record,
            (_META, _META | {"stub_mode": True}),
            (
                make_bad(_META, "another version", "schema_version", "1.0.0"),
                make_bad(_META, "a data set without a prefix", "dataset_id", "d1"),
                make_bad(_META, "a campaign in capitals", "mas_run_id", "mas_A"),
                make_bad(_META, "a day alone", "created_at", "2023-11-14"),
                make_bad(_META, "a day no calendar has", "created_at", "2023-02-30T00:00:00Z"),
                make_bad(_META, "said not to be a stub", "stub_mode", value=False),
                make_bad(_META, "a key nobody knows", "cases", 1, "$"),
                make_bad(_META, "no campaign", "mas_run_id"),
            ),
            identity="dataset_id",
        ),
        make_tagged_form(
            ManifestProvenance,
            check_manifest_record,
            (_PROVENANCE, drop_keys(_PROVENANCE, "trace_dataset_hash")),
            (
                make_bad(_PROVENANCE, "a short commit", "mac_commit", "0a1b2c3d"),
                make_bad(_PROVENANCE, "no address", "mac_fork_url", "fork"),
                make_bad(_PROVENANCE, "no temperature", "decoding", {"seed": 1}),
                make_bad(_PROVENANCE, "a bare hash", "case_list_hash", "4f" * 32),
                make_bad(_PROVENANCE, "no model", "model"),
            ),
            identity="mac_commit",
        ),
        make_tagged_form(
            TraceEntry,
            check_manifest_record,
            (_ENTRY, _ENTRY | {"case_id": "case-Synth-1", "delta_count": 0}),
            (
                make_bad(_ENTRY, "a suffix", "case_id", "case-synth-000.trace"),
                make_bad(_ENTRY, "deltas below zero", "delta_count", -1),
                make_bad(_ENTRY, "a hash in capitals", "sha256", "sha256:" + "A7" * 32),
                make_bad(_ENTRY, "no file", "file", ""),
            ),
        ),
        make_tagged_form(
            ManifestSummary,
            check_manifest_record,
            (_SUMMARY, drop_keys(_SUMMARY, "successful_cases", "failed_cases")),
            (
                make_bad(_SUMMARY, "cases below zero", "total_cases", -1),
                make_bad(_SUMMARY, "no turns", "total_turns"),
            ),
            identity="",
        ),
    ),
    good_files=(_FILE,),
    bad_files=(
        BadFile("a summary before the entries", (*_FILE[:2], _SUMMARY, _ENTRY), 4, "record_order"),
        BadFile("two metas", (_META, *_FILE), 2, "one_of_each"),
        BadFile("no summary", _FILE[:3], 1, "one_of_each"),
        BadFile("a case twice", (*_FILE[:3], _ENTRY, _SUMMARY), 4, "unique_entries"),
        BadFile(
            "a sum that is off",
            change_record(_FILE, 3, {"total_deltas": 400}),
            4,
            "summary_adds_up",
        ),
        BadFile(
            "a case that is not listed",
            change_record(_FILE, 3, {"total_cases": 2}),
            4,
            "summary_adds_up",
        ),
        BadFile(
            "the hash of other traces",
            change_record(_FILE, 1, {"trace_dataset_hash": _HASH}),
            2,
            "dataset_hash",
        ),
    ),
)
