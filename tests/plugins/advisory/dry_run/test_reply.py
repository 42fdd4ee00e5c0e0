from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.advisory.dry_run.reply import (
    HEALTHY,
    Advice,
    NoAdvice,
    read_health,
    read_reply,
)
from gatemark.plugins.advisory.taxonomy import DEFAULT_TAXONOMY, Taxonomy

GOOD: dict[str, Any] = {"label": "log", "severity": "low", "confidence": 0.7}
PAYLOAD = {"message": "the greenhouse door stood open all night"}


def read(**changes: Any) -> Advice | NoAdvice:
    return read_reply({**GOOD, **changes}, PAYLOAD, DEFAULT_TAXONOMY)


def advice(**changes: Any) -> Advice:
    told = read(**changes)
    assert isinstance(told, Advice)
    return told


def test_the_least_reply_is_a_label_and_a_severity() -> None:
    told = read_reply({"label": "log", "severity": "low"}, PAYLOAD, DEFAULT_TAXONOMY)
    assert told == Advice(label="log", severity="low", score=None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"label": "explode"}, "label_outside_taxonomy"),
        ({"label": None}, "label_outside_taxonomy"),
        ({"label": 3}, "label_outside_taxonomy"),
        ({"label": "Log"}, "label_outside_taxonomy"),
        ({"severity": "dire"}, "severity_unknown"),
        ({"severity": []}, "severity_unknown"),
        ({"confidence": 1.7}, "confidence_out_of_range"),
        ({"confidence": -0.1}, "confidence_out_of_range"),
        ({"confidence": "high"}, "confidence_out_of_range"),
        ({"confidence": True}, "confidence_out_of_range"),
        ({"confidence": float("nan")}, "confidence_out_of_range"),
        ({"fallback": {"kind": "magic"}}, "fallback_kind_unknown"),
        ({"fallback": "cpu"}, "fallback_kind_unknown"),
    ],
)
def test_a_reply_that_breaks_the_protocol_is_no_reply(changes: dict[str, Any], reason: str) -> None:
    told = read(**changes)
    assert isinstance(told, NoAdvice)
    assert told.reason == reason


@pytest.mark.parametrize("reply", [None, 3, "log", ["log"], []])
def test_a_reply_must_be_an_object(reply: Any) -> None:
    told = read_reply(reply, PAYLOAD, DEFAULT_TAXONOMY)
    assert told == NoAdvice("reply_not_an_object")


def test_a_text_that_is_the_payload_is_an_echo_even_when_it_is_no_reply() -> None:
    told = read_reply(PAYLOAD["message"], PAYLOAD, DEFAULT_TAXONOMY)
    assert told.conduct.echoed


def test_a_lane_s_own_labels_are_read_by_its_own_taxonomy() -> None:
    own = Taxonomy(action=("escalate", "page_the_gardener"))
    assert isinstance(read(label="page_the_gardener"), NoAdvice)
    assert isinstance(read_reply({**GOOD, "label": "page_the_gardener"}, PAYLOAD, own), Advice)


def test_only_codes_and_names_are_kept_and_the_rest_is_noted() -> None:
    told = advice(
        reasons=["door_open", "The door stood open", 3],
        evidence_refs=["payload:message", "/etc/hosts", "a:b c"],
        model="m-1",
        device="CPU",
        precision={"f": 32},
        model_digest="sha256:" + "0" * 64,
    )
    assert told.reasons == ("door_open",)
    assert told.evidence_refs == ("payload:message",)
    assert (told.model, told.device, told.precision) == ("m-1", "CPU", None)
    assert set(told.dropped) == {"reasons", "evidence_refs", "precision"}


def test_a_flood_of_codes_is_cut() -> None:
    told = advice(reasons=[f"code_{number}" for number in range(500)])
    assert len(told.reasons) == 16
    assert told.dropped == ("reasons",)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "3", True])
def test_times_that_cannot_be_are_unknown_and_noted(value: Any) -> None:
    told = advice(service_ms=value, queue_ms=2)
    assert (told.service_ms, told.queue_ms, told.dropped) == (None, 2.0, ("service_ms",))


@pytest.mark.parametrize(("value", "kept"), [(12, 12), (-1, None), (1.5, None), (2**70, None)])
def test_a_busy_count_is_a_whole_number_or_unknown(value: Any, kept: int | None) -> None:
    assert advice(npu_busy_delta_us=value).busy_delta_us == kept


def test_inference_ran_only_when_the_service_says_exactly_that() -> None:
    assert advice(inference_ran=True).inference_ran
    assert not advice(inference_ran="yes").inference_ran
    assert not advice().inference_ran


def test_a_fallback_without_a_code_has_no_reason() -> None:
    told = advice(fallback={"kind": "cpu", "reason": "The NPU was busy."})
    assert told.fallback is not None
    assert (told.fallback.kind, told.fallback.reason) == ("cpu", None)


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"authority": {"can_execute_tools": True}}, {"can_execute_tools"}),
        ({"authority": {"can_execute_tools": "yes"}}, {"can_execute_tools"}),
        ({"authority": {"advisory_only": False}}, {"advisory_only"}),
        ({"authority": {"requires_human_approval": None}}, {"requires_human_approval"}),
        ({"authority": {"can_do_anything": False}}, {"advisory_only"}),
        ({"actions": ["send_message", "record_metric"]}, {"can_send_outbound"}),
        ({"actions": ["dance"]}, {"advisory_only"}),
        ({"actions": [["execute_tool"]]}, {"advisory_only"}),
        ({"actions": "execute_tool"}, {"advisory_only"}),
        ({"authority": "root"}, {"advisory_only"}),
        ({"authority_flags": {"can_write_memory": True}}, {"can_write_memory"}),
        ({"allowed_actions": ["scan_private_root"]}, {"can_scan_private_roots"}),
        ({"can_restart_services": True}, {"can_restart_services"}),
        ({"meta": [{"wishes": {"can_execute_tools": True}}]}, {"can_execute_tools"}),
        ({"recommendation": {"advisory_only": False}}, {"advisory_only"}),
        ({"meta": {"can_execute_tools": False, "advisory_only": True}}, set()),
        ({"authority": None, "actions": None}, set()),
        ({"authority": {"can_write_memory": False}, "actions": ["record_metric"]}, set()),
    ],
)
def test_asking_for_authority_is_seen(changes: dict[str, Any], flags: set[str]) -> None:
    assert advice(**changes).conduct.requested == flags


def test_authority_and_echo_are_seen_in_an_unusable_reply_as_well() -> None:
    told = read(label="explode", actions=["execute_tool"], debug=PAYLOAD)
    assert isinstance(told, NoAdvice)
    assert told.conduct.requested == {"can_execute_tools"}
    assert told.conduct.echoed


@pytest.mark.parametrize(
    ("changes", "acted"),
    [
        ({"performed": True}, True),
        ({"performed": 1}, True),
        ({"side_effects": ["sent mail"]}, True),
        ({"actual_action": {"performed": True}}, True),
        ({"actual_action": {"performed": False, "side_effects": ["wrote memory"]}}, True),
        ({"actual_action": {"performed": False}}, False),
        ({"performed": False, "side_effects": []}, False),
    ],
)
def test_a_service_that_says_it_acted_is_believed(changes: dict[str, Any], acted: bool) -> None:
    assert advice(**changes).conduct.acted is acted


def test_health_is_a_status_of_ok() -> None:
    assert read_health({"status": "ok"}) == NoAdvice(HEALTHY)
    assert read_health({"status": "starting"}) == NoAdvice("not_healthy")
    assert read_health("ok") == NoAdvice("reply_not_an_object")
    assert read_health({"status": "ok", "actions": ["execute_tool"]}).conduct.requested


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=12,
)
keys = st.sampled_from(
    ["label", "severity", "confidence", "reasons", "fallback", "authority", "actions", "model"]
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(keys, json_values) | json_values)
def test_no_reply_whatever_breaks_the_reader(reply: Any) -> None:
    assert isinstance(read_reply(reply, PAYLOAD, DEFAULT_TAXONOMY), Advice | NoAdvice)
