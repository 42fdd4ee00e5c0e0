from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.runlog.toys import (
    WordTrace,
    decision,
    event,
    flush,
    letters,
    log,
    measure,
    usage,
)

from gatemark.core.errors import BadInputError
from gatemark.plugins.runlog.metrics.case import (
    compute_case_metrics,
    find_threshold_rates,
    measure_coverage,
    measure_coverage_within,
    measure_flush_intervals,
    measure_jaccard,
    measure_unsupported,
)
from gatemark.plugins.runlog.records.metrics import BUDGETS, BudgetCoverage, ThresholdRates
from gatemark.plugins.runlog.records.names import count_ctu

LETTERS = st.frozensets(st.sampled_from("ABCDEFGH"))


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ü" * 8, 2)]
)
def test_a_text_unit_is_four_characters_begun(text: str, units: int) -> None:
    assert count_ctu(text) == units


def worked():
    """The example of the documentation page: four summaries over a trace of five concepts."""
    return measure(
        log(
            event(0, "A B", (0, 2), summary_ctu=200),
            event(1, "A C X", (2, 4), latest="case-1-V0-se-000", summary_ctu=100),
            event(2, "D", (4, 6), ok=False, latest="case-1-V0-se-001", summary_ctu=300),
            event(3, "", (6, 7), latest="case-1-V0-se-002", summary_ctu=50),
        ),
        "A b B c C d D E",
    )


def test_m1_and_m2_count_failed_summaries_too() -> None:
    assert worked().m1_update_count == 4
    assert worked().m2_output_ctu == 650


def test_m2_takes_the_size_of_the_text_where_none_is_recorded() -> None:
    assert measure(log(event(0, "A B C D E", (0, 0)))).m2_output_ctu == 3


def test_m3_compares_neighbours_and_counts_failed_summaries_as_empty() -> None:
    found = worked()
    assert found.m3_jaccards == [1 / 4, 0.0, 0.0]
    assert found.m3_redundancy_jaccard_mean == pytest.approx(1 / 12)
    assert found.m3_redundancy_threshold_rates == ThresholdRates(0.0, 0.0, 0.0)


def test_m3_needs_two_summaries() -> None:
    found = measure(log(event(0, "A")))
    assert found.m3_redundancy_jaccard_mean is None
    assert found.m3_redundancy_threshold_rates == ThresholdRates(None, None, None)


def test_two_empty_summaries_are_not_redundant() -> None:
    assert measure(log(event(0, ""), event(1, ""))).m3_jaccards == [0.0]


def test_a_jaccard_on_the_line_counts_as_redundant() -> None:
    rates = find_threshold_rates((0.85, 0.9, 0.89, 1.0))
    assert rates == ThresholdRates(1.0, 0.5, 0.25)


def test_m4_is_the_share_of_the_trace_that_was_said() -> None:
    found = worked()
    assert found.m4_trace_coverage == pytest.approx(3 / 5)
    assert found.m4_trace_cui_count == 5
    assert found.m4_summary_cui_count == 4


def test_m4_of_a_trace_without_concepts_is_zero() -> None:
    found = measure(log(event(0, "A", summary_ctu=1)), "no concepts here")
    assert found.m4_trace_coverage == 0.0
    assert found.m7b_coverage_by_budget == BudgetCoverage(0.0, 0.0, 0.0, 0.0)
    assert found.m5_unsupported_global_rate == 1.0


def test_a_failed_summary_adds_nothing_to_coverage() -> None:
    failed = measure(log(event(0, "A B", ok=False)), "A B")
    assert failed.m4_trace_coverage == 0.0
    assert failed.m5_unsupported_global_rate == 0.0
    assert failed.m4_summary_cui_count == 0


def test_m5_is_the_share_of_what_was_said_that_the_trace_does_not_hold() -> None:
    found = worked()
    assert found.m5_unsupported_global_rate == pytest.approx(1 / 4)
    assert found.m5_unsupported_per_summary_mean == pytest.approx((0 + 1 / 3) / 2)


def test_m5_per_summary_is_null_when_no_valid_summary_says_anything() -> None:
    found = measure(log(event(0, ""), event(1, "A", ok=False)), "A")
    assert found.m5_unsupported_per_summary_mean is None
    assert found.m5_unsupported_global_rate == 0.0


def test_m6a_holds_each_summary_against_its_window() -> None:
    # 0: window A b B, all supported. 1: window B c C, A and X are not. 3: says nothing, 0.
    assert worked().m6a_mean == pytest.approx((0 + 2 / 3 + 0) / 3)


def test_m6b_of_the_worked_example_finds_support_in_the_summary_before() -> None:
    assert worked().m6b_mean == pytest.approx((0 + 1 / 3 + 0) / 3)


def test_failed_summaries_are_excluded_from_faithfulness_and_counted() -> None:
    found = worked()
    assert found.faithfulness_valid_event_count == 3
    assert found.excluded_from_faithfulness_count == 1


def test_m6_is_null_when_every_summary_failed() -> None:
    found = measure(log(event(0, "A", ok=False)), "A")
    assert found.m6a_mean is None
    assert found.m6b_mean is None


def test_a_valid_summary_without_text_counts_as_fully_supported() -> None:
    found = measure(log(event(0, "")), "A")
    assert found.m6a_mean == 0.0
    assert found.m6b_mean == 0.0


def test_m6b_also_accepts_what_the_latest_summary_said() -> None:
    records = (
        event(0, "A", (0, 0)),
        event(1, "A B", (1, 1), latest="case-1-V0-se-000"),
    )
    found = measure(log(*records), "A B")
    assert found.m6a_mean == pytest.approx((0 + 1 / 2) / 2)
    assert found.m6b_mean == 0.0


def test_m6b_may_rest_on_a_failed_summary() -> None:
    records = (
        event(0, "A", (0, 0), ok=False),
        event(1, "A B", (1, 1), latest="case-1-V0-se-000"),
    )
    assert measure(log(*records), "A B").m6b_mean == 0.0


@pytest.mark.parametrize("latest", [None, "case-1-V0-se-777"])
def test_m6b_without_a_latest_summary_is_m6a(latest: str | None) -> None:
    records = (event(0, "A", (0, 0)), event(1, "A B", (1, 1), latest=latest))
    found = measure(log(*records), "A B")
    assert found.m6b_mean == found.m6a_mean == pytest.approx(1 / 4)


def test_a_concept_may_stand_across_the_seam_of_window_and_summary() -> None:
    def pairs(text: str) -> frozenset[str]:
        words = text.split()
        return frozenset(f"{a} {b}" for a, b in pairwise(words))

    found = compute_case_metrics(
        log(event(0, "x y", (0, 0)), event(1, "a x", (1, 1), latest="case-1-V0-se-000")),
        WordTrace(("x y", "a")),
        pairs,
        tokengate_config_hash_match=True,
        dataset_manifest_hash_valid=True,
    )
    assert found.m6a_mean == 0.5
    assert found.m6b_mean == 0.0


def test_m7b_takes_the_longest_prefix_that_fits() -> None:
    # 200 fits 250; 200 + 100 fits 500; the failed one uses 300 and says nothing.
    assert worked().m7b_coverage_by_budget == BudgetCoverage(2 / 5, 3 / 5, 3 / 5, 3 / 5)


def test_m7b_does_not_skip_a_summary_that_is_too_long() -> None:
    said = (frozenset("A"), frozenset("B"), frozenset("C"))
    found = measure_coverage_within((100, 400, 10), said, frozenset("ABC"))
    assert found.ctu_250 == pytest.approx(1 / 3)
    assert found.ctu_1000 == 1.0


def test_m7b_lets_a_summary_fill_its_budget_to_the_last_unit() -> None:
    trace = frozenset("A")
    assert measure_coverage_within((250,), (trace,), trace).ctu_250 == 1.0
    assert measure_coverage_within((251,), (trace,), trace).ctu_250 == 0.0


def test_m8_means_the_latencies_that_were_recorded() -> None:
    found = measure(
        log(
            event(0, latency_ms=100),
            event(1, latency_ms=300),
            event(2),
            decision(0, latency_ms=7),
        )
    )
    assert found.m8_summary_latency_ms_mean == 200.0
    assert found.m8_buffer_decision_latency_ms_mean == 7.0
    assert msgspec.to_builtins(found.m8_summary_latency_distribution_ms) == {
        "count": 2,
        "min": 100.0,
        "max": 300.0,
        "mean": 200.0,
        "p50": 200.0,
        "p90": pytest.approx(280.0),
        "p95": pytest.approx(290.0),
        "p99": pytest.approx(298.0),
    }


def test_m8_is_null_without_records() -> None:
    found = measure(log(event(0, latency_ms=1)))
    assert found.m8_buffer_decision_latency_ms_mean is None
    assert found.m8_buffer_decision_latency_distribution_ms is None


def test_m9_adds_up_events_and_decisions_and_takes_what_is_missing_as_nothing() -> None:
    found = measure(
        log(
            event(0, llm_usage=usage(120, 45)),
            event(1, llm_usage=None),
            decision(0, "summarize", input_ctu=35, llm_usage=usage(35, 5)),
            decision(1, "buffer", input_ctu=20),
            decision(2, "buffer"),
        )
    )
    assert found.m9_prompt_ctu_total == 155
    assert found.m9_completion_ctu_total == 50
    assert found.m9_total_llm_ctu == 205
    assert found.m9_buffer_decision_count == 3
    assert found.m9_buffer_decision_ctu == 55
    assert found.m9_decision_counts == {"buffer": 2, "summarize": 1}


def test_m10_is_the_share_of_failed_summaries() -> None:
    found = worked()
    assert found.m10_schema_failure_count == 1
    assert found.m10_schema_failure_rate == 0.25
    assert found.m10_compliance_rate == 0.75


def test_a_log_without_summaries_has_no_failures() -> None:
    found = measure(log(), "A")
    assert found.m1_update_count == 0
    assert found.m2_output_ctu == 0
    assert found.m10_schema_failure_rate == 0.0
    assert found.m10_compliance_rate == 1.0
    assert found.m4_trace_coverage == 0.0
    assert found.m6a_mean is None


def test_events_are_taken_in_the_order_of_their_index() -> None:
    shuffled = measure(log(event(1, "B", summary_ctu=200), event(0, "A", summary_ctu=200)), "A B")
    assert shuffled.m7b_coverage_by_budget.ctu_250 == 0.5
    first_only = measure(log(event(1, "A B", summary_ctu=9), event(0, "", summary_ctu=300)), "A B")
    assert first_only.m7b_coverage_by_budget.ctu_250 == 0.0


def test_intervals_between_flushes_leave_out_steps_back() -> None:
    moments = ("10:00:00.000Z", "10:00:01.500Z", "10:00:01.000Z", "10:00:02.000Z")
    flushes = [flush(i, f"2025-12-21T{moment}") for i, moment in enumerate(moments)]
    assert measure_flush_intervals(flushes) == ((1500.0, 500.0), 1)


def test_flushes_are_counted_by_reason() -> None:
    found = measure(
        log(
            flush(0, "2025-12-21T10:00:00Z", 10, "boundary_cue"),
            flush(1, "2025-12-21T10:00:01Z", 30, "boundary_cue"),
            flush(2, "2025-12-21T10:00:02Z", 20, "end_of_trace"),
        )
    )
    assert found.flush_count == 3
    assert found.flush_reason_counts == {"boundary_cue": 2, "end_of_trace": 1}
    assert found.flush_accumulated_ctu_distribution is not None
    assert found.flush_accumulated_ctu_distribution.p50 == 20.0
    assert found.flush_interval_ms_distribution is not None
    assert found.flush_interval_ms_distribution.mean == 1000.0


def test_a_flush_without_a_reason_is_counted_as_unknown() -> None:
    assert measure(log(flush(0, "2025-12-21T10:00:00Z", 1, None))).flush_reason_counts == {
        "unknown": 1
    }


@pytest.mark.parametrize("timestamp", ["yesterday", "2025-12-21T10:00:00"])
def test_a_flush_stamped_with_no_moment_is_refused(timestamp: str) -> None:
    with pytest.raises(BadInputError, match="tokengate_flush 0: timestamp"):
        measure(log(flush(0, timestamp)))


def test_throughput_is_in_virtual_time() -> None:
    found = measure(log(event(0, summary_ctu=3)), ["abcd"] * 101)
    assert found.virtual_time_duration_ms == 1000
    assert found.trace_ctu == count_ctu(" ".join(["abcd"] * 101))
    assert found.trace_ctu_per_s == found.trace_ctu
    assert found.summary_ctu_per_s == 3.0


def test_throughput_is_null_when_no_time_passes() -> None:
    found = measure(log(event(0, summary_ctu=3)), "A")
    assert found.trace_ctu_per_s is None
    assert found.summary_ctu_per_s is None


def test_latency_is_split_between_deciding_and_summarising() -> None:
    found = measure(log(event(0, latency_ms=300), decision(0, latency_ms=100)))
    assert found.control_plane_latency_ms == 100
    assert found.content_plane_latency_ms == 300
    assert found.total_plane_latency_ms == 400
    assert found.control_plane_latency_pct == 0.25
    assert found.content_plane_latency_pct == 0.75


def test_the_split_of_no_latency_is_null() -> None:
    found = measure(log(event(0)))
    assert found.total_plane_latency_ms == 0
    assert found.control_plane_latency_pct is None


def test_a_file_suffix_in_the_case_id_is_taken_off() -> None:
    assert measure(log(case="case-1.trace")).case_id == "case-1"


@settings(deadline=None, max_examples=60)
@given(LETTERS, LETTERS)
def test_rates_over_sets_keep_to_their_laws(left: frozenset[str], right: frozenset[str]) -> None:
    assert measure_jaccard(left, right) == measure_jaccard(right, left)
    assert 0 <= measure_jaccard(left, right) <= 1
    assert (measure_jaccard(left, right) == 1) == (left == right != frozenset())
    if left:
        assert measure_unsupported(left, right) == pytest.approx(1 - measure_coverage(right, left))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 700), LETTERS), max_size=6), LETTERS)
def test_coverage_never_falls_with_a_larger_budget(
    events: list[tuple[int, frozenset[str]]], trace: frozenset[str]
) -> None:
    sizes, said = [size for size, _ in events], [concepts for _, concepts in events]
    found = msgspec.structs.astuple(measure_coverage_within(sizes, said, trace))
    assert list(found) == sorted(found)
    assert all(value <= measure_coverage(frozenset().union(*said), trace) for value in found)
    assert len(found) == len(BUDGETS)


def test_the_toy_extractor_finds_capital_letters() -> None:
    assert letters("A b C cd") == frozenset("AC")
