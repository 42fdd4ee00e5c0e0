"""Rules of run-log metrics: versions, and numbers of a row that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import UNSET

from gatemark.core.record import FileRules, Grade, Problem, Remark
from gatemark.evidence.inputs import SameInput, normalize_id
from gatemark.exams.runlog.records.fields import (
    VARIANT_PATTERN,
    VERSION_PATTERN,
    check_texts,
    matches_pattern,
)
from gatemark.exams.runlog.records.metrics import AggregateMetrics, MetricsRecord, PerCaseMetrics

_KNOWN_VERSIONS: Final = ("2.0.", "2.1.", "2.2.")


def check_per_case(record: PerCaseMetrics) -> Sequence[Problem]:
    """Return the problems of one per-case record."""
    return [*check_texts(record, PerCaseMetrics), *_check_version(record.schema_version)]


def _check_version(version: str) -> Iterator[Problem]:
    if matches_pattern(VERSION_PATTERN, version) and not version.startswith(_KNOWN_VERSIONS):
        message = f"unknown version {version!r} (known: 2.0 to 2.2)"
        yield Problem("$.schema_version", message)


def check_aggregate(record: AggregateMetrics) -> Sequence[Problem]:
    """Return the problems of an aggregate."""
    found = [*check_texts(record, AggregateMetrics), *_check_version(record.schema_version)]
    found.extend(
        Problem("$.variants", f"{name[:80]!r} is not a variant")
        for name in record.variants
        if not matches_pattern(VARIANT_PATTERN, name)
    )
    return found


ROUNDING: Final = 1e-3
"""Tolerance of shares, because other tools round them."""


def find_contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    """Yield contradictions between the numbers of a row."""
    yield from _find_event_contradictions(row)
    yield from _find_concept_contradictions(row)
    if row.m9_total_llm_ctu != row.m9_prompt_ctu_total + row.m9_completion_ctu_total:
        yield Problem("$.m9_total_llm_ctu", "must be prompts and completions together")
    if (
        row.flush_count is not UNSET
        and row.flush_reason_counts is not UNSET
        and sum(row.flush_reason_counts.values()) != row.flush_count
    ):
        yield Problem("$.flush_reason_counts", f"must add up to flush_count={row.flush_count}")


def _find_event_contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    events, failures = row.m1_update_count, row.m10_schema_failure_count
    valid, excluded = row.faithfulness_valid_event_count, row.excluded_from_faithfulness_count
    if failures > events:
        yield Problem("$.m10_schema_failure_count", f"must be <= {events} updates, got {failures}")
    elif _is_off(row.m10_schema_failure_rate, failures / events if events else 0.0):
        message = f"must be {failures} of {events}, got {row.m10_schema_failure_rate:g}"
        yield Problem("$.m10_schema_failure_rate", message)
    if _is_off(row.m10_compliance_rate, 1 - row.m10_schema_failure_rate):
        yield Problem("$.m10_compliance_rate", "must be 1 - m10_schema_failure_rate")
    if valid + excluded != events:
        message = f"valid and excluded events must be {events} updates, got {valid + excluded}"
        yield Problem("$.faithfulness_valid_event_count", message)
    for name in ("m6a_mean", "m6b_mean"):
        if (getattr(row, name) is None) != (valid == 0):
            yield Problem(f"$.{name}", f"must be null exactly without valid events, has {valid}")
    pairs = max(0, events - 1)
    if row.m3_jaccards is not UNSET and len(row.m3_jaccards) != pairs:
        message = f"must hold {pairs} values for {events} updates, got {len(row.m3_jaccards)}"
        yield Problem("$.m3_jaccards", message)
    for name, values in (
        ("m3_redundancy_jaccard_mean", row.m3_jaccards),
        ("m8_summary_latency_ms_mean", row.m8_summary_latencies_ms),
        ("m8_buffer_decision_latency_ms_mean", row.m8_buffer_decision_latencies_ms),
    ):
        if values is not UNSET:
            expected = sum(values) / len(values) if values else None
            stated = getattr(row, name)
            if (stated is None) != (expected is None) or (expected and _is_off(stated, expected)):
                yield Problem(f"$.{name}", f"must be the mean of the listed values, got {stated}")


def _find_concept_contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    budgets = row.m7b_coverage_by_budget
    steps = (budgets.ctu_250, budgets.ctu_500, budgets.ctu_1000, budgets.ctu_2000)
    for smaller, larger in pairwise((*steps, row.m4_trace_coverage)):
        if smaller > larger + ROUNDING:
            message = f"coverage must not fall with the budget, got {smaller:g} before {larger:g}"
            yield Problem("$.m7b_coverage_by_budget", message)
    if row.m4_trace_coverage > 0 and not (row.m4_trace_cui_count and row.m4_summary_cui_count):
        yield Problem("$.m4_trace_coverage", "must be 0 where trace or summaries have no concepts")
    if row.m5_unsupported_global_rate > 0 and not row.m4_summary_cui_count:
        yield Problem("$.m5_unsupported_global_rate", "must be 0 where summaries have no concepts")


def _is_off(stated: float, expected: float) -> bool:
    return abs(stated - expected) > ROUNDING * max(1.0, abs(expected))


class MetricsRules(FileRules):
    """A case occurs once per variant, and the numbers of a row agree.

    A row that contradicts itself is a warning; ``strict`` makes it an error, for verdicts.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._grade: Grade = "error" if strict else "warning"

    def see(self, lines: Sequence[int], records: Sequence[MetricsRecord]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            if not isinstance(record, PerCaseMetrics):
                continue
            name = f"{record.case_id} under {record.variant_id}"
            key = (normalize_id(record.case_id), record.variant_id)
            first, first_name = self._first.setdefault(key, (line, name))
            if first != line:
                same = SameInput.named(name, first_name, f"on line {first}")
                yield Remark(line, "once_per_variant", "$.case_id", same.describe())
            for problem in find_contradictions(record):
                rule = "numbers_agree"
                yield Remark(line, rule, problem.path, problem.message, self._grade)

    def lost(self) -> None:
        """Do nothing; no rule depends on lost lines."""

    def end(self) -> Iterator[Remark]:
        yield from ()
