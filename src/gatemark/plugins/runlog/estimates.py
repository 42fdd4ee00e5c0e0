"""Estimates of every metric of one variant.

M3, M8 and M10 are pooled over all events of all cases; the others are means over cases. An interval
resamples cases: 10,000 times with numpy's legacy generator, seeded again per metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, NamedTuple

from gatemark.core.reason import Reason, ReasonKind
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.run_metrics import (
    METRICS,
    NOTHING_FOUND,
    find_pool,
    has_substance,
    list_values,
)
from gatemark.statistics.proportion import clopper_pearson_interval
from gatemark.statistics.resampling.percentile_bootstrap import (
    MeanInterval,
    percentile_mean,
    percentile_ratio,
)

FEW_OTHERS = 5
NO_CASE_VALUE: Final = ReasonKind("no_case_value", "no case has a value")
NOT_POOLED: Final = ReasonKind(
    "not_pooled", "the records do not carry what {metric} is pooled from"
)
NOTHING_TO_POOL: Final = ReasonKind("nothing_to_pool", "there is nothing to pool")
"""Minimum number of differing cases for which resampling is trusted."""


def drop_unsubstantiated(
    found: Mapping[str, VariantEstimate], rows: Sequence[PerCaseMetrics]
) -> dict[str, VariantEstimate]:
    """Return the estimates, without metrics for which no concepts were found."""
    return {
        name: estimate
        if has_substance(name, rows)
        else VariantEstimate(None, NOTHING_FOUND[METRICS[name].needs](), len(rows))
        for name, estimate in found.items()
    }


class Draws(NamedTuple):
    """Seed and number of resamples of the intervals."""

    seed: int
    resamples: int


class VariantEstimate(NamedTuple):
    """An estimate of one metric of a variant, or the reason why there is none."""

    found: MeanInterval | None
    reason: Reason
    left_out: int


def estimate_variant(rows: Sequence[PerCaseMetrics], draws: Draws) -> dict[str, VariantEstimate]:
    """Return every metric of one variant."""
    return {name: _estimate_metric(name, rows, draws) for name in METRICS}


def widen_interval(
    low: float, high: float, values: Sequence[float], limits: tuple[float, float]
) -> tuple[float, float] | None:
    """Return an interval that also holds if hardly any case differs from the others.

    Resampling cannot draw what no case showed: without a failure among the cases it has no width.
    If fewer than five cases differ, the share of cases that may differ is bounded exactly
    (Clopper-Pearson), and such a case may have any value that the metric can take. None if the
    metric has no limits.
    """
    usual, count = Counter(values).most_common(1)[0]
    others = len(values) - count
    if others >= FEW_OTHERS:
        return low, high
    lowest, highest = limits
    if not (isfinite(lowest) and isfinite(highest)):
        return None
    share = clopper_pearson_interval(others, len(values))[1]
    return min(usual + share * (lowest - usual), low), max(usual + share * (highest - usual), high)


def _estimate_metric(name: str, rows: Sequence[PerCaseMetrics], draws: Draws) -> VariantEstimate:
    if not METRICS[name].pooled:
        values = list_values(name, rows)
        found = percentile_mean(values, **draws._asdict())
        return VariantEstimate(found, NO_CASE_VALUE(), len(rows) - len(values))
    pools = [find_pool(row, name) for row in rows]
    known = [pool for pool in pools if pool is not None]
    if len(known) < len(pools):
        return VariantEstimate(None, NOT_POOLED(metric=name), len(rows))
    parts, wholes = [part for part, _ in known], [whole for _, whole in known]
    ratio = percentile_ratio(parts, wholes, **draws._asdict())
    return VariantEstimate(ratio, NOTHING_TO_POOL(), len(rows) - (ratio.n if ratio else 0))
