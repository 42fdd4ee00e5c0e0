from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.plugins.advisory.dry_run.rigs import serving

from gatemark.core.errors import UsageError
from gatemark.plugins.advisory.dry_run.envelope import EnvelopeRefusedError, RequestEnvelope, admit
from gatemark.plugins.advisory.dry_run.payload import encode_payload
from gatemark.plugins.advisory.fixtures.fixture import FIXTURE_LANES, open_builtin
from gatemark.plugins.advisory.gateway.advisor import Advisor
from gatemark.plugins.advisory.gateway.server import MAX_BODY_BYTES, MAX_CONNECTIONS, Gateway

LANE = "cron_n8n_event"
FAILURE = {"status": "error", "message": "run failed, no retries left", "retries_left": 0}


def envelope(**changes: Any) -> dict[str, Any]:
    return {
        "protocol": "gatemark.advisory/1",
        "operation": "advise",
        "request_id": "r-1",
        "input_class": LANE,
        "mode": "dry_run",
        "payload": FAILURE,
        **changes,
    }


@pytest.fixture(scope="module")
def advisor() -> Advisor:
    return Advisor("AUTO")


@pytest.fixture(scope="module")
def address(advisor: Advisor) -> Iterator[str]:
    with serving(Gateway(0, advise=advisor.advise, health=advisor.health)) as place:
        yield place


def post(address: str, document: Any, **headers: str) -> httpx2.Response:
    return httpx2.post(f"{address}/v1/advise", json=document, headers=headers, timeout=10)


def test_health_names_every_lane_its_device_and_its_model(address: str) -> None:
    said = httpx2.get(f"{address}/health").json()
    assert said["status"] == "ok"
    assert set(said["lanes"]) == {lane.input_class for lane in FIXTURE_LANES}
    for lane in said["lanes"].values():
        assert lane["precision"]
        assert lane["model_digest"].startswith("sha256:")
        assert (lane["device"] == "CPU") == (lane["fallback"] is not None)


@pytest.mark.parametrize("lane", [lane.input_class for lane in FIXTURE_LANES])
def test_every_lane_answers_with_real_inference(address: str, lane: str) -> None:
    fixtures = [f for f in open_builtin().fixtures if f.input_class == lane]
    fixture = next(f for f in fixtures if f.kind == "action_needed" and f.expected)
    payload = encode_payload(lane, fixture.payload)
    said = post(address, envelope(input_class=lane, payload=payload)).json()
    assert fixture.expected is not None
    assert said["label"] == fixture.expected.label
    assert said["inference_ran"] is True
    assert 0 < said["confidence"] <= 1
    assert 0 <= said["queue_ms"] <= said["service_ms"]
    assert not any(value for flag, value in said["authority"].items() if flag.startswith("can_"))


def test_a_reply_holds_names_of_fields_but_nothing_they_say(address: str) -> None:
    marker = "quinquereme of nineveh"
    said = post(address, envelope(payload={**FAILURE, "message": marker})).text
    assert "payload:message" in said
    assert "nineveh" not in said


def test_a_private_root_is_refused_without_any_inference(address: str) -> None:
    payload = {"title": "Pond report", "root_class": "private", "excerpt": None}
    said = post(address, envelope(input_class="batch_doc_triage", payload=payload)).json()
    assert (said["label"], said["inference_ran"]) == ("skip_private_root", False)
    assert said["fallback"] == {"kind": "private_root_blocked", "reason": "private_root"}


@pytest.mark.parametrize(
    ("inner", "label", "reason"),
    [
        ({"operation": "classify"}, "suppress", "malformed_envelope"),
        ({"operation": "fly", "text": "up", "max_tokens": 4}, "suppress", "malformed_envelope"),
        ([], "suppress", "malformed_envelope"),
        (
            {"operation": "triage", "text": "x", "max_tokens": 4, "actions": ["execute_tool"]},
            "escalate",
            "authority_requested",
        ),
        (
            {"operation": "fly", "authority": {"can_write_memory": True}},
            "escalate",
            "authority_requested",
        ),
    ],
)
def test_an_envelope_under_examination_is_judged_by_rule(
    address: str, inner: Any, label: str, reason: str
) -> None:
    document = envelope(input_class="advisory_gateway_envelope", payload=inner)
    said = post(address, document).json()
    assert (said["label"], said["reasons"][0], said["inference_ran"]) == (label, reason, False)


@pytest.mark.parametrize(
    ("document", "status", "code"),
    [
        ({}, 400, "malformed"),
        ([1], 400, "malformed"),
        (envelope(protocol="other/2"), 400, "malformed"),
        (envelope(request_id="a b"), 400, "malformed"),
        (envelope(extra=1), 400, "malformed"),
        (envelope(authority={"can_send_outbound": True}), 403, "authority_requested"),
        (envelope(authority={"advisory_only": False}), 403, "authority_requested"),
        (envelope(authority={"can_fly": True}), 403, "authority_requested"),
        (envelope(actions=["restart_service"]), 403, "authority_requested"),
        (envelope(actions=["something_new"]), 403, "authority_requested"),
        (envelope(actions=[7]), 403, "authority_requested"),
        (envelope(input_class="other_lane"), 404, "unknown_lane"),
        (envelope(input_class="voice_audio"), 422, "unreadable_payload"),
        (
            envelope(input_class="voice_audio", payload={"wav_base64": "%%"}),
            422,
            "unreadable_payload",
        ),
        (
            envelope(input_class="voice_audio", payload={"wav_base64": "UklGRg=="}),
            422,
            "unreadable_payload",
        ),
    ],
)
def test_malformed_and_grasping_envelopes_are_refused(
    address: str, document: Any, status: int, code: str
) -> None:
    said = post(address, document)
    assert (said.status_code, said.json()["error"]["code"]) == (status, code)


def test_an_envelope_that_is_nested_too_deeply_is_refused(address: str) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    said = post(address, envelope(payload=deep))
    assert (said.status_code, said.json()["error"]["code"]) == (400, "malformed")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


@example("voice_audio", {"wav_base64": "\x80"})
@example("cron_n8n_event", {"age_minutes": 10**400, "x": -(10**30)})
@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from([lane.input_class for lane in FIXTURE_LANES]),
    json_values
    | st.dictionaries(
        st.sampled_from(["question", "passages", "wav_base64", "text", "operation", "max_tokens"]),
        json_values,
    ),
)
def test_any_payload_is_answered_or_refused(advisor: Advisor, lane: str, payload: Any) -> None:
    asked = admit(envelope(input_class=lane, payload=payload))
    refusals: list[str] = []
    try:
        said = advisor.advise(asked)
    except EnvelopeRefusedError as error:
        refusals.append(error.code)
    else:
        json.dumps(said, allow_nan=False)
        assert 0 <= said["confidence"] <= 1
    assert refusals in ([], ["unreadable_payload"])


def test_an_envelope_may_say_that_it_asks_for_nothing(address: str) -> None:
    document = envelope(authority={"advisory_only": True, "can_write_memory": False})
    assert post(address, document).status_code == 200


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"content-type": "application/json"}, b"{", 400),
        ({"content-type": "application/json", "origin": "http://page.example"}, b"{}", 403),
        ({"content-type": "application/json", "host": "page.example"}, b"{}", 403),
    ],
)
def test_requests_that_no_local_program_makes_are_refused(
    address: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    said = httpx2.post(f"{address}/v1/advise", content=body, headers=headers)
    assert said.status_code == status


def raw(address: str, data: bytes) -> bytes:
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(data)
        answer = b""
        while chunk := connection.recv(4096):
            answer += chunk
    return answer


HEAD = b"POST /v1/advise HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(("length", "status"), [(b"", b"411"), (b"Content-Length: -5\r\n", b"411")])
def test_a_body_without_a_sound_length_is_refused(
    address: str, length: bytes, status: bytes
) -> None:
    assert raw(address, HEAD + length + b"\r\n").startswith(b"HTTP/1.1 " + status)


def test_a_body_that_is_too_large_is_refused_unread(address: str) -> None:
    head = HEAD + f"Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode()
    assert raw(address, head).startswith(b"HTTP/1.1 413")


def test_other_paths_and_methods_lead_nowhere(address: str) -> None:
    assert httpx2.get(f"{address}/v1/advise").status_code == 404
    assert httpx2.post(f"{address}/health", json={}).status_code == 404
    assert httpx2.delete(f"{address}/health").status_code == 501


def test_a_client_that_dawdles_is_cut_off(advisor: Advisor) -> None:
    gateway = Gateway(0, advise=advisor.advise, health=advisor.health, request_seconds=0.2)
    with serving(gateway) as place:
        assert raw(place, HEAD + b"Content-Length: 9\r\n\r\n{").startswith(b"HTTP/1.1 408")
        assert raw(place, b"POST /v1/adv") == b""
        assert httpx2.get(f"{place}/health").status_code == 200


def test_too_many_connections_are_turned_away_and_places_come_back(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(MAX_CONNECTIONS)]
    try:
        for _ in range(100):
            turned_away = raw(address, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if turned_away.startswith(b"HTTP/1.1 503"):
                break
        assert turned_away.startswith(b"HTTP/1.1 503")
    finally:
        for connection in held:
            connection.close()
    for _ in range(3000):
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{address}/health").status_code == 200:
                return
        time.sleep(0.02)
    pytest.fail("no place came back")


def test_many_at_once_get_the_answers_they_would_get_alone(address: str) -> None:
    alone = post(address, envelope()).json()
    told: list[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda: told.append(post(address, envelope()).json()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [said["confidence"] for said in told] == [alone["confidence"]] * 8


def test_a_port_that_is_taken_is_a_usage_error(advisor: Advisor, address: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"port {port} cannot be opened"):
        Gateway(port, advise=advisor.advise, health=advisor.health)


def test_a_request_under_way_is_finished_before_the_gateway_ends() -> None:
    asked, ending = threading.Event(), threading.Event()

    class Ending(Gateway):
        def shutdown(self) -> None:
            ending.set()
            super().shutdown()

    def slow(_: RequestEnvelope) -> dict[str, Any]:
        asked.set()
        assert ending.wait(60)
        return {"label": "log"}

    answers: list[httpx2.Response] = []
    gateway = Ending(0, advise=slow, health=dict)
    with serving(gateway) as place:
        thread = threading.Thread(target=lambda: answers.append(post(place, envelope())))
        thread.start()
        assert asked.wait(60)
    thread.join()
    assert answers[0].json() == {"label": "log"}


def _send_to_another_thread(process: int, number: int) -> None:
    """Send a signal as a system may deliver it: to a thread that does not wait for it."""
    threads = {int(task.name) for task in Path(f"/proc/{process}/task").iterdir()}
    assert not ctypes.CDLL(None).tgkill(process, max(threads - {process}), number)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        (os.kill, signal.SIGINT),
        (os.kill, signal.SIGTERM),
        (_send_to_another_thread, signal.SIGTERM),
    ],
)
def test_the_command_prints_its_port_and_ends_cleanly_on_a_signal(
    send: Callable[[int, int], None], number: int
) -> None:
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "gatemark", "advisory", "gateway", "--port", "0"],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline().split()
        assert first[:2] == ["listening", "on"]
        with httpx2.Client(base_url=first[2]) as client:
            assert client.get("/health").json()["status"] == "ok"
            assert client.post("/v1/advise", content=json.dumps(envelope())).status_code == 415
            send(process.pid, number)
            try:
                _, err = process.communicate(timeout=60)
            finally:
                process.kill()
    assert process.returncode == 0
    assert err == "stopped\n"
