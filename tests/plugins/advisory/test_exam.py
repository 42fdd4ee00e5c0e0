from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.core.result import Stacks, Table
from gatemark.plugins.advisory import merge_states
from gatemark.plugins.advisory.category import CATEGORIES, COMPARABLE, SEVERITY_ORDER
from gatemark.plugins.advisory.confidence_buckets import BUCKETS, choose_bucket
from gatemark.plugins.advisory.record import CLOSED_FLAGS
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.testing.exams import check_exam

from .decisions import (
    ACTION,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    FELL_BACK,
    LANE,
    NORMAL,
    OTHER,
    PROBE,
    SHADOWED,
    UNPROVED,
    UNREFERENCED,
    UNSURE,
    WRONG,
    decision,
    derive_kind,
    exam_of,
    findings_of,
    good_lane,
    named,
    numbered,
    policy_of,
    report_of,
    summary_of,
    typed,
    verdict_of,
)

FLAGS = CLOSED_FLAGS.__struct_fields__
LABELS = ("suppress", "no_action", "log", "escalate", "summarize", "needs_human", "unknown")
LANES = (LANE, OTHER, "voice_audio/npu_voice_audio_pipeline")


@st.composite
def decisions(draw: st.DrawFn) -> dict[str, Any]:
    """Any sound record, violations and all."""
    score = draw(st.none() | st.floats(0, 1))
    reference = draw(
        st.sampled_from(["fixture_expected", "human_label", "atlas_shadow", "missing"])
    )
    changes: dict[str, Any] = {
        "recommendation.label": draw(st.sampled_from(LABELS)),
        "recommendation.severity": draw(st.sampled_from(SEVERITY_ORDER)),
        "confidence.score": score,
        "confidence.bucket": choose_bucket(score),
        "human_or_atlas_decision": {"source": "missing"}
        if reference == "missing"
        else {
            "source": reference,
            "label": draw(st.sampled_from(LABELS)),
            "severity": draw(st.none() | st.sampled_from(SEVERITY_ORDER)),
        },
        "source.kind": draw(st.sampled_from(["fixture", "service_health_probe"])),
        "service.mode": draw(st.sampled_from(["dry_run", "shadow", "health_only"])),
        f"authority_flags.{draw(st.sampled_from(FLAGS))}": draw(st.booleans()),
        "actual_action.performed": draw(st.booleans()),
        "privacy.payload_logged": draw(st.booleans()),
        "latency.total_ms": draw(st.none() | st.floats(0, 1e6)),
        "latency.timeout": draw(st.booleans()),
        "outcome.promotion_blocker": draw(st.booleans()),
        "notes": draw(st.sampled_from([[], ["case:normal"], ["mail ada@example.org"]])),
    }
    changes |= draw(st.sampled_from([{}, FELL_BACK, UNPROVED]))
    lane, run = draw(st.sampled_from(LANES)), draw(st.sampled_from([None, "run:1", "run:2"]))
    return decision(draw(st.integers(0, 10**9)), changes, lane=lane, run=run)


@settings(deadline=None, max_examples=60)
@given(st.lists(decisions(), min_size=1, max_size=12))
def test_categories_buckets_and_proofs_each_add_up_to_the_records(
    records: list[dict[str, Any]],
) -> None:
    facts = report_of(records).facts
    groups = [facts, *facts["lanes"].values()]
    assert facts["total_records"] == len(records)
    assert sum(lane["total_records"] for lane in facts["lanes"].values()) == len(records)
    for group in groups:
        total = group["total_records"]
        assert sum(group["categories"].values()) == total
        assert sum(group[f"{category}_count"] for category in CATEGORIES) == total
        assert sum(group["confidence_bucket_counts"].values()) == total
        proofs = ("ok", "missing", "not_applicable")
        assert sum(group[f"npu_proof_{proof}_count"] for proof in proofs) == total
        assert group["comparable_records"] == sum(
            group["categories"][category] for category in COMPARABLE
        )
        assert group["fallback_count"] == (
            group["expected_fallback_count"] + group["unexpected_fallback_count"]
        )
        for value in group["rates"].values():
            assert value is None or 0 <= value <= 1
        assert {name for name, value in group["rates"].items() if value is None} == set(
            group["reasons"]
        )
    assert sum(bucket["records"] for bucket in facts["buckets"].values()) == len(records)


@settings(deadline=None, max_examples=40)
@given(st.lists(decisions(), min_size=1, max_size=10), st.data())
def test_losing_or_corrupting_a_record_never_removes_a_blocker(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    policy = named(bounds={"proof_required": True, "p95_total_ms_max": 100})
    whole = blocking_rules(records, policy)
    lost = data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1))
    left = [record for number, record in enumerate(records) if number not in lost]
    assert whole <= blocking_rules(left, policy, lost=len(lost))


@pytest.mark.parametrize("lost", [0, 3, 17, 40, 80, 119])
def test_a_good_run_with_a_lost_record_can_no_longer_pass(lost: int) -> None:
    records = good_lane()
    left = [record for number, record in enumerate(records) if number != lost]
    assert verdict_of(records, named()).outcome == "pass"
    assert verdict_of(left, named(), lost=1).outcome == "inconclusive"


def blocking_rules(records: list[dict[str, Any]], policy: Any, *, lost: int = 0) -> set[str]:
    found = findings_of(records, policy, lost=lost)
    return {
        rule
        for rule, finding in found.items()
        if finding.severity != "warn" and finding.verdict in ("fail", "inconclusive")
    }


def mixed(n: int, seed: int = 3) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    kinds = [NORMAL, ACTION, UNSURE, WRONG, FALSE_POSITIVE, FALSE_NEGATIVE, FELL_BACK, UNPROVED]
    kinds += [UNREFERENCED, SHADOWED, PROBE, {"privacy.payload_logged": True}]
    kinds += [{"notes": ["mail ada@example.org"]}, {"latency.total_ms": None}]
    return [
        decision(
            number,
            draw.choice(kinds),
            {"latency.total_ms": round(draw.expovariate(0.02), 3)} if draw.random() < 0.9 else {},
            lane=draw.choice(LANES),
            run=draw.choice([None, "run:1", "run:2"]),
        )
        for number in range(n)
    ]


def test_any_split_and_any_order_give_the_same_report() -> None:
    check_exam(exam_of(named()), typed(mixed(150)))


def test_sketches_and_forgotten_names_do_not_depend_on_the_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = report_of(mixed(150)).facts
    monkeypatch.setattr(merge_states, "EXACT_MAX", 100)
    monkeypatch.setattr(merge_states, "NAMES_MAX", 2)
    check_exam(exam_of(), typed(mixed(150)))
    sketched = report_of(mixed(150)).facts
    assert sketched["latency"]["total_ms"]["method"] == "percentile_disc of a sketch"
    assert sketched["categories"] == exact["categories"]
    assert (len(exact["runs"]), sketched["runs"]) == (3, {})
    assert sketched["lanes"][LANE]["bucket_shift_reason"].startswith("there are too many runs")
    true, rough = exact["latency"]["total_ms"], sketched["latency"]["total_ms"]
    assert true["n"] == rough["n"]
    for name in ("p50", "p95"):
        assert true[name] <= rough[name] <= true[name] * 1.002


def test_percentiles_are_by_service_and_input_class() -> None:
    records = [
        *(decision(n, {"latency.total_ms": float(n + 1)}) for n in range(100)),
        *(decision(200 + n, {"latency.total_ms": 500.0}, lane=OTHER) for n in range(3)),
    ]
    found = report_of(records).facts["latency"]
    assert (
        found["by_service"]["cron_n8n_advisory"]["p50"],
        found["by_input_class"]["cron_n8n_event"]["p95"],
    ) == (50.0, 95.0)
    assert found["by_service"]["openvino_context_gate"] == {
        "n": 3,
        "p50": 500.0,
        "p95": 500.0,
        "method": "percentile_disc",
    }


def test_what_is_unknown_is_null_with_a_reason() -> None:
    records = numbered([UNREFERENCED | {"latency.total_ms": None}] * 3)
    facts = report_of(records).facts
    assert facts["rates"]["agreement_rate"] is None
    assert facts["reasons"]["agreement_rate"] == "no comparable records"
    assert facts["latency"]["total_ms"]["p95"] is None
    assert report_of(records).score is not None
    assert str(report_of(records).score.reason) == "no comparable records"  # type: ignore[union-attr]


def test_the_packs_score_is_agreement_as_if_lost_records_disagreed() -> None:
    records = numbered([NORMAL] * 9 + [WRONG])
    score, worse = report_of(records).score, report_of(records, lost=10).score
    assert score is not None
    assert worse is not None
    assert (score.value, worse.value) == (0.9, 0.45)


def test_outcomes_are_compared_again_and_differences_counted() -> None:
    flattering = decision(1, WRONG, {"outcome.comparison": "agree", "outcome.error_type": None})
    facts = report_of([flattering]).facts
    assert (facts["agree_count"], facts["disagree_count"]) == (0, 1)
    assert facts["outcome_mismatch_count"] == 1


def test_labels_are_explained_by_the_lane_or_refused() -> None:
    record = decision(
        1, {"recommendation.label": "wake_operator"}, {"outcome.comparison": "disagree"}
    )
    exam = exam_of()
    folded = exam.step(exam.zero(0), typed([record]))
    assert exam.needs_strict_pass(folded)
    (problem,) = exam.problems(typed([record])[0])
    assert problem.path == "$.recommendation.label"
    assert "wake_operator" not in problem.message
    with pytest.raises(BadInputError, match="use a label"):
        report_of([record])
    own = named(labels={"action": ["wake_operator", "escalate"]})
    assert report_of([record], own).facts["false_positive_count"] == 1
    assert report_of([record], own).facts["recommendation_counts"] == {"wake_operator": 1}


def test_bucket_rules_of_a_policy_are_kept() -> None:
    own = policy_of(
        bucket_rules={"strict": [0.5, 0.7, 0.9, 0.99], "v1_default": [0.4, 0.6, 0.8, 0.95]}
    )
    right = decision(1, {"confidence.bucket_rule": "strict", "confidence.score": 0.97})
    wrong = decision(2, {"confidence.bucket_rule": "strict", "confidence.score": 0.85})
    exam = exam_of(own)
    assert exam.needs_strict_pass(exam.step(exam.zero(0), typed([right])))
    assert exam.problems(typed([right])[0]) == []
    (problem,) = exam.problems(typed([wrong])[0])
    assert problem.message == "must be medium, got high"
    (unknown,) = exam_of().problems(typed([right])[0])
    assert unknown.path == "$.confidence.bucket_rule"


def test_violations_are_told_by_id_and_field_only() -> None:
    secret = "hunter2" + "Zq8" * 9
    dirty = decision(
        7,
        {
            "notes": [f"password={secret}", "fine"],
            "service.endpoint": "/home/ada/run.sh",
            "recommendation.reasons": ["x" * 400],
            "source.fixture_id": "ada@example.org",
            "authority_flags.can_write_memory": ...,
            "actual_action.side_effects": [f"sent:{secret}"],
        },
    )
    summary = summary_of([decision(1), dirty])
    assert secret not in str(summary)
    assert "ada" not in str(summary)
    found = {(hit["field"], hit["kind"]) for hit in summary["violations"]}
    assert {hit["decision_id"] for hit in summary["violations"]} == {dirty["decision_id"]}
    assert found >= {
        ("$.notes[0]", "secret"),
        ("$.service.endpoint", "private_root"),
        ("$.recommendation.reasons[0]", "over_long"),
        ("$.source.fixture_id", "email"),
        ("$.authority_flags.can_write_memory", "authority"),
        ("$.actual_action.side_effects[0]", "side_effect"),
    }
    counts = (
        "authority_flag_violation_count",
        "privacy_violation_count",
        "actual_side_effect_count",
    )
    assert [summary[name] for name in counts] == [1, 1, 1]


def test_names_that_look_private_are_withheld_everywhere() -> None:
    lane = "cron_n8n_event/ghp_" + "a1B2c3D4e5F6" * 3
    records = numbered([NORMAL] * 3, lane=lane, run="run:ghp_" + "a1B2c3D4e5F6" * 3)
    report = report_of(records)
    assert "ghp_" not in str((report.facts, report.measurements, report.figures))
    assert "cron_n8n_event/withheld-" in str(report.facts["lanes"])
    assert report.facts["privacy_violation_count"] == 3


def test_only_the_first_violations_are_kept_but_all_are_counted() -> None:
    records = numbered([{"privacy.payload_logged": True}] * 300)
    facts = report_of(records).facts
    assert len(facts["violations"]) == 100
    assert facts["violation_fields"] == [
        {"field": "$.privacy.payload_logged", "kind": "privacy", "count": 300}
    ]


def test_more_lanes_than_anyone_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatemark.plugins.advisory.exam.ADVISORY_LANES_MAX", 2)
    with pytest.raises(BadInputError, match="has 3 lanes, more than 2"):
        report_of([decision(n, lane=lane) for n, lane in enumerate(LANES)])


def test_cases_are_told_by_notes_or_else_by_fields() -> None:
    noted = report_of(numbered([NORMAL])).facts["lanes"][LANE]
    assert noted["missing_cases"] == ["low_confidence", "false_alarm", "action_needed"]
    silent: dict[str, Any] = {"notes": []}
    alarm = {"human_or_atlas_decision.severity": "medium", "recommendation.severity": "medium"}
    fields = numbered([silent, silent | alarm, ACTION | silent, UNSURE | silent])
    assert report_of(fields).facts["lanes"][LANE]["missing_cases"] == []


def test_times_beyond_the_exact_size_say_so() -> None:
    assert merge_states.EXACT_MAX == 2_000_000
    assert report_of(numbered([NORMAL])).facts["latency"]["exact_up_to"] == merge_states.EXACT_MAX


def test_every_bucket_is_on_the_page() -> None:
    assert set(report_of(numbered([NORMAL])).facts["buckets"]) == set(BUCKETS)


def test_the_picture_of_confidence_adds_up_to_every_lanes_records() -> None:
    records = [*good_lane(), *good_lane("kanban_hygiene/kanban", start=500)[:40]]
    report = report_of(records)
    (drawn,) = [figure for figure in report.figures if isinstance(figure, Stacks)]
    lanes = {bar.name: sum(bar.amounts) for bar in drawn.bars}
    assert sum(lanes.values()) == len(records)
    table = report.figures[0]
    assert isinstance(table, Table)
    assert lanes == {row[0]: row[1] for row in table.rows}


UNMOVED: dict[str, Any] = {"npu_proof.proof_ok": False}
FELL = {"occurred": True, "kind": "cpu", "reason": "no_npu", "expected": False}
ONE_FACT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lane": ({}, {"service.name": "other"}),
    "timed": ({}, {"latency.total_ms": None}),
    "noted": ({}, NORMAL),
    "authority": ({}, {"authority_flags.can_route_atlas": True}),
    "side_effect": ({}, {"actual_action.performed": True}),
    "privacy": ({}, {"privacy.payload_logged": True}),
    "no_reason": ({"fallback": FELL}, {"fallback": FELL | {"reason": None}}),
    "mode": ({}, {"service.mode": "shadow"}),
    "source_kind": ({}, {"source.kind": "manual_label"}),
    "label": ({}, {"recommendation.label": "log"}),
    "severity": ({}, {"recommendation.severity": "low"}),
    "reference_source": ({}, {"human_or_atlas_decision.source": "human_label"}),
    "reference_label": ({}, {"human_or_atlas_decision.label": "log"}),
    "reference_severity": ({}, {"human_or_atlas_decision.severity": "low"}),
    "bucket": ({}, {"confidence.bucket": "very_high"}),
    "bucket_rule": ({}, {"confidence.bucket_rule": "own_rule"}),
    "comparison": ({}, {"outcome.comparison": "uncertain"}),
    "error_type": ({}, {"outcome.error_type": "latency_slo_miss"}),
    "promotion_blocker": ({}, {"outcome.promotion_blocker": True}),
    "proof_mode": (UNMOVED, UNMOVED | {"npu_proof.proof_mode": "service_reported_delta"}),
    "proof_ok": (UNMOVED, UNMOVED | {"npu_proof.proof_ok": None}),
    "proof_grade": ({}, {"npu_proof.counter_path": "/sys/other"}),
    "inference_ran": ({}, {"npu_proof.inference_ran": False}),
    "timeout": ({}, {"latency.timeout": True}),
    "fallback": ({"fallback": FELL}, {"fallback": FELL | {"kind": "offline"}}),
    "fallback_expected": ({"fallback": FELL}, {"fallback": FELL | {"expected": True}}),
}


def test_every_fact_of_a_kind_is_tested() -> None:
    # Whether a record is applicable follows from its mode and the kind of its source.
    assert {*ONE_FACT, "applicable"} == set(RecordKind.__struct_fields__)


@pytest.mark.parametrize("fact", ONE_FACT)
def test_records_that_differ_in_one_fact_are_counted_apart(fact: str) -> None:
    exam = exam_of()
    fixed = {"outcome.comparison": "agree", "notes": []}
    batch = [decision(number, fixed | change) for number, change in enumerate(ONE_FACT[fact])]
    state = exam.finalize_shard(exam.step(exam.zero(0), typed(batch)))
    left, right = state.kinds
    differing = [
        name for name in left.__struct_fields__ if getattr(left, name) != getattr(right, name)
    ]
    assert differing == [fact]


ODD = (
    {},
    {"recommendation.reasons": [f"reason_{number}" for number in range(40)]},
    {"recommendation.evidence_refs": [f"ref_{number}" for number in range(40)]},
    {"actual_action.side_effects": ["restarted_service"]},
    {"actual_action.side_effects": ["local_report_write:restarted nginx"]},
    *(
        {"actual_action.side_effects": ["local_report", effect]}
        for effect in (
            "local_report_write:reports/run.json",
            "local_report_write:run.card",
            "local_report_write\nlocal_report",
            "local_report_write:../run.json",
            "local_report_write:/run.json",
            "local_report_write:reports//run.json",
            "local_report_write:reports/.json",
            "local_report_write:\N{GREEK SMALL LETTER ALPHA}.json",
        )
    ),
    {"notes": ["mail ada@example.org"]},
    *(
        {"fallback": {"occurred": True, "kind": "cpu", "reason": reason, "expected": True}}
        for reason in ("", "--", "npu_busy")
    ),
)


@settings(deadline=None, max_examples=40)
@given(odd=st.lists(st.sampled_from(ODD), min_size=1, max_size=12))
def test_records_are_counted_together_as_each_would_be_alone(odd: list[dict[str, Any]]) -> None:
    records = typed(decision(number, change) for number, change in enumerate(odd))
    exam = exam_of()
    alone: Counter[RecordKind] = Counter()
    for record in records:
        private = "notes" in odd[int(record.decision_id[3:])]
        alone[derive_kind(record, private_text=private)] += 1
    assert exam.finalize_shard(exam.step(exam.zero(0), records)).kinds == alone


@settings(deadline=None, max_examples=60)
@given(
    moments=st.lists(
        st.sampled_from(
            [
                "2026-06-06T12:30:00Z",
                "2026-06-06t12:29:59.5z",
                "2026-06-06t12:30:01z",
                "2026-06-06T12:30:00.25Z",
                "2026-06-07T00:00:00+00:00",
            ]
        ),
        min_size=1,
        max_size=8,
    ),
    size=st.integers(1, 4),
)
def test_the_first_and_the_last_second_do_not_depend_on_batches(
    moments: list[str], size: int
) -> None:
    records = typed(
        decision(number, {"timestamp": moment, "source.artifact_ref": f"run:{number % 2}"})
        for number, moment in enumerate(moments)
    )
    exam = exam_of()
    state = exam.zero(0)
    for start in range(0, len(records), size):
        state = exam.step(state, records[start : start + size])
    seconds = [moment[:19].upper() for moment in moments]
    assert state.first_times == {
        f"run:{run}": min(seconds[run::2]) for run in range(min(2, len(seconds)))
    }
    assert state.last == max(
        (second, record.decision_id) for second, record in zip(seconds, records, strict=True)
    )
