from __future__ import annotations

from collections import Counter
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from gatemark.advisory.cases.case import Draw, Half
from gatemark.advisory.fixtures import (
    FIXTURE_SET,
    MANIFEST,
    MAX_PAYLOAD_BYTES,
    Fixture,
    builtin_fixtures,
    decode_manifest,
    fixture_of,
    set_digest,
)
from gatemark.advisory.lanes import LANES
from gatemark.advisory.make_fixtures import CASES, make_halves, write
from gatemark.core.errors import BadInputError

GOOD = {
    "fixture_id": "own_001",
    "input_class": "cron_n8n_event",
    "case": "own",
    "kind": "normal",
    "privacy_class": "synthetic",
    "payload": {"status": "success"},
}


def test_the_shipped_files_are_what_the_script_makes(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("evaluation.jsonl", "training.jsonl", MANIFEST):
        shipped = (files("gatemark.advisory") / FIXTURE_SET / name).read_bytes()
        assert shipped == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.input_class)
def test_every_lane_has_at_least_36_fixtures_of_every_kind_it_needs(lane: object) -> None:
    name = lane.input_class  # type: ignore[attr-defined]
    found = [fixture for fixture in builtin_fixtures().fixtures if fixture.input_class == name]
    kinds = Counter(fixture.kind for fixture in found)
    assert len(found) >= 36
    assert {"normal", "low_confidence", "false_alarm", "action_needed"} <= kinds.keys()
    assert all(fixture.expected is not None for fixture in found)
    assert all(fixture.privacy_class == "synthetic" for fixture in found)


def test_the_document_s_cases_are_all_there() -> None:
    cases = {name: {case.name for case in found} for name, found in CASES.items()}
    assert {"missing_context", "conflicting_context", "sufficient_context"} <= cases["context_gate"]
    assert {
        "duplicate_success",
        "stale_warning",
        "urgent_false_alarm",
        "action_needed_failure",
    } <= cases["cron_n8n_event"]
    assert {"private_root_blocked", "approved_sample", "noisy_ocr", "needs_human"} <= cases[
        "batch_doc_triage"
    ]
    assert {
        "bounded_generated_audio",
        "low_confidence_transcript",
        "background_noise",
        "command_like_utterance",
    } <= cases["voice_audio"]
    assert {"healthy_card", "stale_card", "waiting_by_design", "action_needed_card"} <= cases[
        "kanban_hygiene"
    ]
    assert {
        "valid_classify",
        "valid_generate",
        "valid_triage",
        "malformed_envelope",
        "authority_request",
    } <= cases["advisory_gateway_envelope"]


def test_the_halves_share_neither_an_id_nor_a_payload() -> None:
    halves = [builtin_fixtures(half).fixtures for half in ("training", "evaluation")]
    ids = [{fixture.fixture_id for fixture in half} for half in halves]
    payloads = [{fixture.content_hash for fixture in half} for half in halves]
    assert not ids[0] & ids[1]
    assert not payloads[0] & payloads[1]
    assert [len(found) for found in payloads] == [len(half) for half in halves]


def test_another_seed_makes_other_fixtures_under_the_same_names() -> None:
    ours, other = (make_halves(seed)["evaluation"] for seed in (11, 12))
    assert [fixture.fixture_id for fixture in ours] == [fixture.fixture_id for fixture in other]
    assert set_digest(ours) != set_digest(other)


def test_evaluation_shows_wordings_that_training_never_showed() -> None:
    pool = [str(number) for number in range(6)]
    halves: tuple[Half, Half] = ("training", "evaluation")
    seen = [{Draw(f"{half}{turn}", half).phrase(pool) for turn in range(200)} for half in halves]
    assert seen == [{"0", "1", "3", "4"}, {"1", "2", "4", "5"}]


def test_the_pin_of_a_fixture_covers_its_expected_decision() -> None:
    fixture = builtin_fixtures().fixtures[0]
    assert fixture.expected is not None
    harsher = msgspec.structs.replace(fixture.expected, severity="critical")
    changed = msgspec.structs.replace(fixture, expected=harsher)
    assert changed.pin != fixture.pin
    assert changed.content_hash == fixture.content_hash


def test_a_fixture_is_read_from_plain_json() -> None:
    fixture = fixture_of(GOOD)
    assert isinstance(fixture, Fixture)
    assert fixture.expected is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"fixture_id": "Own 1"}, "$.fixture_id"),
        ({"kind": "odd"}, "$.kind"),
        ({"expected": {"label": "log"}}, "$.expected"),
        ({"surprise": 1}, "unknown field"),
        ({"payload": "x" * (MAX_PAYLOAD_BYTES + 1)}, "payload must have at most"),
    ],
)
def test_a_bad_fixture_says_what_is_wrong(change: dict[str, object], complaint: str) -> None:
    problem = fixture_of({**GOOD, **change})
    assert isinstance(problem, str)
    assert complaint in problem


@pytest.mark.parametrize("value", [None, 3, [], "line is longer than 4 bytes"])
def test_a_fixture_must_be_an_object(value: object) -> None:
    assert isinstance(fixture_of(value), str)


def test_a_manifest_that_is_none_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"m\.json: not a fixture manifest"):
        decode_manifest(b"[]", "m.json")
