"""What a person should decide is labelled in a review, and the labels are the next references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .rigs import FIXTURES, MARKER, saying, write_fixtures

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def unreferenced() -> Path:
    rows = [{key: value for key, value in row.items() if key != "expected"} for row in FIXTURES]
    rows[0]["expected"] = {"label": "escalate", "severity": "high"}
    return write_fixtures(Path("own.jsonl"), rows)


def ask(gatemark: Run, out: str, *more: str) -> Any:
    service = saying({"label": "suppress", "severity": "info", "confidence": 0.9})
    arguments = ("--fixtures", "own.jsonl", "--service", service, "--runs", "1", "--out", out)
    ran = gatemark("advisory", "run", *arguments, *more, "--json")
    assert ran.code in (0, 1, 3), ran.err
    return ran.json


def queue(gatemark: Run, *more: str) -> Any:
    files = ("first/decisions.jsonl", "--fixtures", "own.jsonl", "-o", "queue.jsonl")
    return gatemark("advisory", "queue", *files, *more)


def test_labels_of_people_come_back_as_human_label(gatemark: Run) -> None:
    unreferenced()
    assert ask(gatemark, "first")["missing_reference_count"] == 2
    made = queue(gatemark)
    assert made.code == 0, made.err
    assert "2 inputs to label" in made.out
    assert "left out: 1 with an expected decision" in made.out
    samples = [json.loads(line) for line in Path("queue.jsonl").read_text().splitlines()]
    assert {sample["id"] for sample in samples} == {"own_002", "own_003"}
    # The recommendation is not shown to reviewers.
    assert {sample["output"] for sample in samples} == {None}
    assert MARKER in samples[0]["input"]["payload"]["message"]
    store = ("--store", "store")
    gatemark("role", "grant", "root", "admin", *store, "--actor", "root")
    gatemark("role", "grant", "olga", "pack_owner", *store, "--actor", "root")
    created = gatemark(
        *("review", "labels", "create", "doubts", "queue.jsonl", "--field", "target"),
        *("--label", "suppress/info", "--label", "escalate/high", "--source", "dry run"),
        *(*store, "--actor", "olga"),
    )
    assert created.code == 0, created.err
    for item, label in (("own_002", "suppress/info"), ("own_003", "escalate/high")):
        given = gatemark(
            "review", "labels", "give", "doubts", item, label, *store, "--actor", "bob"
        )
        assert given.code == 0, given.err
    assert gatemark("review", "labels", "accept", "doubts", *store, "--actor", "olga").code == 0
    exported = gatemark("review", "labels", "export", "doubts", "-o", "labels.jsonl", *store)
    assert exported.code == 0, exported.err
    found = ask(gatemark, "second", "--labels", "labels.jsonl")
    assert found["missing_reference_count"] == 0
    assert (found["agree_count"], found["false_negative_count"]) == (1, 2)
    records = [json.loads(x) for x in Path("second/decisions.jsonl").read_text().splitlines()]
    sources = {r["source"]["fixture_id"]: r["human_or_atlas_decision"]["source"] for r in records}
    assert sources == {
        "own_001": "fixture_expected",
        "own_002": "human_label",
        "own_003": "human_label",
    }


def test_all_takes_inputs_that_have_a_decision(gatemark: Run) -> None:
    unreferenced()
    ask(gatemark, "first")
    assert queue(gatemark, "--all", "--json").json == {
        "items": 3,
        "lanes": {"cron_n8n_event": 3},
        "with_expected_decision": 1,
    }


@pytest.mark.parametrize("change", ["other_id", "other_content"])
def test_other_fixtures_are_refused(gatemark: Run, change: str) -> None:
    unreferenced()
    ask(gatemark, "first")
    rows = [json.loads(line) for line in Path("own.jsonl").read_text().splitlines()]
    if change == "other_id":
        rows[1]["fixture_id"] = "own_009"
    else:
        rows[1]["payload"]["message"] = "something else"
    write_fixtures(Path("own.jsonl"), rows)
    refused = queue(gatemark)
    assert refused.code == 2
    assert "own_002" in refused.err
    assert not Path("queue.jsonl").exists()


def test_an_accepted_label_that_is_none_of_the_lane_is_refused(gatemark: Run) -> None:
    unreferenced()
    row = accepted_row(target="party/high")
    Path("labels.jsonl").write_text(json.dumps(row) + "\n")
    service = saying({"label": "suppress", "severity": "info"})
    ran = gatemark(
        *("advisory", "run", "--fixtures", "own.jsonl", "--service", service),
        *("--out", "first", "--labels", "labels.jsonl"),
    )
    assert (ran.code, "'party'" in ran.err) == (2, True)


def accepted_row(**more: Any) -> dict[str, Any]:
    """A row as ``review labels export`` writes it."""
    row = json.loads(Path("own.jsonl").read_text().splitlines()[1])
    told = {"input_class": row["input_class"], "payload": row["payload"]}
    found = {"id": "own_002", "input": told, "target": "suppress/info", "label_accepted_by": "olga"}
    return found | more


def labelled(gatemark: Run, *rows: dict[str, Any]) -> Any:
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    service = saying({"label": "suppress", "severity": "info", "confidence": 0.9})
    return gatemark(
        *("advisory", "run", "--fixtures", "own.jsonl", "--service", service, "--runs", "1"),
        *("--out", "later", "--labels", "labels.jsonl", "--json"),
    )


def test_a_label_belongs_to_the_content_that_was_labelled(gatemark: Run) -> None:
    """A fixture that was changed afterwards does not keep the label."""
    unreferenced()
    row = accepted_row()
    assert labelled(gatemark, row).json["missing_reference_count"] == 1
    rows = [json.loads(line) for line in Path("own.jsonl").read_text().splitlines()]
    rows[1]["payload"]["message"] = "the disk is on fire"
    write_fixtures(Path("own.jsonl"), rows)
    ran = labelled(gatemark, row)
    assert (ran.code, "was labelled with another content" in ran.err) == (2, True)


def test_an_accepted_label_without_its_input_is_refused(gatemark: Run) -> None:
    unreferenced()
    row = accepted_row()
    del row["input"]
    ran = labelled(gatemark, row)
    assert (ran.code, "input" in ran.err) == (2, True)


def test_labels_of_sets_that_contradict_each_other_are_refused(gatemark: Run) -> None:
    unreferenced()
    ran = labelled(gatemark, accepted_row(), accepted_row(target="escalate/high"))
    assert (ran.code, "own_002 has a human_label already" in ran.err) == (2, True)


def test_a_label_against_the_expected_decision_is_not_lost(gatemark: Run) -> None:
    """It does not replace the decision, but the summary says that a person decided otherwise."""
    unreferenced()
    row = {"fixture_id": "own_001", "source": "human_label", "label": "suppress"}
    found = labelled(gatemark, row | {"severity": "info"}).json
    assert found["false_negative_count"] == 1
    assert (
        "people label 1 fixtures otherwise than their expected decision, which counts: own_001"
        in found["promotion"]["caveats"]
    )
