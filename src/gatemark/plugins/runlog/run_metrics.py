"""The metrics of run logs, M1 to M10, and their value in one case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.core.measurement import Direction
from gatemark.core.reason import ReasonKind
from gatemark.plugins.runlog.records.metrics import (
    BUDGETS,
    THRESHOLDS,
    Distribution,
    PerCaseMetrics,
)

BUDGET_KEYS = {f"ctu_{budget}": budget for budget in BUDGETS}
THRESHOLD_KEYS = {f"tau_{least:.2f}": least for least in THRESHOLDS}
T = TypeVar("T")
Needs = Literal["nothing", "said", "trace"]


class RunMetric(NamedTuple):
    """One number per case: its name, label, better direction and unit.

    ``pooled`` metrics are aggregated over all events of all cases, the others over cases. ``needs``
    names the side that must have concepts; without any, a 0 means nothing.
    """

    name: str
    label: str
    direction: Direction
    unit: str = "ratio"
    pooled: bool = False
    needs: Needs = "nothing"


LOWER: Direction = "lower_is_better"
HIGHER: Direction = "higher_is_better"
M3, M8_SUMMARY = "m3_redundancy_jaccard_mean", "m8_summary_latency_ms_mean"
M8_DECISION = "m8_buffer_decision_latency_ms_mean"
METRICS: dict[str, RunMetric] = {
    metric.name: metric
    for metric in (
        RunMetric("m1_update_count", "M1 updates", "neutral", "count"),
        RunMetric("m2_output_ctu", "M2 output", "neutral", "CTU"),
        RunMetric(M3, "M3 redundancy", LOWER, pooled=True, needs="said"),
        RunMetric("m4_trace_coverage", "M4 coverage", HIGHER, needs="trace"),
        RunMetric("m5_unsupported_global_rate", "M5 unsupported by the trace", LOWER, needs="said"),
        RunMetric(
            "m5_unsupported_per_summary_mean", "M5 unsupported, per summary", LOWER, needs="said"
        ),
        RunMetric("m6a_mean", "M6a unsupported by the window", LOWER, needs="said"),
        RunMetric("m6b_mean", "M6b unsupported by window or latest", LOWER, needs="said"),
        *(
            RunMetric(f"m7b_{name}", f"M7b coverage in {budget} CTU", HIGHER, needs="trace")
            for name, budget in BUDGET_KEYS.items()
        ),
        RunMetric(M8_SUMMARY, "M8 summary latency", LOWER, "ms", pooled=True),
        RunMetric(M8_DECISION, "M8 decision latency", LOWER, "ms", pooled=True),
        RunMetric("m9_prompt_ctu_total", "M9 prompts", LOWER, "CTU"),
        RunMetric("m9_completion_ctu_total", "M9 completions", LOWER, "CTU"),
        RunMetric("m9_total_llm_ctu", "M9 both", LOWER, "CTU"),
        RunMetric("m9_buffer_decision_count", "M9 decisions", LOWER, "count"),
        RunMetric("m10_schema_failure_rate", "M10 failures", LOWER, pooled=True),
        RunMetric("m10_compliance_rate", "M10 compliance", HIGHER, pooled=True),
    )
}
SCORES = tuple(
    name
    for name, metric in METRICS.items()
    if metric.unit == "ratio" and metric.direction != "neutral"
)
"""Metrics in [0, 1] with a better direction, which can become a score."""


def get_value(row: PerCaseMetrics, name: str) -> float | None:
    """Return the value of a metric in one case; None if it has none."""
    budget = name.removeprefix("m7b_")
    found: float | None = getattr(row if budget == name else row.m7b_coverage_by_budget, budget)
    return found


def count_alike(row: PerCaseMetrics, threshold: str) -> float:
    """Return how many consecutive summaries reach a similarity threshold."""
    if row.m3_jaccards is not UNSET:
        return sum(value >= THRESHOLD_KEYS[threshold] for value in row.m3_jaccards)
    rates: dict[str, float | None] = msgspec.to_builtins(row.m3_redundancy_threshold_rates)
    return (rates[threshold] or 0.0) * (row.m1_update_count - 1)


def find_pool(row: PerCaseMetrics, name: str) -> tuple[float, float] | None:
    """Return the sum and the count that a case adds to a pooled metric; None if it lacks them.

    Rows of other tools have no list of values; their means and counts give the same pool.
    """
    events, failures = row.m1_update_count, row.m10_schema_failure_count
    parts: dict[str, tuple[Sequence[float] | UnsetType, int | None]] = {
        M3: (row.m3_jaccards, max(0, events - 1)),
        M8_SUMMARY: (
            row.m8_summary_latencies_ms,
            _get_count(row.m8_summary_latency_distribution_ms),
        ),
        M8_DECISION: (
            row.m8_buffer_decision_latencies_ms,
            _get_count(row.m8_buffer_decision_latency_distribution_ms),
        ),
    }
    if name not in parts:
        return (failures if name == "m10_schema_failure_rate" else events - failures), events
    (values, count), mean = parts[name], get_value(row, name)
    if values is not UNSET:
        return sum(values), len(values)
    if mean is None:
        return 0.0, 0
    return (mean * count, count) if count else None


def get_known(value: T | UnsetType | None) -> T | None:
    """Return a value; None if the record does not have it."""
    return None if value is UNSET else value


def _get_count(found: Distribution | UnsetType | None) -> int | None:
    return found.count if isinstance(found, Distribution) else None


NO_CONCEPT_SAID: Final = ReasonKind(
    "no_concept_said", "no summary holds a concept that the extractor knows"
)
NO_CONCEPT_IN_TRACE: Final = ReasonKind(
    "no_concept_in_trace", "no trace holds a concept that the extractor knows"
)
NOTHING_FOUND: Mapping[Needs, ReasonKind] = {
    "said": NO_CONCEPT_SAID,
    "trace": NO_CONCEPT_IN_TRACE,
}


def has_substance(name: str, rows: Iterable[PerCaseMetrics]) -> bool:
    """Return whether any row has the concepts that a metric needs."""
    needs = METRICS[name].needs
    if needs == "said":
        return any(row.m4_summary_cui_count for row in rows)
    return needs == "nothing" or any(row.m4_trace_cui_count for row in rows)


def list_caveats(rows: Sequence[PerCaseMetrics]) -> Iterator[str]:
    """Yield caveats about the numbers of one variant."""
    count = len(rows)
    without_trace = sum(row.m4_trace_cui_count == 0 for row in rows)
    mute = sum(row.faithfulness_valid_event_count == 0 for row in rows)
    silent = sum(row.m4_summary_cui_count == 0 for row in rows) - mute
    stubs = sum(row.stub_trace_detected is True for row in rows)
    if without_trace == count:
        yield f"{NO_CONCEPT_IN_TRACE()}: M4 and M7b could not be measured"
    elif without_trace:
        yield f"{without_trace} of {count} traces hold no concept; M4 and M7b count them as 0"
    if silent + mute == count:
        yield f"{NO_CONCEPT_SAID()}: M3, M5 and M6 could not be measured"
    elif silent:
        yield (
            f"{silent} of {count} cases have no concept in any summary; M5, M6a and M6b count them "
            "as 0, the best there is"
        )
    if 0 < mute < count:
        yield (
            f"{mute} of {count} cases have no valid summary; M5 counts them as 0, and M6a and M6b "
            "leave them out"
        )
    if stubs:
        yield f"{stubs} of {count} traces are stubs, which stand in for missing ones"
    if count == 1:
        yield "there is one case, so that intervals over cases have no width"


def list_values(name: str, rows: Sequence[PerCaseMetrics]) -> list[float]:
    """Return the value of a metric in each case that has one."""
    return [value for row in rows if (value := get_value(row, name)) is not None]


def get_limits(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can take."""
    return (0.0, 1.0) if METRICS[name].unit == "ratio" else (-inf, inf)
