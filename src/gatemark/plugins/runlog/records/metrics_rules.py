"""The rules of each record of metrics, as rows: a place, a condition, a demand, a sentence.

A record that breaks one of ``*_RULES`` is refused. ``NUMBERS`` are the numbers of a row that
contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import add, le
from typing import Final

from gatemark.evidence.record_rules import (
    RecordRule,
    RecordRules,
    fits,
    follows_from,
    matches,
    names_match,
)
from gatemark.plugins.runlog.records.fields import VARIANT_PATTERN
from gatemark.plugins.runlog.records.metrics import BUDGETS

PER_CASE_RULES: Final = (
    RecordRule(
        "$.schema_version",
        must=matches(r"^2\.[0-2]\.[0-9]+$"),
        says="unknown version {value!r} (known: 2.0 to 2.2)",
    ),
)
AGGREGATE_RULES: Final = (
    *PER_CASE_RULES,
    RecordRule(
        "$.variants",
        must=names_match(VARIANT_PATTERN),
        says="must have the names of variants: letters, digits and _, a letter first",
    ),
)

ROUNDING: Final = 1e-3
"""Tolerance of shares, because other tools round them."""


def _is_near(stated: float, expected: float) -> bool:
    return abs(stated - expected) <= ROUNDING * max(1.0, abs(expected))


def _is_failure_rate(rate: float, failures: int, events: int) -> bool:
    """Whether a rate is that of the counts; counts that are wrong themselves cannot tell."""
    return failures > events or _is_near(rate, failures / events if events else 0.0)


def _is_mean(stated: float | None, values: Sequence[float] | None) -> bool:
    """Whether a mean is that of the listed values, if they are listed."""
    if values is None:
        return True
    expected = sum(values) / len(values) if values else None
    if stated is None or expected is None:
        return stated is expected
    return not expected or _is_near(stated, expected)


def _count_pairs(events: int) -> int:
    return max(0, events - 1)


def _is_covered(_budgets: object, smaller: float, larger: float) -> bool:
    return smaller <= larger + ROUNDING


def _state_count_rules() -> Iterator[RecordRule]:
    """Yield how the counts of events fit each other."""
    events = "m1_update_count"
    yield RecordRule(
        "$.m10_schema_failure_count",
        must=fits(le, events),
        says="must be <= {record.m1_update_count} updates, got {value}",
    )
    yield RecordRule(
        "$.m10_schema_failure_rate",
        must=fits(_is_failure_rate, "m10_schema_failure_count", events),
        says="must be {record.m10_schema_failure_count} of {record.m1_update_count}, got {value:g}",
    )
    yield RecordRule(
        "$.m10_compliance_rate",
        must=fits(lambda held, failed: _is_near(held, 1 - failed), "m10_schema_failure_rate"),
        says="must be 1 - m10_schema_failure_rate",
    )
    yield RecordRule(
        "$.faithfulness_valid_event_count",
        must=fits(
            lambda valid, excluded, all_: valid + excluded == all_,
            "excluded_from_faithfulness_count",
            events,
        ),
        says="valid and excluded events must be {record.m1_update_count} updates, "
        "got {value} and {record.excluded_from_faithfulness_count}",
    )
    for name in ("m6a_mean", "m6b_mean"):
        yield RecordRule(
            f"$.{name}",
            must=fits(
                lambda mean, valid: (mean is None) == (valid == 0),
                "faithfulness_valid_event_count",
            ),
            says="must be null exactly without valid events, "
            "has {record.faithfulness_valid_event_count}",
        )
    yield RecordRule(
        "$.m3_jaccards",
        must=fits(
            lambda found, events: found is None or len(found) == _count_pairs(events),
            events,
            wanted=_count_pairs,
        ),
        says="must hold {wanted} values for {record.m1_update_count} updates, got {count}",
    )


def _state_mean_rules() -> Iterator[RecordRule]:
    """Yield that means are those of the listed values."""
    for name, values in (
        ("m3_redundancy_jaccard_mean", "m3_jaccards"),
        ("m8_summary_latency_ms_mean", "m8_summary_latencies_ms"),
        ("m8_buffer_decision_latency_ms_mean", "m8_buffer_decision_latencies_ms"),
    ):
        yield RecordRule(
            f"$.{name}",
            must=fits(_is_mean, values),
            says="must be the mean of the listed values, got {value}",
        )


def _state_sum_rules() -> Iterator[RecordRule]:
    """Yield that sums are those of their parts."""
    yield RecordRule(
        "$.m9_total_llm_ctu",
        must=follows_from(add, "m9_prompt_ctu_total", "m9_completion_ctu_total"),
        says="must be prompts and completions together",
    )
    yield RecordRule(
        "$.flush_reason_counts",
        must=fits(
            lambda counts, total: None in (counts, total) or sum(counts.values()) == total,
            "flush_count",
        ),
        says="must add up to flush_count={record.flush_count}",
    )


def _state_concept_rules() -> Iterator[RecordRule]:
    """Yield that more budget covers no less, and that nothing is covered without concepts."""
    budgets = [f"m7b_coverage_by_budget.ctu_{budget}" for budget in BUDGETS]
    for smaller, larger in pairwise((*budgets, "m4_trace_coverage")):
        yield RecordRule(
            "$.m7b_coverage_by_budget",
            must=fits(_is_covered, smaller, larger),
            says="coverage must not fall with the budget, "
            f"got {{record.{smaller}:g}} before {{record.{larger}:g}}",
        )
    yield RecordRule(
        "$.m4_trace_coverage",
        must=fits(
            lambda share, trace, said: share == 0 or (trace > 0 and said > 0),
            "m4_trace_cui_count",
            "m4_summary_cui_count",
        ),
        says="must be 0 where trace or summaries have no concepts",
    )
    yield RecordRule(
        "$.m5_unsupported_global_rate",
        must=fits(lambda share, said: share == 0 or said > 0, "m4_summary_cui_count"),
        says="must be 0 where summaries have no concepts",
    )


NUMBERS: Final = RecordRules(
    (*_state_count_rules(), *_state_mean_rules(), *_state_concept_rules(), *_state_sum_rules())
)
