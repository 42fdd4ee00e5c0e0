"""The chunk size of V3, chosen so that its chunks are as large as what V0's gate lets through."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from gatemark.core.errors import BadInputError
from gatemark.exams.runlog.records.names import UNKNOWN_COMMIT
from gatemark.exams.runlog.records.run import RunLog, TokengateFlush

SUBSET_COUNT: Final = 40
EXCLUDED_REASONS: Final = ("end_of_trace", "turn_end")
"""Flushes that say nothing about how the gate would have cut."""


class CaseChunks(Struct, frozen=True):
    """The flushes of one case that count, and the median of their sizes."""

    case_id: str
    flush_count: int
    median_ctu: float | None


class ChunkReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the chunk size was found, and for which traces, gate and code it holds."""

    chunk_size_ctu: int
    median_ctu: float
    subset_count: int
    excluded_reasons: tuple[str, ...]
    trace_dataset_hash: str
    tokengate_config_hash: str
    code_commit: str = UNKNOWN_COMMIT
    cases: tuple[CaseChunks, ...] = ()


def calibrate_chunks(
    case_ids: Sequence[str],
    logs: Iterable[RunLog],
    *,
    subset_count: int = SUBSET_COUNT,
    code_commit: str = UNKNOWN_COMMIT,
) -> ChunkReport:
    """The median over the first cases of each case's median flush, rounded up."""
    subset = list(case_ids[:subset_count])
    by_case = _by_case(logs, set(subset))
    absent = [case_id for case_id in subset if case_id not in by_case]
    if absent:
        raise BadInputError(f"case {absent[0]!r} has no V0 run log ({len(absent)} have none)")
    cases = tuple(_case(case_id, by_case[case_id]) for case_id in subset)
    medians = [case.median_ctu for case in cases if case.median_ctu is not None]
    if not medians:
        raise BadInputError("no case has a flush that counts; the chunk size cannot be found")
    middle = median(medians)
    first = by_case[subset[0]][0]
    return ChunkReport(
        chunk_size_ctu=math.ceil(middle),
        median_ctu=middle,
        subset_count=len(subset),
        excluded_reasons=EXCLUDED_REASONS,
        trace_dataset_hash=first.meta.trace_dataset_hash,
        tokengate_config_hash=first.meta.tokengate_config_hash,
        code_commit=code_commit,
        cases=cases,
    )


def _by_case(logs: Iterable[RunLog], wanted: set[str]) -> dict[str, list[RunLog]]:
    """The logs of the wanted cases; all must be V0's and of one evaluation."""
    found: dict[str, list[RunLog]] = {}
    pins: set[tuple[str, str]] = set()
    for log in logs:
        meta = log.meta
        if meta.variant_id != "V0":
            raise BadInputError(f"{meta.case_id}: is a log of {meta.variant_id}, expected V0")
        if meta.case_id in wanted:
            found.setdefault(meta.case_id, []).append(log)
            pins.add((meta.trace_dataset_hash, meta.tokengate_config_hash))
    if len(pins) > 1:
        raise BadInputError("the V0 run logs come from different traces or token gates")
    return found


def _case(case_id: str, logs: Sequence[RunLog]) -> CaseChunks:
    sizes = {
        _key(flush): flush.accumulated_ctu
        for log in logs
        for flush in log.flushes
        if flush.trigger_reason not in EXCLUDED_REASONS
    }
    return CaseChunks(case_id, len(sizes), median(sizes.values()) if sizes else None)


def _key(flush: TokengateFlush) -> tuple[object, ...]:
    """What makes two flushes the same one, seen twice."""
    return (
        flush.case_id,
        flush.start_seq,
        flush.end_seq,
        flush.accumulated_ctu,
        flush.trigger_reason,
        flush.text_hash,
    )


def refuse_mismatch(
    report: ChunkReport,
    *,
    trace_dataset_hash: str,
    tokengate_config_hash: str,
    code_commit: str | None,
) -> None:
    """Refuse a report of other traces, another gate, or other code; None skips the code."""
    pins = {
        "trace_dataset_hash": (report.trace_dataset_hash, trace_dataset_hash),
        "tokengate_config_hash": (report.tokengate_config_hash, tokengate_config_hash),
    }
    if code_commit is not None:
        pins["code_commit"] = (report.code_commit, code_commit)
    for name, (told, expected) in pins.items():
        if told != expected:
            raise BadInputError(f"the V3 report's {name} must be {expected}, got {told}")
