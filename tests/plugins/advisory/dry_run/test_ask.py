from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from advisory_cases.case import pin_half
from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.advisory.dry_run.folder import encode_decisions
from gatemark.plugins.advisory.fixtures.files import open_fixtures, read_fixture_labels
from gatemark.plugins.advisory.fixtures.fixture import (
    FIXTURE_LANES,
    Fixture,
    FixtureManifest,
    open_builtin,
)
from gatemark.plugins.advisory.gateway.advisor import Advisor
from gatemark.plugins.advisory.gateway.server import Gateway, open_gateway
from gatemark.plugins.advisory.record_examples import change_record

from .rigs import FIXTURES, GOOD, ON_CPU, run, saying, service, serving, write_fixtures


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_fixtures(tmp_path / "own.jsonl", FIXTURES)


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    opened: Gateway = open_gateway(0, "CPU", "no-counter")
    with serving(opened) as address:
        yield address


@pytest.mark.slow
def test_the_builtin_set_is_answered_alike_in_every_run(gateway: str) -> None:
    runs = run("builtin", f"all={gateway}", runs=2)
    assert runs[0].run_id < runs[1].run_id
    for dry_run in runs:
        records = dry_run.decisions
        assert [record.source.fixture_id for record in records] == [
            fixture.fixture_id for fixture in open_builtin().fixtures
        ]
        assert {record.source.artifact_ref for record in records} == {dry_run.run_id}
        assert {record.service.name for record in records} == {
            lane.service for lane in FIXTURE_LANES
        }
        kinds = Counter((record.fallback.kind, record.fallback.expected) for record in records)
        # Eight private roots are blocked, eleven envelopes settled by rule.
        assert kinds == {
            ("cpu", True): 269,
            ("private_root_blocked", True): 8,
            (None, False): 11,
        }
        assert {record.npu_proof.proof_ok for record in records} == {None}
        assert all(record.notes and record.notes[1].startswith("proof:") for record in records)
        assert all(record.latency.total_ms and record.latency.service_ms for record in records)
        agreed = [record for record in records if record.outcome.comparison == "agree"]
        assert 200 < len(agreed) < len(records)
    told = [[(r.recommendation, r.confidence) for r in dry_run.decisions] for dry_run in runs]
    assert told[0] == told[1]


def test_what_a_gateway_or_another_counter_says_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no NPU here: a lane is told that it is one, and its counter is moved by hand."""
    counter = tmp_path / "busy"
    counter.write_text("1000")
    advisor = Advisor("CPU", counter=counter)
    lane = advisor._lanes["kanban_hygiene"]
    infer = lane.infer

    def counting(row: Any) -> Any:
        counter.write_text(str(int(counter.read_text()) + 70))
        return infer(row)

    monkeypatch.setattr(lane, "infer", counting)
    monkeypatch.setattr(lane, "device", "NPU")
    monkeypatch.setattr(lane, "fallback", None)
    with serving(Gateway(0, advise=advisor.advise, health=advisor.health)) as address:
        (told,) = run("builtin", f"kanban_hygiene={address}")
        (seen,) = run("builtin", f"kanban_hygiene={address}", busy_counter=str(counter))
    reported, measured = told.decisions[0].npu_proof, seen.decisions[0].npu_proof
    assert (reported.proof_mode, reported.proof_ok) == ("service_reported_delta", None)
    assert reported.service_reported_delta_us == 70
    assert (measured.proof_mode, measured.proof_ok) == ("service_reported_delta", None)
    assert told.decisions[0].fallback.kind == "proof_unavailable"
    assert "proof:other_counter" in (seen.decisions[0].notes or ())


def test_a_lane_without_a_service_is_not_asked_about(gateway: str) -> None:
    (dry_run,) = run("builtin", f"kanban_hygiene={gateway}")
    assert {record.input_class for record in dry_run.decisions} == {"kanban_hygiene"}


def test_each_lane_may_have_its_own_service_and_the_order_stays(gateway: str) -> None:
    asked = f"all={gateway}", "cron_n8n_event=script:cat"
    (dry_run,) = run("builtin", *asked, jobs=4)
    fallbacks = {record.input_class: record.fallback.kind for record in dry_run.decisions}
    assert fallbacks["cron_n8n_event"] == "service_unavailable"
    assert fallbacks["kanban_hygiene"] == "cpu"
    names = [record.source.fixture_id for record in dry_run.decisions]
    assert names == [fixture.fixture_id for fixture in open_builtin().fixtures]


def test_a_service_sees_the_payload_and_nothing_that_tells_the_answer(fixtures: Path) -> None:
    seen = "with open('seen', 'a') as file: file.write(json.dumps(envelope) + chr(10))"
    run(fixtures, service(f"{seen}\n    return {{'output': {ON_CPU!r}}}"))
    envelopes = [json.loads(line) for line in Path("seen").read_text().splitlines()]
    assert [envelope["payload"] for envelope in envelopes] == [row["payload"] for row in FIXTURES]
    for envelope in envelopes:
        told = json.dumps({**envelope, "payload": None})
        assert not any(word in told for word in ("own_", "suppress", "info", "normal"))
        assert set(envelope) <= {
            "protocol",
            "operation",
            "request_id",
            "input_class",
            "mode",
            "payload",
        }


def test_a_sound_travels_as_a_wav_and_never_as_its_parameters(fixtures: Path) -> None:
    sound = {
        "sample_rate_hz": 8000,
        "seconds": 0.1,
        "noise_seed": 1,
        "parts": [{"shape": "tone", "level": 0.5, "hz": 440}],
    }
    write_fixtures(fixtures, [{**FIXTURES[0], "input_class": "voice_audio", "payload": sound}])
    seen = "with open('seen', 'w') as file: file.write(json.dumps(envelope))"
    run(fixtures, service(f"{seen}\n    return {{'output': 1}}"))
    payload = json.loads(Path("seen").read_text())["payload"]
    assert base64.b64decode(payload["wav_base64"]).startswith(b"RIFF")
    assert set(payload) == {"wav_base64"}


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_command_that_stays_and_a_script_that_ends_both_serve(fixtures: Path, jobs: int) -> None:
    reply = json.dumps(ON_CPU)
    Path("stay.py").write_text(
        f"import json, sys\nreply = {ON_CPU!r}\n"
        "for line in sys.stdin:\n"
        "    said = {'id': json.loads(line)['id'], 'output': reply}\n"
        "    print(json.dumps(said), flush=True)\n"
    )
    Path("once.sh").write_text(f"#!/bin/sh\ncat > /dev/null\necho '{reply}'\n")
    Path("once.sh").chmod(0o755)
    for target in ("command:python3 stay.py", "script:./once.sh"):
        (dry_run,) = run(fixtures, f"all={target}", jobs=jobs)
        assert [record.outcome.comparison for record in dry_run.decisions] == ["agree"] * 3
        assert dry_run.decisions[0].service.endpoint in ("python3", "once.sh")


def test_shadow_mode_is_said_to_the_service_and_in_the_record(fixtures: Path) -> None:
    asked = service(f"return {{'output': {{**{ON_CPU!r}, 'model': envelope['mode']}}}}")
    (dry_run,) = run(fixtures, asked, mode="shadow")
    assert dry_run.decisions[0].service.mode == "shadow"
    assert dry_run.decisions[0].service.model == "shadow/CPU"


def test_health_only_asks_one_probe_per_lane(gateway: str) -> None:
    (dry_run,) = run("builtin", f"all={gateway}", mode="health_only")
    assert [record.input_class for record in dry_run.decisions] == [
        lane.input_class for lane in FIXTURE_LANES
    ]
    assert {record.fallback.kind for record in dry_run.decisions} == {"health_only"}
    assert {record.outcome.comparison for record in dry_run.decisions} == {"not_applicable"}


def test_health_only_of_a_service_that_is_ill(fixtures: Path) -> None:
    (dry_run,) = run(fixtures, saying({"status": "starting"}), mode="health_only")
    (record,) = dry_run.decisions
    assert (record.fallback.kind, record.fallback.reason) == ("service_unavailable", "not_healthy")


def test_earlier_decisions_answer_offline(fixtures: Path) -> None:
    (live,) = run(fixtures, saying({**ON_CPU, "actions": ["send_message"], "reasons": ["why"]}))
    Path("earlier.jsonl").write_bytes(encode_decisions(live.decisions[:2]))
    (dry_run,) = run(fixtures, "all=recorded:earlier.jsonl", mode="offline_fixture")
    first, _, last = dry_run.decisions
    assert first.recommendation == live.decisions[0].recommendation
    assert (first.fallback.kind, first.fallback.expected) == ("offline", True)
    assert (first.npu_proof.proof_mode, first.latency.total_ms) == ("offline_fixture", None)
    assert first.outcome.error_type == "unsafe_authority"
    assert last.fallback.reason == "recording_has_no_answer"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"authority_flags.can_write_memory": ...}, "unsafe_authority"),
        ({"actual_action.side_effects": ["restarted_service"]}, "unsafe_authority"),
        ({"privacy.payload_logged": True}, "privacy_violation"),
        ({"privacy.contains_private_payload": True}, "privacy_violation"),
    ],
)
def test_playing_a_recording_again_launders_nothing(
    fixtures: Path, changes: dict[str, Any], error: str
) -> None:
    (live,) = run(fixtures, saying(ON_CPU))
    clean = [json.loads(line) for line in encode_decisions(live.decisions).splitlines()]
    bad = [change_record(clean[0], changes), *clean]
    unanswered = {
        "recommendation.label": "unknown",
        "fallback.kind": "service_unavailable",
        "fallback.reason": "timeout",
    }
    for rows in (bad, [*clean, change_record(clean[0], changes | unanswered)]):
        write_fixtures(Path("earlier.jsonl"), rows)
        (again,) = run(fixtures, "all=recorded:earlier.jsonl", mode="offline_fixture")
        errors = [record.outcome.error_type for record in again.decisions]
        assert errors == [error, None, None]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "holds no recommendations"), (b'{"label": "log"}\n', "not an advisory decision")],
)
def test_a_recording_that_holds_no_decisions_is_refused(
    fixtures: Path, content: bytes, complaint: str
) -> None:
    Path("earlier.jsonl").write_bytes(content)
    with pytest.raises(BadInputError, match=complaint):
        run(fixtures, "all=recorded:earlier.jsonl", mode="offline_fixture")


def test_labels_stand_in_for_expected_decisions(fixtures: Path) -> None:
    bare = [{k: v for k, v in row.items() if k != "expected"} for row in FIXTURES]
    write_fixtures(fixtures, bare)
    lines = [
        {"fixture_id": "own_001", "source": "human_label", "label": "suppress", "severity": "info"},
        {"fixture_id": "own_001", "source": "atlas_shadow", "label": "escalate"},
        {"fixture_id": "own_002", "source": "atlas_shadow", "label": "suppress", "confidence": 0.5},
    ]
    labels = write_fixtures(Path("labels.jsonl"), lines)
    (dry_run,) = run(fixtures, saying(ON_CPU), labels=str(labels))
    sources = [record.human_or_atlas_decision.source for record in dry_run.decisions]
    assert sources == ["human_label", "atlas_shadow", "missing"]
    told = [record.outcome.comparison for record in dry_run.decisions]
    assert told == ["agree", "missing_reference", "missing_reference"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"fixture_id": "other"}, "no fixture is called 'other'"),
        ({"label": "launch"}, "must be one of suppress"),
        ({"source": "rumour"}, r"\$\.source"),
        ({"confidence": 2}, r"\$\.confidence"),
        ({"decision_ref": "a path/to"}, r"\$\.decision_ref"),
        ({"timestamp": "yesterday"}, r"\$\.timestamp"),
        ({"timestamp": "2026-02-30T00:00:00Z"}, r"\$\.timestamp"),
        ({"extra": 1}, "unknown field"),
    ],
)
def test_a_bad_label_is_refused_with_its_place(
    fixtures: Path, change: dict[str, Any], complaint: str
) -> None:
    good = {"fixture_id": "own_001", "source": "human_label", "label": "log"}
    labels = write_fixtures(Path("labels.jsonl"), [{**good, **change}])
    with pytest.raises(BadInputError, match=f"labels.jsonl:1: .*{complaint}"):
        run(fixtures, saying(GOOD), labels=str(labels))


def test_a_label_given_twice_is_refused(fixtures: Path) -> None:
    good = {"fixture_id": "own_001", "source": "human_label", "label": "log"}
    labels = write_fixtures(Path("labels.jsonl"), [good, good])
    with pytest.raises(BadInputError, match=r"labels.jsonl:2: own_001 has a human_label already"):
        read_fixture_labels(str(labels), open_fixtures(str(fixtures)).fixtures)


def pinned_folder(folder: Path) -> Path:
    rows = [msgspec.convert(row, Fixture) for row in FIXTURES]
    manifest = FixtureManifest(fixture_set="own_set", evaluation=pin_half("own.jsonl", rows))
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    return folder


def test_a_folder_with_a_manifest_is_pinned(fixtures: Path) -> None:
    opened = open_fixtures(str(pinned_folder(fixtures.parent)))
    assert (opened.name, opened.pinned, len(opened.fixtures)) == ("own_set", True, 3)
    assert not open_fixtures(str(fixtures)).pinned


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([*FIXTURES[:2]], "own_003 is pinned and missing"),
        (
            [*FIXTURES, {**FIXTURES[0], "fixture_id": "own_004", "payload": 4}],
            "own_004 is not pinned",
        ),
        (
            [{**FIXTURES[0], "expected": {"label": "log", "severity": "low"}}, *FIXTURES[1:]],
            "own_001 is not the fixture that the manifest pins",
        ),
    ],
)
def test_fixtures_that_differ_from_their_manifest_are_refused(
    fixtures: Path, rows: list[dict[str, Any]], complaint: str
) -> None:
    folder = pinned_folder(fixtures.parent)
    write_fixtures(fixtures, rows)
    with pytest.raises(BadInputError, match=complaint):
        open_fixtures(str(folder))


def test_a_manifest_may_not_point_elsewhere(fixtures: Path) -> None:
    folder = pinned_folder(fixtures.parent)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["evaluation"]["file"] = "../own.jsonl"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInputError, match="must be a file in the folder of the manifest"):
        open_fixtures(str(folder))


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"manifest\.json"):
        open_fixtures(str(tmp_path))


def test_the_gateway_can_be_started_for_a_run(fixtures: Path) -> None:
    (dry_run,) = run(fixtures, "all=gateway:CPU")
    assert dry_run.decisions[0].fallback.reason == "cpu_requested"
    assert dry_run.decisions[0].service.endpoint == "gateway/v1/advise"


def test_a_gateway_that_cannot_start_is_a_usage_error(fixtures: Path) -> None:
    import openvino

    if "NPU" in openvino.Core().available_devices:
        pytest.skip("this machine has an NPU")
    with pytest.raises(UsageError, match="the gateway did not start: device NPU was asked for"):
        run(fixtures, "all=gateway:NPU")
