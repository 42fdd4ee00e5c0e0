"""Cases that stand out: slow summaries, many flushes, little covered.

The thresholds are percentiles over the rows of all variants together, so that a variant is
measured against its siblings and not only against itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.exams.runlog.records.metrics import PerCaseMetrics
from gatemark.statistics.quantiles import linear_percentile

HIGH_PERCENT = 95
LOW_PERCENT = 5
LATENCY, FLUSHES, COVERAGE = "latency_spike", "excessive_flushes", "low_coverage"


class Thresholds(msgspec.Struct, frozen=True):
    """The lines that a case must cross to stand out; None when there was nothing to draw one by."""

    latency_ms: float | None
    flush_count: float | None
    coverage: float | None


def outlier_thresholds(rows: Sequence[PerCaseMetrics]) -> Thresholds:
    """The 95th percentiles of latency and flushes and the 5th of coverage, over all rows."""
    latencies = [
        row.m8_summary_latency_ms_mean for row in rows if row.m8_summary_latency_ms_mean is not None
    ]
    return Thresholds(
        latency_ms=linear_percentile(latencies, HIGH_PERCENT),
        flush_count=linear_percentile([_flushes(row) for row in rows], HIGH_PERCENT),
        coverage=linear_percentile([row.m4_trace_coverage for row in rows], LOW_PERCENT),
    )


def with_outliers(rows: Sequence[PerCaseMetrics]) -> tuple[PerCaseMetrics, ...]:
    """The rows with their flags; a value on the line does not stand out."""
    lines = outlier_thresholds(rows)
    return tuple(_flagged(row, lines) for row in rows)


def _flagged(row: PerCaseMetrics, lines: Thresholds) -> PerCaseMetrics:
    latency = row.m8_summary_latency_ms_mean
    is_slow = latency is not None and lines.latency_ms is not None and latency > lines.latency_ms
    is_busy = lines.flush_count is not None and _flushes(row) > lines.flush_count
    is_thin = lines.coverage is not None and row.m4_trace_coverage < lines.coverage
    names = ((LATENCY, is_slow), (FLUSHES, is_busy), (COVERAGE, is_thin))
    return msgspec.structs.replace(
        row,
        outlier_flags=[name for name, found in names if found],
        outlier_latency_spike=is_slow,
        outlier_excessive_flushes=is_busy,
        outlier_low_coverage=is_thin,
    )


def _flushes(row: PerCaseMetrics) -> int:
    return row.flush_count if isinstance(row.flush_count, int) else 0
