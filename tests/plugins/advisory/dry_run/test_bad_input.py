"""Every kind of trouble that a service, a counter or a fixture file can make has its record."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.advisory.dry_run.folder import read_advisory_decisions
from gatemark.plugins.advisory.dry_run.recording import read_recording
from gatemark.plugins.advisory.fixtures.files import (
    get_default_taxonomy,
    open_fixtures,
    open_inputs,
)
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.record_rules import BREACHES

from .rigs import FIXTURES, GOOD, ON_CPU, run, saying, service, write_fixtures


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_fixtures(tmp_path / "own.jsonl", FIXTURES)


def first(fixtures: Path, *services: str, **choices: Any) -> AdvisoryDecision:
    (dry_run,) = run(fixtures, *services, **choices)
    assert len(dry_run.decisions) == len(FIXTURES)
    return dry_run.decisions[0]


def breaches(record: AdvisoryDecision) -> set[str]:
    return {problem.path for problem in BREACHES.find_problems(record)}


def test_a_good_service_agrees(fixtures: Path) -> None:
    record = first(fixtures, saying(ON_CPU))
    assert record.outcome.comparison == "agree"
    assert record.fallback.expected
    assert record.latency.total_ms is not None
    assert breaches(record) == set()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_service_that_is_down_is_recorded_for_every_fixture(fixtures: Path) -> None:
    record = first(fixtures, f"all=http://127.0.0.1:{free_port()}")
    assert (record.fallback.kind, record.fallback.reason) == (
        "service_unavailable",
        "service_unreachable",
    )
    assert record.outcome.error_type == "fallback_unexpected"
    assert record.npu_proof.inference_ran is False


def test_a_slow_service_is_recorded_as_a_timeout_with_the_time_it_had(fixtures: Path) -> None:
    record = first(fixtures, service("time.sleep(0.5)"), timeout_s=0.05, jobs=3)
    assert record.latency.timeout
    assert record.latency.total_ms is not None
    assert record.latency.total_ms > 0
    assert record.fallback.reason == "timeout"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({**GOOD, "label": "launch"}, "label_outside_taxonomy"),
        ({**GOOD, "confidence": 1.7}, "confidence_out_of_range"),
        ([1, 2], "reply_not_an_object"),
        ({**GOOD, "severity": "awful"}, "severity_unknown"),
    ],
)
def test_a_reply_that_cannot_be_used_is_recorded_as_none(
    fixtures: Path, reply: Any, reason: str
) -> None:
    record = first(fixtures, saying(reply))
    assert (record.recommendation.label, record.recommendation.reasons) == ("unknown", (reason,))
    assert (record.confidence.score, record.confidence.bucket) == (None, "unknown")
    assert (record.fallback.kind, record.fallback.reason) == ("service_unavailable", reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError(envelope['payload'])", "service_crashed"),
        ("return None", "reply_unreadable"),
        ("return {'output': float('nan')}", "reply_unreadable"),
        ("return {'output': 'x' * 400000}", "reply_unreadable"),
    ],
)
def test_a_service_that_breaks_is_recorded_without_its_words(
    fixtures: Path, body: str, reason: str
) -> None:
    record = first(fixtures, service(body))
    assert record.fallback.reason == reason


def test_asking_for_authority_is_recorded_as_unsafe(fixtures: Path) -> None:
    record = first(fixtures, saying({**ON_CPU, "actions": ["execute_tool"]}))
    assert record.authority_flags.can_execute_tools is True
    assert record.outcome.error_type == "unsafe_authority"
    assert record.outcome.promotion_blocker
    assert record.actual_action.performed is False
    assert "$.authority_flags.can_execute_tools" in breaches(record)


@pytest.mark.parametrize(
    "body",
    [
        "return {'output': {**REPLY, 'input': envelope}}",
        "return {'output': {**REPLY, 'reasons': [envelope['payload']['message']]}}",
        "return {'output': envelope['payload']}",
    ],
)
def test_a_payload_that_comes_back_is_a_privacy_violation_without_the_content(
    fixtures: Path, body: str
) -> None:
    record = first(fixtures, service(f"REPLY = {ON_CPU!r}\n    {body}"))
    assert record.outcome.error_type == "privacy_violation"
    assert record.outcome.promotion_blocker
    assert record.privacy.payload_logged is False
    assert record.notes is not None
    assert any(note.startswith("reply_repeats_payload:") for note in record.notes)


def on_npu(step: int) -> str:
    """A service that claims the NPU, and moves a counter file by a step."""
    return service(
        "from pathlib import Path; place = Path('counter')\n"
        f"    place.write_text(str(int(place.read_text()) + {step}))\n"
        f"    return {{'output': {{**{GOOD!r}, 'device': 'NPU'}}}}"
    )


def test_a_counter_that_the_service_writes_itself_proves_nothing(fixtures: Path) -> None:
    Path("counter").write_text("100\n")
    record = first(fixtures, on_npu(250), busy_counter="counter")
    assert (record.npu_proof.proof_mode, record.npu_proof.proof_ok) == ("unavailable", None)
    assert "proof:other_counter" in (record.notes or ())
    assert (record.fallback.kind, record.fallback.reason) == ("proof_unavailable", "other_counter")


def test_a_counter_that_stands_still_disproves_it(fixtures: Path) -> None:
    Path("counter").write_text("100\n")
    record = first(fixtures, on_npu(0), busy_counter="counter")
    assert (record.npu_proof.proof_ok, record.outcome.error_type) == (False, "npu_proof_missing")


@pytest.mark.parametrize(
    ("content", "step", "why"),
    [
        (None, None, "counter_missing"),
        ("busy", None, "counter_not_a_number"),
        ("900", -300, "counter_went_backwards"),
    ],
)
def test_a_counter_in_trouble_leaves_the_proof_open_with_a_reason(
    fixtures: Path, content: str | None, step: int | None, why: str
) -> None:
    if content is not None:
        Path("counter").write_text(content)
    claims = saying({**GOOD, "device": "NPU"}) if step is None else on_npu(step)
    record = first(fixtures, claims, busy_counter="counter")
    assert (record.npu_proof.proof_mode, record.npu_proof.proof_ok) == ("unavailable", None)
    assert (record.fallback.kind, record.fallback.reason) == ("proof_unavailable", why)
    assert record.notes is not None
    assert f"proof:{why}" in record.notes


def rewrite(place: Path, *changes: dict[str, Any]) -> None:
    both = itertools.zip_longest(FIXTURES, changes, fillvalue={})
    write_fixtures(place, [{**row, **change} for row, change in both])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"fixture_id": "own_002"}, "own.jsonl:2: fixture_id 'own_002' was seen before at"),
        ({"payload": {"note": "see /home/anna/diary.txt"}}, "looks private"),
        ({"payload": {"to": "anna@example.org"}}, "looks private"),
        ({"payload": {"call": "+49 170 1234567"}}, "looks private"),
        ({"payload": {"key": "AKIAIOSFODNN7EXAMPLE"}}, "looks private"),
        ({"payload": {"/home/anna/x": 1}}, "$.payload key 1 looks private"),
        ({"payload": {"text": "word " * 500}}, "must have at most 2000 characters"),
        ({"privacy_class": "private_disallowed"}, "must not be in a fixture file"),
        ({"expected": {"label": "launch", "severity": "low"}}, "expected.label must be one of"),
        ({"payload": FIXTURES[1]["payload"]}, "own_002 has the payload of own_001"),
        ({"input_class": "voice_audio"}, "payload is not a sound"),
        ({"surprise": 1}, "unknown field"),
    ],
)
def test_a_bad_fixture_stops_the_run_before_anything_is_asked(
    fixtures: Path, change: dict[str, Any], complaint: str
) -> None:
    rewrite(fixtures, change)
    asked = service("open('asked', 'w').close()")
    with pytest.raises(BadInputError) as caught:
        run(fixtures, asked)
    told = "\n".join(caught.value.lines())
    assert complaint in told
    assert not any(word in told for word in ("anna", "1234567", "AKIA", "heron"))
    assert not Path("asked").exists()


@pytest.mark.parametrize(
    ("services", "complaint"),
    [
        ((), "at least one --service"),
        (("all",), "must look like LANE=TARGET"),
        (("cloud=gateway",), "no fixture belongs to lane 'cloud'"),
        (("all=gateway", "all=gateway"), "has two services"),
        (("all=carrier-pigeon",), "service target must be"),
        (("all=gateway:GPU",), "service target must be"),
        (("all=http://advice.example/v1",), "loopback interface"),
        (("all=http://10.0.0.1/",), "loopback interface"),
        (("all=http://[::1",), "is not valid"),
        (("all=http://127.0.0.1:1/x?token=1",), "must not have a query"),
        (("all=command:'",), "cannot be split"),
        (("all=script:./gone.sh",), "no program"),
        (("all=python:gone:advise",), "no module 'gone'"),
        (("all=recorded:x.jsonl",), "offline_fixture is for recorded services"),
    ],
)
def test_services_that_make_no_sense_are_usage_errors(
    fixtures: Path, services: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        run(fixtures, *services)


@pytest.mark.parametrize("reader", [open_fixtures, open_inputs])
def test_a_line_that_is_a_text_is_not_repeated(
    tmp_path: Path, reader: Callable[[str], object]
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('"the patient lives in Oslo"\n')
    with pytest.raises(BadInputError) as told:
        reader(str(path))
    assert str(told.value) == f"{path}:1: must be an object"


def test_a_record_that_is_no_json_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"schema": \n')
    with pytest.raises(BadInputError, match="not JSON") as told:
        list(read_advisory_decisions(str(path)))
    assert "BadLine" not in str(told.value)
    with pytest.raises(BadInputError, match="not JSON"):
        read_recording(str(path), get_default_taxonomy)
