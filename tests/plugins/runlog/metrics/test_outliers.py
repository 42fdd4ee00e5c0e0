from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.plugins.runlog.toys import event, log, measure

from gatemark.plugins.runlog.metrics.errors import find_outlier_thresholds, flag_outliers
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics


def row(
    latency: float | None, flushes: int, coverage: float, variant: str = "V0"
) -> PerCaseMetrics:
    base = measure(log(event(0), variant=variant))
    return msgspec.structs.replace(
        base,
        m8_summary_latency_ms_mean=latency,
        flush_count=flushes,
        m4_trace_coverage=coverage,
    )


def test_thresholds_are_percentiles_over_all_variants_together() -> None:
    rows = [row(float(i), i, i / 100, f"V{i % 5}") for i in range(1, 41)]
    found = find_outlier_thresholds(rows)
    assert found.latency_ms == pytest.approx(np.percentile(range(1, 41), 95))
    assert found.flush_count == pytest.approx(38.05)
    assert found.coverage == pytest.approx(0.0295)


def test_rows_beyond_a_line_are_flagged_in_a_fixed_order() -> None:
    rows = [row(float(i), i, i / 100) for i in range(1, 41)]
    rows[0] = row(99.0, 99, 0.0)
    flagged = flag_outliers(rows)
    assert flagged[0].outlier_flags == ["latency_spike", "excessive_flushes", "low_coverage"]
    assert flagged[0].outlier_latency_spike
    assert flagged[0].outlier_excessive_flushes
    assert flagged[0].outlier_low_coverage
    assert flagged[20].outlier_flags == []


def test_a_value_on_the_line_does_not_stand_out() -> None:
    flagged = flag_outliers([row(5.0, 5, 0.5)] * 3)
    assert all(each.outlier_flags == [] for each in flagged)


def test_a_case_without_latency_is_never_a_latency_spike() -> None:
    rows = [row(None, 1, 0.5) for _ in range(30)]
    assert find_outlier_thresholds(rows).latency_ms is None
    assert not any(each.outlier_latency_spike for each in flag_outliers(rows))
    mixed = flag_outliers([*rows, row(1.0, 1, 0.5), row(2.0, 1, 0.5)])
    assert [each.outlier_latency_spike for each in mixed[-2:]] == [False, True]


def test_no_rows_give_no_flags() -> None:
    assert flag_outliers([]) == ()
