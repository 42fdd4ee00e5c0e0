"""The counts and rates of a group of records: the table of metrics over what was counted."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.plugins.advisory.counted_groups import GroupCounts
from gatemark.plugins.advisory.metrics import COUNT_METRICS, METRIC_BY_NAME, RATE_METRICS
from gatemark.plugins.advisory.ranged_number import (
    RangedNumber,
)


def measure_group(
    counts: GroupCounts, lost: int, lane: str | None = None
) -> Iterator[RangedNumber]:
    """Yield every count and rate of one group."""
    for metric in COUNT_METRICS:
        count = counts.parts[metric.name]
        yield metric.with_value(count, count, count + lost, n=counts.records, lane=lane)
    for metric in RATE_METRICS:
        count, n = counts.parts[metric.name], counts.wholes[metric.name]
        if n == 0 and metric.or_of is not None:
            n = counts.wholes[metric.or_of]
        if n == 0:
            yield metric.without_value(metric.empty(), lane=lane)
        else:
            low, high = count / (n + lost), (count + lost) / (n + lost)
            yield metric.with_value(count / n, low, high, n=n, lane=lane)


def measure_cases(counts: GroupCounts, lost: int, lane: str) -> RangedNumber:
    """Return how many of the four kinds of cases a lane lacks."""
    metric, lacking = METRIC_BY_NAME["missing_case_kind_count"], len(counts.missing_cases)
    return metric.with_value(lacking, max(0, lacking - lost), lacking, n=counts.records, lane=lane)
