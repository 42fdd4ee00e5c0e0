"""Langfuse data sets: exported items, with their expected outputs, as JSON, JSON Lines or CSV.

Items come as a list, as a page of the public API (``data``), or inside their data set (``items``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.samples import spans
from gatemark.samples.foreign_json import decode, find_key_paths
from gatemark.samples.gathering import Gathering, make_log_importer, make_tags
from gatemark.samples.importer import ForeignFile, Imported, LogExperiment
from gatemark.samples.tables import ForeignTable, read_foreign_table, read_header

_TARGETS: Final = ("expectedOutput", "expected_output")
_MARKS: Final = frozenset(
    {"datasetId", "dataset_id", "datasetName", "dataset_name", "sourceTraceId", "source_trace_id"}
)

_PLACES: Final = ("", "[].", "data[].", "items[].")


class _Page(msgspec.Struct):
    data: list[msgspec.Raw] = []
    items: list[msgspec.Raw] = []


def _sniff(head: bytes, filename: str) -> bool:
    """Recognise items of a data set: an input and an expected output."""
    paths = find_key_paths(head)
    header = set(read_header(head, filename)) if filename.endswith((".csv", ".tsv")) else set()
    for names in (
        header,
        *({p.removeprefix(at) for p in paths if p.startswith(at)} for at in _PLACES),
    ):
        if "input" in names and names & set(_TARGETS) and names & _MARKS:
            return True
    return False


def _read_arms(table: ForeignTable) -> tuple[LogExperiment, ...]:
    return (LogExperiment("items", len(table.rows)),)


def _read(table: ForeignTable, gathering: Gathering) -> Imported:
    """Read one sample per item: input and expected output, without an answer or a score."""
    gathering.choose_arm(_read_arms(table))
    archived = 0
    for place, row, _ in gathering.read_typed(table.rows, dict[str, object]):
        if str(row.get("status") or "").upper() == "ARCHIVED":
            archived += 1
            continue
        metadata = spans.decode_value(row.get("metadata"))
        tags = make_tags(metadata if isinstance(metadata, dict) else None)
        trace = _read_either(row, ("sourceTraceId", "source_trace_id"))
        if isinstance(trace, str) and trace:
            tags["source_trace"] = trace
        gathering.add(
            place,
            item=gathering.choose_id(place, row, row.get("id")),
            given=spans.decode_value(row.get("input")),
            target=spans.decode_value(_read_either(row, _TARGETS)),
            tags=tags,
        )
        dataset = _read_either(row, ("datasetName", "dataset_name"))
        if isinstance(dataset, str):
            gathering.lineage["dataset"] = dataset
    if archived:
        gathering.note(f"{archived} archived items are left out")
    gathering.note("a data set has no answers: use it as the data of a suite")
    return gathering.finish()


def _load(file: ForeignFile, _gathering: Gathering) -> ForeignTable:
    paths = find_key_paths(file.head)
    place = next((name for name in ("data", "items") if f"{name}[].input" in paths), None)
    if place is None or "input" in paths:
        return read_foreign_table(file)
    page = decode(file.data, _Page, file.name)
    listed = b"[" + b",".join(bytes(raw) for raw in page.data or page.items) + b"]"
    return read_foreign_table(ForeignFile(name=f"{file.name}: {place}", data=listed))


def _read_either(row: dict[str, object], names: Sequence[str]) -> object:
    return next((row[name] for name in names if row.get(name) is not None), None)


IMPORTER: Final = make_log_importer(
    "langfuse-dataset",
    "Langfuse data sets (exported items, .json, .jsonl or .csv)",
    sniff=_sniff,
    load=_load,
    arms=_read_arms,
    read=_read,
)
