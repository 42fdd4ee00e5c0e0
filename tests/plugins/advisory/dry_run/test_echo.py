from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.advisory.dry_run.leaks import PAYLOAD as REPEATED
from gatemark.plugins.advisory.dry_run.leaks import find_leaks

PAYLOAD = {
    "workflow": "seed-catalogue sync",
    "message": "export failed and the deadline is near, no retries left",
    "repeat_count": 4,
    "parts": [{"hz": 50}],
}


def repeats_payload(reply: Any, payload: Any) -> bool:
    return any(leak.kind == REPEATED for leak in find_leaks(reply, payload, {}))


WAV = {"wav_base64": base64.b64encode(bytes(range(256)) * 8).decode()}


@pytest.mark.parametrize(
    "reply",
    [
        {"label": "log", "input": PAYLOAD},
        {"label": "log", "debug": [{"received": dict(PAYLOAD)}]},
        PAYLOAD,
        {"reasons": [PAYLOAD["message"]]},
        {"reasons": ["EXPORT  failed and\nthe deadline is near, no retries left"]},
        {"reasons": ["because: deadline is near, no retries"]},
        {PAYLOAD["message"]: 1},
        {"note": "the seed-catalogue sync is late"},
        "export failed and the deadline",
        {"reasons": ["export_failed_and_the_deadline"]},
        {"reasons": ["deadline-is-near--no.retries"]},
        {"model": str(PAYLOAD["message"]).encode().hex()},
        {"model": base64.b64encode(str(PAYLOAD["message"]).encode()).decode()},
        {"model": base64.urlsafe_b64encode(str(PAYLOAD["message"]).encode()).decode().strip("=")},
    ],
)
def test_what_comes_back_in_whole_or_in_part_is_an_echo(reply: Any) -> None:
    assert repeats_payload(reply, PAYLOAD)


@pytest.mark.parametrize(
    "reply",
    [
        {"label": "escalate", "reasons": ["model_says_escalate"], "confidence": 0.9},
        {"evidence_refs": ["payload:message", "payload:repeat_count", "payload:workflow"]},
        {"reasons": ["deadline_near"], "count": 4},
        {"reasons": ["deadline_is_near"]},
        {"model_digest": "sha256:" + "5e" * 32, "model": "Qwen2.5-7B-Instruct-int4-ov"},
        {"note": "the export"},
        {},
        None,
        7,
    ],
)
def test_codes_figures_and_names_of_fields_are_none(reply: Any) -> None:
    assert not repeats_payload(reply, PAYLOAD)


def test_a_stretch_of_audio_is_an_echo_too() -> None:
    sound = WAV["wav_base64"]
    assert repeats_payload({"x": sound}, WAV)
    assert repeats_payload({"x": "data:" + sound[100:200]}, WAV)
    assert repeats_payload({"x": sound[5:45]}, WAV)
    assert not repeats_payload({"x": sound[5:15]}, WAV)


def test_an_authority_flag_is_not_the_action_that_was_sent() -> None:
    sent = {"operation": "triage", "actions": ["restart_service"]}
    assert not repeats_payload({"authority": {"can_restart_services": False}}, sent)


def test_nothing_sent_cannot_come_back() -> None:
    assert not repeats_payload({"payload": None, "x": []}, None)
    assert not repeats_payload({"x": []}, [])


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=32, max_size=200))
def test_a_long_text_is_found_wherever_it_stands(text: str) -> None:
    if len(" ".join(text.split())) < 32:
        return
    assert repeats_payload({"a": [{"b": f"<{text}>"}]}, {"t": text})
