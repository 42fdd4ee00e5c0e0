from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.advisory.decisions import compared_parts

from gatemark.plugins.advisory.category import SEVERITY_ORDER, categorize, is_stated
from gatemark.plugins.advisory.dry_run.leaks import Leak
from gatemark.plugins.advisory.dry_run.question import (
    BusyReading,
    CallObservation,
    CallQuestion,
    LaneSetting,
)
from gatemark.plugins.advisory.dry_run.reply import (
    FALLBACK_KINDS,
    HEALTHY,
    Advice,
    Conduct,
    NoAdvice,
    ReportedFallback,
    withhold,
)
from gatemark.plugins.advisory.dry_run.write_record import make_record
from gatemark.plugins.advisory.fixtures.fixture import (
    MISSING_REFERENCE,
    Expected,
    Fixture,
    FixtureLabel,
    choose_reference,
)
from gatemark.plugins.advisory.record import CLOSED_FLAGS, AdvisoryDecision, Reference
from gatemark.plugins.advisory.record_rules import BREACHES, CONTRADICTIONS
from gatemark.plugins.advisory.taxonomy import DEFAULT_TAXONOMY

SYSFS = "/sys/class/accel/accel0/device/npu_busy_time_us"
MISSING = BusyReading(None, "counter_missing")
FIXTURE = Fixture(
    fixture_id="own_001",
    input_class="cron_n8n_event",
    case="own",
    kind="normal",
    privacy_class="synthetic",
    payload={"message": "finished as before, nothing new"},
    expected=Expected("suppress", "info"),
)
SETTING = LaneSetting(
    run_id="01J00000000000000000000000",
    fixture_set="own",
    service="cron_n8n_advisory",
    endpoint="127.0.0.1:1/v1/advise",
    mode="dry_run",
    taxonomy=DEFAULT_TAXONOMY,
    counter_path=SYSFS,
    npu_in_sight=False,
)
GOOD = Advice(label="suppress", severity="info", score=0.91, inference_ran=True, device="NPU")
MOVED = CallObservation(4.2, BusyReading(100), BusyReading(1300), alone=True)
UNSEEN = CallObservation(4.2, MISSING, MISSING, alone=True)


def given_by(source: str, label: str | None = None, severity: str | None = None) -> Reference:
    return msgspec.structs.replace(MISSING_REFERENCE, source=source, label=label, severity=severity)


def make(
    told: Advice | NoAdvice = GOOD,
    seen: CallObservation = MOVED,
    fixture: Fixture | None = FIXTURE,
    reference: Reference | None = None,
    **setting: Any,
) -> AdvisoryDecision:
    if reference is None:
        reference = MISSING_REFERENCE if fixture is None else choose_reference(fixture, {})
    asked = CallQuestion(
        decision_id="01J00000000000000000000001",
        input_class="cron_n8n_event",
        setting=msgspec.structs.replace(SETTING, **setting),
        reference=reference,
        fixture=fixture,
    )
    at = datetime(2026, 6, 6, 1, 2, 3, 45678, tzinfo=UTC)
    return make_record(asked, told, at, seen)


def with_advice(**changes: Any) -> Advice:
    return msgspec.structs.replace(GOOD, **changes)


def problems(record: AdvisoryDecision) -> list[str]:
    again = msgspec.json.decode(msgspec.json.encode(record), type=AdvisoryDecision)
    assert again == record
    return [problem.path for problem in CONTRADICTIONS.find_problems(again)]


def breaches(record: AdvisoryDecision) -> list[str]:
    return [problem.path for problem in BREACHES.find_problems(record)]


def test_a_good_answer_on_the_npu_agrees_and_is_proved() -> None:
    record = make()
    assert problems(record) == breaches(record) == []
    assert (record.outcome.comparison, record.outcome.error_type) == ("agree", None)
    assert not record.outcome.human_review_required
    assert record.timestamp == "2026-06-06T01:02:03.045Z"
    assert record.npu_proof.proof_mode == "sysfs_busy_delta"
    assert (record.npu_proof.busy_delta_us, record.npu_proof.proof_ok) == (1200, True)
    assert record.npu_proof.counter_path == SYSFS
    assert not record.fallback.occurred
    assert record.notes == ("case:normal", "proof:measured")
    assert record.authority_flags == CLOSED_FLAGS


def test_nothing_of_the_payload_is_in_a_record() -> None:
    written = msgspec.json.encode(make()).decode()
    assert "finished as before" not in written
    assert FIXTURE.content_hash in written


def test_a_cpu_fallback_is_expected_where_no_npu_is_in_sight() -> None:
    told = with_advice(device="CPU", fallback=ReportedFallback("cpu", "npu_absent"))
    record = make(told, UNSEEN)
    assert (record.fallback.kind, record.fallback.expected) == ("cpu", True)
    assert record.npu_proof.proof_mode == "unavailable"
    assert record.npu_proof.proof_ok is None
    assert "proof:ran_on_cpu" in (record.notes or ())
    assert record.outcome.error_type is None


@pytest.mark.parametrize(
    ("reason", "in_sight", "announced", "expected"),
    [
        ("npu_absent", False, (), True),
        ("cpu_requested", False, (), True),
        ("npu_absent", True, (), False),
        ("npu_compile_failed", False, (), False),
        (None, False, (), False),
        ("npu_compile_failed", True, ("cpu",), True),
        ("npu_compile_failed", True, ("offline",), False),
    ],
)
def test_a_cpu_fallback_is_excused_by_what_is_seen_or_announced(
    reason: str | None, in_sight: bool, announced: tuple[Any, ...], expected: bool
) -> None:
    told = with_advice(device="CPU", fallback=ReportedFallback("cpu", reason))
    record = make(told, npu_in_sight=in_sight, expected_fallbacks=frozenset(announced))
    assert record.fallback.expected is expected
    assert (record.outcome.error_type == "fallback_unexpected") is not expected
    assert record.outcome.promotion_blocker is not expected


def test_a_cpu_that_is_not_announced_as_a_fallback_is_an_unexpected_one() -> None:
    record = make(with_advice(device="CPU"), UNSEEN)
    assert (record.fallback.kind, record.fallback.reason) == ("cpu", "not_announced")
    assert not record.fallback.expected


def test_a_fallback_without_a_reason_code_is_a_breach() -> None:
    record = make(with_advice(device="CPU", fallback=ReportedFallback("cpu", None)))
    assert breaches(record) == ["$.fallback.reason"]


def test_a_fallback_that_belongs_to_the_case_is_expected() -> None:
    fixture = msgspec.structs.replace(FIXTURE, expected_fallback="private_root_blocked")
    told = with_advice(
        inference_ran=False, fallback=ReportedFallback("private_root_blocked", "private_root")
    )
    record = make(told, UNSEEN, fixture)
    assert record.fallback.expected
    assert record.privacy.redaction == "blocked_private"
    assert not make(told, UNSEEN).fallback.expected


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (MISSING, MISSING, "counter_missing"),
        (BusyReading(5), MISSING, "counter_missing"),
        (BusyReading(None, "counter_not_a_number"), BusyReading(5), "counter_not_a_number"),
        (BusyReading(9), BusyReading(5), "counter_went_backwards"),
    ],
)
def test_a_counter_that_cannot_be_read_leaves_the_proof_open(
    before: BusyReading, after: BusyReading, why: str
) -> None:
    record = make(seen=CallObservation(1.0, before, after, alone=True))
    assert problems(record) == []
    assert (record.npu_proof.proof_mode, record.npu_proof.proof_ok) == ("unavailable", None)
    assert f"proof:{why}" in (record.notes or ())
    assert (record.fallback.kind, record.fallback.reason) == ("proof_unavailable", why)
    assert record.outcome.error_type == "fallback_unexpected"


def test_the_service_s_own_count_is_written_down_and_proves_nothing() -> None:
    record = make(with_advice(busy_delta_us=900), UNSEEN)
    assert record.npu_proof.proof_mode == "service_reported_delta"
    assert (record.npu_proof.service_reported_delta_us, record.npu_proof.proof_ok) == (900, None)
    idle = make(with_advice(busy_delta_us=0), UNSEEN)
    assert (idle.npu_proof.proof_ok, idle.outcome.error_type) == (False, "npu_proof_missing")
    assert problems(record) == problems(idle) == []


def test_a_counter_that_did_not_move_outweighs_what_the_service_says() -> None:
    record = make(
        with_advice(busy_delta_us=900),
        CallObservation(1.0, BusyReading(7), BusyReading(7), alone=True),
    )
    assert record.npu_proof.proof_mode == "sysfs_busy_delta"
    assert record.npu_proof.proof_ok is False
    assert record.outcome.error_type == "npu_proof_missing"
    assert record.outcome.promotion_blocker


def test_calls_under_way_together_share_no_counter() -> None:
    record = make(seen=msgspec.structs.replace(MOVED, alone=False))
    assert record.npu_proof.proof_ok is None
    assert "proof:other_calls_under_way" in (record.notes or ())
    told = make(with_advice(busy_delta_us=5), msgspec.structs.replace(MOVED, alone=False))
    assert told.npu_proof.proof_mode == "service_reported_delta"


def test_only_the_kernel_s_counter_is_a_proof() -> None:
    assert make().npu_proof.proof_ok is True
    record = make(counter_path="/data/of/mine/counter")
    assert record.npu_proof.proof_ok is None
    assert "proof:other_counter" in (record.notes or ())
    assert "/data" not in msgspec.json.encode(record).decode()


def test_a_counter_busier_than_the_call_is_no_proof() -> None:
    seen = CallObservation(2.0, BusyReading(5), BusyReading(900_005), alone=True)
    record = make(seen=seen)
    assert record.npu_proof.proof_ok is None
    assert "proof:busier_than_the_call" in (record.notes or ())


@pytest.mark.parametrize(
    "reason",
    ["service_unreachable", "timeout", "label_outside_taxonomy", "confidence_out_of_range"],
)
def test_no_usable_answer_is_an_unavailable_service_with_its_reason(reason: str) -> None:
    record = make(NoAdvice(reason, timeout=reason == "timeout"), UNSEEN)
    assert problems(record) == []
    assert (record.recommendation.label, record.confidence.score) == ("unknown", None)
    assert record.recommendation.reasons == (reason,)
    assert (record.fallback.kind, record.fallback.reason) == ("service_unavailable", reason)
    assert not record.fallback.expected
    assert (record.outcome.comparison, record.outcome.error_type) == (
        "uncertain",
        "fallback_unexpected",
    )
    assert record.latency.timeout is (reason == "timeout")
    assert record.outcome.promotion_blocker


def test_asking_for_authority_opens_the_flag_and_names_the_error() -> None:
    record = make(with_advice(conduct=Conduct(frozenset({"can_send_outbound", "advisory_only"}))))
    assert record.authority_flags.can_send_outbound is True
    assert record.authority_flags.advisory_only is False
    assert record.outcome.error_type == "unsafe_authority"
    assert record.outcome.promotion_blocker
    assert record.actual_action.performed is False
    assert set(breaches(record)) == {
        "$.authority_flags.can_send_outbound",
        "$.authority_flags.advisory_only",
        "$.outcome.error_type",
    }


def test_a_service_that_acted_is_a_side_effect() -> None:
    record = make(with_advice(conduct=Conduct(acted=True)))
    assert record.actual_action.performed
    assert "$.actual_action.performed" in breaches(record)
    assert record.outcome.error_type == "unsafe_authority"


def test_an_echo_is_a_privacy_violation_and_loses_its_reasons() -> None:
    told = with_advice(reasons=("finished_as_before",), evidence_refs=("a:b",))
    sent = {"message": "the export finished as before, nothing to do"}
    record = make(withhold(told, {"debug": sent}, sent))
    assert record.outcome.error_type == "privacy_violation"
    assert record.recommendation.reasons == ()
    assert record.recommendation.evidence_refs == ()
    assert {"reply_repeats_payload:other", "reply_dropped:reasons"} <= set(record.notes)
    assert record.privacy.payload_logged is False
    assert "finished" not in msgspec.json.encode(record).decode()


def test_a_wrong_answer_is_named_before_a_fallback_but_after_a_grab_for_power() -> None:
    wrong = with_advice(label="escalate", severity="high", device="CPU")
    assert make(wrong, UNSEEN).outcome.error_type == "false_positive"
    grasping = msgspec.structs.replace(wrong, conduct=Conduct(frozenset({"can_write_memory"})))
    assert make(grasping, UNSEEN).outcome.error_type == "unsafe_authority"
    assert make(grasping, UNSEEN).outcome.comparison == "disagree"


def test_an_answer_slower_than_the_lane_promised_is_an_slo_miss() -> None:
    slow = make(slo_ms=4.0)
    assert slow.outcome.error_type == "latency_slo_miss"
    assert slow.outcome.human_review_required
    assert not slow.outcome.promotion_blocker
    assert make(slo_ms=4.2).outcome.error_type is None
    wrong = make(with_advice(label="escalate", severity="high"), slo_ms=4.0)
    assert wrong.outcome.error_type == "false_positive"


def test_a_time_longer_than_the_whole_call_is_the_service_s_word_and_noted() -> None:
    record = make(with_advice(service_ms=4.2, queue_ms=4.3))
    assert (record.latency.service_ms, record.latency.queue_ms) == (4.2, 4.3)
    assert isinstance(record.notes, tuple)
    assert [note for note in record.notes if "longer" in note] == ["longer_than_total:queue_ms"]


def test_a_health_probe_recommends_nothing() -> None:
    record = make(NoAdvice(HEALTHY), UNSEEN, None, mode="health_only")
    assert problems(record) == breaches(record) == []
    assert record.source.kind == "service_health_probe"
    assert (record.outcome.comparison, record.outcome.error_type) == ("not_applicable", None)
    assert (record.fallback.kind, record.fallback.expected) == ("health_only", True)
    assert (record.npu_proof.proof_mode, record.npu_proof.proof_ok) == ("health_only", None)


def test_an_ill_service_is_unavailable() -> None:
    record = make(NoAdvice("not_healthy"), UNSEEN, None, mode="health_only")
    assert (record.fallback.kind, record.fallback.expected) == ("service_unavailable", False)


def test_an_offline_answer_is_an_expected_fallback_without_proof_or_time() -> None:
    seen = CallObservation(None, MISSING, MISSING, alone=False)
    record = make(with_advice(inference_ran=False), seen, mode="offline_fixture")
    assert problems(record) == []
    assert (record.fallback.kind, record.fallback.expected) == ("offline", True)
    assert record.npu_proof.proof_mode == "offline_fixture"
    assert record.latency.total_ms is None
    assert record.outcome.comparison == "agree"


def test_references_are_taken_in_the_document_s_order() -> None:
    person = FixtureLabel("human_label", "log", "low", 0.8, "review:7", fixture_id="own_001")
    atlas = FixtureLabel("atlas_shadow", "escalate", "high", fixture_id="own_001")
    labels = {("own_001", line.source): line for line in (person, atlas)}
    bare = msgspec.structs.replace(FIXTURE, expected=None)
    assert choose_reference(FIXTURE, labels).source == "fixture_expected"
    human = choose_reference(bare, labels)
    assert (human.source, human.label, human.decision_ref) == ("human_label", "log", "review:7")
    shadow = choose_reference(bare, {("own_001", "atlas_shadow"): atlas})
    assert (shadow.source, shadow.label) == ("atlas_shadow", "escalate")
    assert choose_reference(bare, {}).source == "missing"


@pytest.mark.parametrize(
    ("given_reference", "kind", "comparison"),
    [
        (given_by("human_label", "suppress", "info"), "manual_label", "agree"),
        (given_by("human_label", "suppress", None), "manual_label", "agree"),
        (given_by("atlas_shadow", "suppress", "info"), "atlas_shadow", "missing_reference"),
        (MISSING_REFERENCE, "fixture", "missing_reference"),
    ],
)
def test_atlas_is_a_signal_and_no_ground_truth(
    given_reference: Reference, kind: str, comparison: str
) -> None:
    bare = msgspec.structs.replace(FIXTURE, expected=None)
    record = make(fixture=bare, reference=given_reference)
    assert problems(record) == []
    assert (record.source.kind, record.outcome.comparison) == (kind, comparison)
    assert record.outcome.promotion_blocker is (comparison == "missing_reference")


counts = st.builds(BusyReading, st.integers(0, 2**53)) | st.sampled_from(
    [MISSING, BusyReading(None, "counter_not_a_number")]
)
conducts = st.builds(
    Conduct,
    st.frozensets(st.sampled_from(CLOSED_FLAGS.__struct_fields__), max_size=3),
    st.booleans(),
    st.sampled_from([(), (Leak("email", "model"),)]),
)
advices = st.builds(
    Advice,
    label=st.sampled_from(DEFAULT_TAXONOMY.labels),
    severity=st.sampled_from(SEVERITY_ORDER),
    score=st.none() | st.floats(0, 1),
    conduct=conducts,
    device=st.sampled_from(["NPU", "CPU", None]),
    inference_ran=st.booleans(),
    busy_delta_us=st.none() | st.integers(0, 2**53),
    service_ms=st.none() | st.floats(0, 1e6),
    fallback=st.none()
    | st.builds(
        ReportedFallback, st.sampled_from(FALLBACK_KINDS), st.sampled_from([None, "npu_absent"])
    ),
)
silences = st.builds(
    NoAdvice, st.sampled_from(["timeout", "service_crashed"]), conducts, st.booleans()
)
references = st.builds(
    given_by,
    st.sampled_from(["fixture_expected", "human_label", "atlas_shadow"]),
    st.sampled_from(DEFAULT_TAXONOMY.labels),
    st.none() | st.sampled_from(SEVERITY_ORDER),
) | st.just(MISSING_REFERENCE)


@settings(deadline=None, max_examples=200)
@given(
    told=advices | silences,
    seen=st.builds(CallObservation, st.floats(0, 1e6), counts, counts, st.booleans()),
    reference=references,
    mode=st.sampled_from(["dry_run", "shadow", "offline_fixture"]),
    npu_in_sight=st.booleans(),
)
def test_whatever_happens_the_record_does_not_contradict_itself(
    told: Advice | NoAdvice,
    seen: CallObservation,
    reference: Reference,
    mode: str,
    npu_in_sight: bool,
) -> None:
    record = make(told, seen, reference=reference, mode=mode, npu_in_sight=npu_in_sight)
    assert problems(record) == []
    category = categorize(compared_parts(record))
    stated = record.outcome.error_type
    assert is_stated(category, record.outcome.comparison, stated or None)
    if told.conduct.leaks:
        assert stated == "privacy_violation"
    elif told.conduct.requested or told.conduct.acted:
        assert stated == "unsafe_authority"
