from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import scipy.stats

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.measurement import Evidence
from gatemark.core.policy import decide
from gatemark.core.result import Curves, Forest, Stacks, Table
from gatemark.evidence.exam import ExamReport
from gatemark.evidence.exam_suite import suites
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.runlog.estimates import widen_interval
from gatemark.plugins.runlog.exam import RunlogExam
from gatemark.plugins.runlog.examine import examine_metrics_files
from gatemark.plugins.runlog.options import RunlogOptions
from gatemark.plugins.runlog.records.metrics import (
    THRESHOLDS,
    BudgetCoverage,
    Distribution,
    PerCaseMetrics,
    ThresholdRates,
)
from gatemark.plugins.runlog.run_metrics import METRICS, SCORES
from gatemark.statistics.quantiles import summarize_distribution
from gatemark.testing.exams import check_exam

from .toys import decision, event, flush, log, measure, usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STAMP = "2025-12-21T10:00:0{}Z"


def some_case(case: int, variant: str, *, said: str = "A B", ok: bool = True) -> PerCaseMetrics:
    found = log(
        flush(0, STAMP.format(0), 20 + case, "boundary_cue"),
        flush(1, STAMP.format(case % 7 + 1), 10, "end_of_trace"),
        event(0, said, (0, 3), summary_ctu=100 + case, latency_ms=50.0 * (case + 1)),
        event(1, "B X", (2, 4), ok=ok, latest="case-1-V0-se-000", summary_ctu=90, latency_ms=10.0),
        decision(0, "summarize", input_ctu=5, latency_ms=20.0 + case, llm_usage=usage(30, 4)),
        case=f"case-{case}",
        variant=variant,
    )
    return measure(found, "A b B c C D")


def rows(count: int = 6) -> list[PerCaseMetrics]:
    return [
        some_case(case, variant, said=said, ok=case % 3 != 0)
        for variant, said in (("V0", "A B"), ("V1", "A"), ("V2", "A B C D"))
        for case in range(count)
    ]


def exam(**options: Any) -> RunlogExam:
    return RunlogExam(RunlogOptions(**{"bootstrap_samples": 200, **options}), measures())


def sat(records: Sequence[Any], **options: Any) -> ExamReport:
    built = exam(**options)
    return built.finish(built.step(built.zero(0), records))


def aggregate(records: Sequence[Any], variant: str = "V0", **options: Any) -> dict[str, Any]:
    return sat(records, **options).facts["aggregate"][variant]


def test_the_suite_is_found_by_its_kind() -> None:
    suite = suites().get("runlog")
    assert suite.build(suite.options(), measures()).policy().rules


def test_any_split_of_the_rows_gives_the_same_report() -> None:
    check_exam(exam(), rows())


def changed(row: PerCaseMetrics, **fields: Any) -> PerCaseMetrics:
    return msgspec.structs.replace(row, **fields)


def two_cases(**fields: Sequence[Any]) -> list[PerCaseMetrics]:
    """Two cases of V0 whose named fields take the two values given."""
    base = [some_case(0, "V0"), some_case(1, "V0")]
    return [
        changed(row, **{name: values[at] for name, values in fields.items()})
        for at, row in enumerate(base)
    ]


def test_counts_and_usage_are_means_over_cases() -> None:
    found = aggregate(
        two_cases(
            m1_update_count=(2, 5),
            m2_output_ctu=(100, 300),
            m9_total_llm_ctu=(10, 30),
            m9_buffer_decision_count=(0, 3),
        )
    )
    assert found["m1_update_count_mean"] == 3.5
    assert found["m2_output_ctu_mean"] == 200
    assert found["m9_usage_ctu_mean"]["total"] == 20
    assert found["m9_usage_ctu_mean"]["buffer_decision_count"] == 1.5


def test_m3_is_pooled_over_all_neighbours_and_not_averaged_over_cases() -> None:
    found = aggregate(two_cases(m3_jaccards=((1.0, 0.9, 0.2), (0.5,))))["m3_redundancy"]
    assert found["jaccard_mean"] == pytest.approx(2.6 / 4)
    assert found["threshold_rates"] == {"tau_0.85": 0.5, "tau_0.90": 0.5, "tau_0.95": 0.25}


def test_m3_of_cases_without_neighbours_is_null() -> None:
    found = aggregate(two_cases(m3_jaccards=((), ())))["m3_redundancy"]
    assert found["jaccard_mean"] is None
    assert set(found["threshold_rates"].values()) == {None}


def test_m4_is_the_mean_of_the_cases_with_the_published_kind_of_interval() -> None:
    values = np.random.default_rng(7).random(40)
    base = some_case(0, "V0")
    records = [
        changed(base, case_id=f"case-{at:02d}", m4_trace_coverage=float(value))
        for at, value in enumerate(values)
    ]
    found = aggregate(records, bootstrap_samples=300)["m4_trace_coverage"]
    state = np.random.RandomState(42)
    means = [np.mean(state.choice(values, size=40, replace=True)) for _ in range(300)]
    assert found == {
        "mean": np.mean(values),
        "ci_low": np.percentile(means, 2.5),
        "ci_high": np.percentile(means, 97.5),
    }


def test_m6_drops_cases_without_a_valid_summary_and_says_how_many() -> None:
    records = two_cases(m6a_mean=(None, 0.25), m6b_mean=(None, None))
    found = aggregate(records)
    assert found["m6a"] == {"mean": 0.25, "ci_low": 0.25, "ci_high": 0.25}
    assert found["m6b"] == {"mean": None, "ci_low": None, "ci_high": None}
    assert found["intervals"]["m6a_mean"]["cases_left_out"] == 1
    report = sat(records)
    assert report.score is not None
    assert report.score.value is None
    assert str(report.score.reason) == "no case has a value"


def test_m5_per_summary_is_the_mean_of_what_is_not_null() -> None:
    found = aggregate(
        two_cases(
            m5_unsupported_global_rate=(0.2, 0.4), m5_unsupported_per_summary_mean=(None, 0.5)
        )
    )
    assert found["m5_unsupported"] == {
        "global_rate_mean": pytest.approx(0.3),
        "per_summary_mean": 0.5,
    }


def test_m7b_is_a_mean_per_budget() -> None:
    budgets = [BudgetCoverage(low, 0.5, 0.5, 1.0) for low in (0.0, 0.5)]
    found = aggregate(two_cases(m7b_coverage_by_budget=budgets))["m7b_coverage_by_budget_mean"]
    assert found == {"ctu_250": 0.25, "ctu_500": 0.5, "ctu_1000": 0.5, "ctu_2000": 1.0}


def test_m8_is_pooled_over_events() -> None:
    found = aggregate(
        two_cases(
            m8_summary_latencies_ms=((100.0, 200.0, 300.0), (1000.0,)),
            m8_buffer_decision_latencies_ms=((), ()),
        )
    )
    assert found["m8_latency_ms_mean"] == {"summary": 400.0, "buffer_decision": None}
    assert found["m8_latency_ms_distribution"]["summary"]["count"] == 4
    assert found["m8_latency_ms_distribution"]["buffer_decision"] is None


def test_m10_is_pooled_failures_over_events() -> None:
    found = aggregate(two_cases(m1_update_count=(9, 1), m10_schema_failure_count=(0, 1)))
    assert found["m10_compliance"] == {
        "schema_failure_rate_mean": pytest.approx(0.1),
        "compliance_rate_mean": pytest.approx(0.9),
        "schema_failure_count": 1,
        "summary_event_count": 10,
    }
    assert found["schema_failures"] == 1


def test_compliance_is_one_minus_the_failure_rate_to_the_last_bit() -> None:
    found = aggregate(two_cases(m1_update_count=(2, 1), m10_schema_failure_count=(1, 1)))
    assert found["m10_compliance"]["compliance_rate_mean"] == 1.0 - 2 / 3 != 1 / 3


def test_m10_without_events_is_null() -> None:
    found = aggregate(two_cases(m1_update_count=(0, 0), m10_schema_failure_count=(0, 0)))
    assert found["m10_compliance"]["schema_failure_rate_mean"] is None
    assert found["m10_compliance"]["compliance_rate_mean"] is None


def test_reasons_are_means_with_nothing_as_zero() -> None:
    found = aggregate(
        two_cases(flush_reason_counts=({"boundary_cue": 4}, {"max_words": 1}), flush_count=(4, 1))
    )["flush_statistics"]
    assert found["flush_reason_counts_mean"] == {"boundary_cue": 2.0, "max_words": 0.5}
    assert found["flush_count_mean"] == 2.5


def test_overhead_shares_are_taken_of_totals() -> None:
    found = aggregate(
        two_cases(control_plane_latency_ms=(10.0, 30.0), content_plane_latency_ms=(0.0, 120.0))
    )["overhead_attribution"]
    assert found["total_plane_latency_ms_total"] == 160.0
    assert found["control_plane_latency_pct"] == 0.25
    nothing = aggregate(
        two_cases(control_plane_latency_ms=(0.0, 0.0), content_plane_latency_ms=(0.0, 0.0))
    )["overhead_attribution"]
    assert nothing["control_plane_latency_pct"] is None


def test_stub_traces_and_traces_without_concepts_are_counted() -> None:
    found = aggregate(two_cases(stub_trace_detected=(True, False), m4_trace_cui_count=(0, 3)))
    assert found["stub_trace_count"] == 1
    assert found["traces_without_concepts_count"] == 1


LISTS = ("m3_jaccards", "m8_summary_latencies_ms", "m8_buffer_decision_latencies_ms")
SHAPES = ("m8_summary_latency_distribution_ms", "m8_buffer_decision_latency_distribution_ms")


def test_records_without_values_and_counts_leave_the_metric_unmeasured() -> None:
    unset = dict.fromkeys((*LISTS, *SHAPES), msgspec.UNSET)
    plain = changed(some_case(0, "V0"), **unset)
    numbers = {number.name: number for number in sat([plain]).measurements}
    number = numbers["m8_summary_latency_ms_mean"]
    assert number.value is None
    assert "do not carry" in str(number.reason)


def test_means_and_counts_pool_to_the_same_as_the_values() -> None:
    def spread(values: Sequence[float]) -> Distribution:
        return msgspec.convert(summarize_distribution(values), Distribution)

    events = (5, 2)
    jaccards = ((1.0, 0.9, 0.2, 0.95), (0.5,))
    latencies = ((100.0, 300.0, 20.0, 8.0, 7.0), (500.0, 1.0))
    whole = two_cases(
        m1_update_count=events,
        m3_jaccards=jaccards,
        m3_redundancy_jaccard_mean=[sum(one) / len(one) for one in jaccards],
        m3_redundancy_threshold_rates=[
            ThresholdRates(*(sum(v >= t for v in one) / len(one) for t in THRESHOLDS))
            for one in jaccards
        ],
        m8_summary_latencies_ms=latencies,
        m8_summary_latency_ms_mean=[sum(one) / len(one) for one in latencies],
        m8_summary_latency_distribution_ms=[spread(one) for one in latencies],
    )
    rows = [changed(row, **dict.fromkeys(LISTS, msgspec.UNSET)) for row in whole]
    ours, theirs = aggregate(whole), aggregate(rows)
    assert theirs["m3_redundancy"]["jaccard_mean"] == pytest.approx(3.55 / 5)
    for name in ("jaccard_mean", "threshold_rates"):
        assert theirs["m3_redundancy"][name] == pytest.approx(ours["m3_redundancy"][name])
    assert theirs["m8_latency_ms_mean"]["summary"] == pytest.approx(936 / 7)


def test_variants_are_compared_case_by_case_against_the_judged_one() -> None:
    records = rows(9)
    compared = [
        entry
        for entry in sat(records).facts["paired"]
        if (entry["metric"], entry["variant"]) == ("m4_trace_coverage", "V2")
    ]
    (entry,) = compared
    by_case = {(row.variant_id, row.case_id): row.m4_trace_coverage for row in records}
    differences = [by_case["V0", f"case-{at}"] - by_case["V2", f"case-{at}"] for at in range(9)]
    assert entry["mean_difference"] == pytest.approx(np.mean(differences))
    assert entry["n_pairs"] == 9
    assert entry["unpaired_cases"] == 0
    assert entry["ci_low"] <= entry["mean_difference"] <= entry["ci_high"] <= 0
    expected = scipy.stats.wilcoxon(differences, method="asymptotic").pvalue
    assert entry["wilcoxon_p_value"] == pytest.approx(expected)
    assert entry["wilcoxon_p_value_holm"] >= entry["wilcoxon_p_value"]


def test_only_shared_cases_are_paired_and_the_others_counted() -> None:
    records = [row for row in rows(5) if (row.variant_id, row.case_id) != ("V1", "case-4")]
    entries = [entry for entry in sat(records).facts["paired"] if entry["variant"] == "V1"]
    assert {entry["unpaired_cases"] for entry in entries} == {1}
    assert entries[0]["n_pairs"] == 4


def test_one_variant_alone_is_compared_with_nothing() -> None:
    assert sat([some_case(0, "V0")]).facts["paired"] == []


def evidence(**fields: Any) -> Evidence:
    defaults: dict[str, Any] = {
        "received": 6,
        "accepted": 6,
        "rejected": 0,
        "usable": 6,
        "missing": 0,
        "expected": 6,
        "files": (),
    }
    return Evidence(**{**defaults, **fields})


def outcome(report: ExamReport, built: RunlogExam, account: Evidence | None = None) -> str:
    verdict = decide(built.policy(), (account or evidence(),), report.measurements, (), now=NOW)
    return verdict.outcome


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({}, "pass"),
        ({"m4_trace_coverage": 0.5}, "pass"),
        ({"m4_trace_coverage": 0.5000001}, "fail"),
        ({"m10_schema_failure_rate": 1 / 6}, "pass"),
        ({"m10_schema_failure_rate": 1 / 6 - 1e-9}, "fail"),
    ],
)
def test_gates_hold_up_to_their_line(gates: dict[str, float], expected: str) -> None:
    built = exam(gates=gates)
    assert outcome(built.finish(built.step(built.zero(0), rows())), built) == expected


def test_a_gate_on_what_could_not_be_measured_is_inconclusive() -> None:
    built = exam(gates={"m6a_mean": 0.5})
    report = built.finish(built.step(built.zero(0), two_cases(m6a_mean=(None, None))))
    assert outcome(report, built) == "inconclusive"


def test_a_missing_case_holds_the_verdict_open() -> None:
    built = exam()
    report = built.finish(built.step(built.zero(0), rows()))
    assert outcome(report, built, evidence(usable=5, missing=1)) == "inconclusive"
    lenient = exam(coverage_gate=0.8)
    assert outcome(report, lenient, evidence(usable=5, missing=1)) == "pass"


def test_a_variant_that_is_not_there_cannot_pass() -> None:
    built = exam(variant="V4")
    report = built.finish(built.step(built.zero(0), rows()))
    assert outcome(report, built) == "inconclusive"
    assert report.score is not None
    assert str(report.score.reason) == "no record is of variant V4"


def test_a_variant_without_a_single_summary_cannot_pass() -> None:
    built = exam()
    empty = measure(log(case="case-0"), "A")
    assert outcome(built.finish(built.step(built.zero(0), [empty])), built) == "inconclusive"


def silent_rows(words: str, said: str, variant: str = "V0") -> list[PerCaseMetrics]:
    return [
        measure(
            log(event(0, said, (0, 1)), event(1, said, (0, 1)), case=name, variant=variant), words
        )
        for name in ("case-0", "case-1")
    ]


def test_shares_of_summaries_without_a_concept_are_not_taken_for_perfect_ones() -> None:
    built = exam(gates={"m6b_mean": 0.1})
    report = built.finish(built.step(built.zero(0), silent_rows("A B", "nothing known")))
    assert report.facts["aggregate"]["V0"]["m6b"]["mean"] == 0.0
    assert outcome(report, built) == "inconclusive"
    assert report.score is not None
    assert str(report.score.reason) == "no summary holds a concept that the extractor knows"
    numbers = {number.name: number for number in report.measurements}
    for name in ("m3_redundancy_jaccard_mean", "m5_unsupported_global_rate", "m6a_mean"):
        assert numbers[name].reason == report.score.reason
    assert numbers["m4_trace_coverage"].value == 0.0
    assert numbers["m10_compliance_rate"].value == 1.0
    (caveat,) = numbers["summary_event_count"].caveats
    assert caveat.startswith(str(report.score.reason))
    table = next(one for one in report.figures if isinstance(one, Table))
    assert ("M6b unsupported by window or latest", "lower", "none") in table.rows


def test_coverage_of_traces_without_a_concept_is_not_measured() -> None:
    built = exam(gates={"m4_trace_coverage": 0.0})
    report = built.finish(built.step(built.zero(0), silent_rows("a b", "A")))
    assert outcome(report, built) == "inconclusive"
    numbers = {number.name: number for number in report.measurements}
    assert str(numbers["m7b_ctu_250"].reason) == "no trace holds a concept that the extractor knows"
    assert numbers["m5_unsupported_global_rate"].value == 1.0


def test_a_variant_that_says_nothing_known_does_not_win_a_comparison() -> None:
    report = sat([*silent_rows("A B", "A X"), *silent_rows("A B", "nothing", "V1")])
    compared = {entry["metric"]: entry for entry in report.facts["paired"]}
    assert compared["m6b_mean"]["mean_difference"] is None
    assert compared["m6b_mean"]["n_pairs"] == 0
    assert compared["m4_trace_coverage"]["mean_difference"] == 0.5


def test_cases_that_count_as_0_stubs_and_a_single_case_are_told_beside_the_numbers() -> None:
    def told(*records: PerCaseMetrics) -> tuple[str, ...]:
        numbers = {number.name: number for number in sat(records).measurements}
        return numbers["summary_event_count"].caveats

    assert told(some_case(0, "V0"), some_case(1, "V0")) == ()
    (quiet, _) = silent_rows("a b", "nothing")
    traces, cases = told(some_case(5, "V0"), quiet)
    assert traces == "1 of 2 traces hold no concept; M4 and M7b count them as 0"
    assert cases.startswith("1 of 2 cases have no concept in any summary; M5, M6a and M6b count")
    assert told(some_case(5, "V0"), measure(log(case="case-1"), "A")) == (
        "1 of 2 cases have no valid summary; M5 counts them as 0, and M6a and M6b leave them out",
    )
    (alone,) = told(some_case(0, "V0"))
    assert alone.startswith("there is one case")
    stub = msgspec.structs.replace(some_case(0, "V0"), stub_trace_detected=True)
    assert told(stub, some_case(1, "V0")) == (
        "1 of 2 traces are stubs, which stand in for missing ones",
    )


@pytest.mark.parametrize("name", SCORES)
def test_every_score_lies_between_0_and_1_and_points_up(name: str) -> None:
    report = sat(rows(), score=name)
    assert report.score is not None
    assert report.score.direction == "higher_is_better"
    assert report.score.value is not None
    assert 0 <= report.score.value <= 1
    (number,) = (n for n in report.measurements if n.key == (name, "V0"))
    assert number.value is not None
    turned = 1 - number.value if number.direction == "lower_is_better" else number.value
    assert report.score.value == pytest.approx(turned)
    assert report.score.interval is not None
    assert report.score.interval.low <= report.score.value <= report.score.interval.high


@pytest.mark.parametrize(
    "options",
    [
        {"score": "m1_update_count"},
        {"score": "m11"},
        {"gates": {"m11": 1.0}},
        {"gates": {"m1_update_count": 1.0}},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        RunlogOptions(**options)


def test_the_page_shows_variants_side_by_side_with_direction_and_pictures() -> None:
    report = sat(rows())
    table = next(figure for figure in report.figures if isinstance(figure, Table))
    assert table.columns == ("Metric", "Better", "V0", "V1", "V2")
    words = {row[0]: row for row in table.rows}
    assert words["M6b unsupported by window or latest"][1] == "lower"
    assert words["M4 coverage"][1:3] == ("higher", "0.500 [0.500, 0.500]")
    kinds = [type(figure) for figure in report.figures]
    assert kinds.count(Curves) == 1
    assert kinds.count(Forest) == 1
    assert kinds.count(Stacks) == 2
    assert {number.direction for number in report.measurements} == {
        "higher_is_better",
        "lower_is_better",
        "neutral",
    }


def test_unsupported_shares_are_lower_is_better() -> None:
    for name in ("m5_unsupported_global_rate", "m6a_mean", "m6b_mean"):
        assert METRICS[name].direction == "lower_is_better"


def scaled(count: int, variant: str, **values: Sequence[float]) -> list[PerCaseMetrics]:
    base = [some_case(case, variant) for case in range(count)]
    return [
        changed(row, **{name: np.array(numbers)[at].item() for name, numbers in values.items()})
        for at, row in enumerate(base)
    ]


def judged(records: Sequence[Any], **options: Any) -> str:
    """The verdict on some rows."""
    made = exam(**options)
    return outcome(made.finish(made.step(made.zero(0), list(records))), made)


def test_a_gate_on_the_interval_is_open_where_the_value_alone_would_pass() -> None:
    values = np.random.default_rng(3).uniform(0.2, 0.38, 20)
    records = scaled(20, "V0", m6b_mean=values)
    assert judged(records, gates={"m6b_mean": 0.3}) == "pass"
    assert judged(records, gates={"m6b_mean": 0.3}, gates_on="interval") == "inconclusive"
    assert judged(records, gates={"m6b_mean": 0.35}, gates_on="interval") == "pass"
    assert judged(records, gates={"m6b_mean": 0.2}, gates_on="interval") == "fail"


def test_few_cases_and_rare_cases_do_not_slip_under_an_interval() -> None:
    alike = scaled(9, "V0", m6b_mean=[0.1] * 9)
    assert judged(alike, gates={"m6b_mean": 0.3}, gates_on="interval") == "inconclusive"
    calm = scaled(20, "V0", m6b_mean=[0.0] * 20)
    assert judged(calm, gates={"m6b_mean": 0.1}, gates_on="interval") == "inconclusive"
    many = scaled(40, "V0", m6b_mean=[0.0] * 40)
    assert judged(many, gates={"m6b_mean": 0.1}, gates_on="interval") == "pass"
    latency = scaled(40, "V0", m9_total_llm_ctu=[10] * 40)
    assert judged(latency, gates={"m9_total_llm_ctu": 20}, gates_on="interval") == "inconclusive"


def test_rare_damage_passes_a_gate_on_the_interval_in_at_most_5_percent() -> None:
    random = np.random.default_rng(11)
    passes = 0
    trials = 400
    for _ in range(trials):
        # One case of twenty loses everything: the true mean is 0.05, just beyond the bound.
        values = (random.random(40) < 0.05).astype(float)
        found = widen_interval(*_resampled(values, random), values.tolist(), (0.0, 1.0))
        assert found is not None
        passes += found[1] <= 0.049
    assert passes / trials <= 0.05


def _resampled(values: Any, random: np.random.Generator) -> tuple[float, float]:
    means = values[random.integers(0, len(values), (300, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def test_a_paired_gate_sees_what_two_means_hide() -> None:
    random = np.random.default_rng(5)
    before = random.uniform(0.1, 0.8, 30)
    records = [
        *scaled(30, "V0", m6b_mean=before),
        *scaled(30, "V4", m6b_mean=np.clip(before + 0.05 + random.normal(0, 0.005, 30), 0, 1)),
        *scaled(30, "V3", m6b_mean=np.clip(before + random.normal(0, 0.005, 30), 0, 1)),
    ]
    paired = {"reference": "V0", "paired_gates": {"m6b_mean": 0.02}}
    assert judged(records, variant="V4", **paired) == "fail"
    assert judged(records, variant="V3", **paired) == "pass"
    tight = {"reference": "V0", "paired_gates": {"m6b_mean": 0.0}}
    assert judged(records, variant="V3", **tight) == "inconclusive"
    assert judged(records[:9] + records[60:69], variant="V3", **paired) == "inconclusive"
    assert judged(records[:30], **{**paired, "reference": "V2"}) == "inconclusive"


def test_a_higher_metric_is_worse_when_it_falls() -> None:
    random = np.random.default_rng(6)
    before = random.uniform(0.4, 0.8, 20)
    records = [
        *scaled(20, "V0", m4_trace_coverage=before),
        *scaled(20, "V1", m4_trace_coverage=before - 0.1 + random.normal(0, 0.01, 20)),
    ]
    paired = {"paired_gates": {"m4_trace_coverage": 0.05}}
    assert judged(records, variant="V1", reference="V0", **paired) == "fail"
    assert judged(records, variant="V0", reference="V1", **paired) == "pass"


def test_paired_gates_need_another_variant() -> None:
    for reference in (None, "V0"):
        with pytest.raises(InvalidValueError, match="reference must be another variant"):
            RunlogOptions(reference=reference, paired_gates={"m6b_mean": 0.1})
    with pytest.raises(InvalidValueError, match="paired_gates: unknown metric 'm0'"):
        RunlogOptions(reference="V1", paired_gates={"m0": 0.1})


def test_means_without_a_list_of_values_are_pooled() -> None:
    plain = [changed(some_case(0, "V0"), **dict.fromkeys(LISTS, msgspec.UNSET))]
    numbers = {number.name: number for number in sat(plain).measurements}
    assert numbers["m3_redundancy_jaccard_mean"].value is not None


def test_cases_that_come_again_under_other_ids_do_not_make_a_gate_pass() -> None:
    def case(number: int, rate: float) -> PerCaseMetrics:
        row = some_case(number, "V0")
        return changed(
            row, m6b_mean=rate, m1_update_count=6, m8_summary_latency_ms_mean=90.0 + number
        )

    gates = {"gates": {"m6b_mean": 0.3}}
    rows = [case(0, 0.1), case(1, 0.9)]
    assert judged(rows, **gates) == "fail"
    again = [changed(rows[0], case_id=f"copy-{n}") for n in range(9)]
    assert judged([*rows, *again], **gates) == "inconclusive"
    assert judged([case(n, 0.1) for n in range(9)], **gates) == "pass"


def test_a_case_under_an_id_that_looks_the_same_is_refused(tmp_path: Path) -> None:
    row = msgspec.to_builtins(some_case(0, "V0"))
    path = tmp_path / "rows.jsonl"
    names = (row["case_id"], row["case_id"].upper(), f"{row['case_id']}\u200b")
    for other in names[1:]:
        lines = [json.dumps(row | {"case_id": name}) for name in (names[0], other)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with pytest.raises(BadInputError, match="looks like case-0 under V0 on line 1"):
            examine_metrics_files([str(path)], {}, ReadingChoices())
