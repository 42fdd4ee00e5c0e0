"""Real inputs beside the fixtures: named by their hash, compared with people or Atlas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .rigs import MARKER, saying

Run = Callable[..., Any]
HUMAN = {"source": "human_label", "label": "suppress", "severity": "info"}
ATLAS = {"source": "atlas_shadow", "label": "escalate", "severity": "high"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def real(number: int, **more: Any) -> dict[str, Any]:
    payload = {"status": "success", "message": MARKER, "repeat_count": number}
    line = {"input_class": "cron_n8n_event", "privacy_class": "non_private", "payload": payload}
    return line | more


def shadow(gatemark: Run, *lines: dict[str, Any], more: tuple[str, ...] = ()) -> Any:
    Path("inputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    service = saying({"label": "suppress", "severity": "info", "confidence": 0.9})
    return gatemark(
        *("advisory", "shadow", "inputs.jsonl", "--service", service, "--out", "out", "--json"),
        *more,
    )


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("out/decisions.jsonl").read_text().splitlines()]


def test_people_are_references_and_atlas_is_a_signal(gatemark: Run) -> None:
    ran = shadow(gatemark, real(1, decision=HUMAN), real(2, decision=ATLAS), real(3))
    assert ran.code in (1, 3), ran.err
    told = ran.json
    assert (told["agree_count"], told["missing_reference_count"]) == (1, 2)
    assert told["atlas_shadow"]["records"] == 1
    kinds = [(r["source"]["kind"], r["human_or_atlas_decision"]["source"]) for r in records()]
    assert kinds == [
        ("human_review", "human_label"),
        ("atlas_shadow", "atlas_shadow"),
        ("human_review", "missing"),
    ]
    for record in records():
        assert record["service"]["mode"] == "shadow"
        name, found = record["source"]["fixture_id"], record["source"]["content_hash"]
        assert name == "shadow_" + found.removeprefix("sha256:")[:32]
        assert not [note for note in record["notes"] if note.startswith("case:")]
    assert gatemark("validate", "out/decisions.jsonl").code == 0
    # Nothing of an input is written, in whatever file.
    written = "".join(path.read_text() for path in Path("out").rglob("*") if path.is_file())
    assert "heron" not in written


def test_labels_of_people_are_the_references_of_inputs_that_atlas_decided(gatemark: Run) -> None:
    shadow(gatemark, real(1, decision=ATLAS), real(2, decision=HUMAN))
    made = gatemark(
        "advisory", "queue", "out/decisions.jsonl", "--shadow", "inputs.jsonl", "-o", "queue.jsonl"
    )
    assert made.code == 0, made.err
    (sample,) = [json.loads(line) for line in Path("queue.jsonl").read_text().splitlines()]
    assert sample["id"] == records()[0]["source"]["fixture_id"]
    row = {"id": sample["id"], "input": sample["input"], "target": "suppress/info"}
    row["label_accepted_by"] = "olga"
    Path("labels.jsonl").write_text(json.dumps(row) + "\n")
    again = shadow(
        gatemark,
        *(real(1, decision=ATLAS), real(2, decision=HUMAN)),
        more=("--labels", "labels.jsonl"),
    )
    assert (again.json["agree_count"], again.json["missing_reference_count"]) == (2, 0)


def test_the_same_input_twice_is_one_input(gatemark: Run) -> None:
    ran = shadow(gatemark, real(1, decision=HUMAN), real(1, decision=HUMAN))
    assert len(records()) == 1
    assert "1 lines repeat an input, which counts once" in ran.json["promotion"]["caveats"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (real(2, privacy_class="private_disallowed"), "private_disallowed"),
        (real(2, payload={"message": "log in /home/anna/x.log"}), "looks private"),
        (real(1, decision=ATLAS | {"source": "human_label"}), "with another human_label"),
        (real(2, decision=HUMAN | {"label": "party"}), "must be one of"),
        (real(2, decision=HUMAN | {"source": "fixture_expected"}), "fixture_expected"),
        (real(2, fixture_id="mine"), "fixture_id"),
    ],
)
def test_what_is_private_or_contradicts_is_refused_before_anything_is_asked(
    gatemark: Run, line: dict[str, Any], words: str
) -> None:
    ran = shadow(gatemark, real(1, decision=HUMAN), line)
    assert ran.code == 2
    assert words in ran.err
    assert "anna" not in ran.err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "payload",
    [
        {"phone": 491761234567},
        {"card": 4111111111111111},
        {"m": ["anna@", "example.com"]},
        {"m": "anna(at)example.com"},
        {"m": "anna [at] example.com"},
        {"m": "YW5uYUBleGFtcGxlLmNvbQ=="},
        {"m": "bWFpbCB0byBhbm5hQGV4YW1wbGUuY29tIGF0IG9uY2U"},
    ],
)
def test_private_data_in_other_forms_is_refused(gatemark: Run, payload: dict[str, Any]) -> None:
    ran = shadow(gatemark, real(1, payload=payload, decision=HUMAN))
    assert (ran.code, "looks private" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "payload",
    [
        {"at_ms": 1_717_000_000_000},
        {"repeat_count": 1_000_000_000},
        {"size_bytes": 734_003_200_123},
        {"run": 12_345_678_901},
        {"parts": ["12", "34", "56", "78", "90", "12"]},
    ],
)
def test_numbers_and_codes_are_not_private(gatemark: Run, payload: dict[str, Any]) -> None:
    ran = shadow(gatemark, real(1, payload=payload, decision=HUMAN))
    assert ran.code in (0, 1, 3), ran.err


def test_inputs_that_differ_in_blanks_or_case_are_one_input(gatemark: Run) -> None:
    texts = ("disk is full", "disk  is full ", "Disk is full", "\uff44isk is full")
    lines = [real(1, payload={"m": text}, decision=HUMAN) for text in texts]
    ran = shadow(gatemark, *lines)
    assert len(records()) == 1
    assert "3 lines repeat an input, which counts once" in ran.json["promotion"]["caveats"]


def test_a_label_does_not_replace_the_decision_of_a_person(gatemark: Run) -> None:
    """Labels are for inputs that nobody decided; a second opinion is a contradiction."""
    escalated = HUMAN | {"label": "escalate", "severity": "high"}
    assert shadow(gatemark, real(1, decision=escalated)).json["agree_count"] == 0
    label = {"fixture_id": records()[0]["source"]["fixture_id"], **HUMAN}
    Path("labels.jsonl").write_text(json.dumps(label) + "\n")
    ran = shadow(gatemark, real(1, decision=escalated), more=("--labels", "labels.jsonl"))
    assert (ran.code, "another human_label" in ran.err) == (2, True)
    Path("labels.jsonl").write_text(json.dumps(label | escalated) + "\n")
    same = shadow(gatemark, real(1, decision=escalated), more=("--labels", "labels.jsonl"))
    assert same.code in (1, 3), same.err


def test_a_decision_of_the_future_is_refused_before_anything_is_asked(gatemark: Run) -> None:
    ran = shadow(gatemark, real(1, decision=HUMAN | {"timestamp": "2099-01-01T00:00:00Z"}))
    assert (ran.code, "lies in the future" in ran.err) == (2, True)
    assert not Path("out").exists()
