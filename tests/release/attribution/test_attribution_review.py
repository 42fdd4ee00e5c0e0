"""What an attribution proposes feeds nothing until the right person accepts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.release.attribution.test_attribute_command import decision, plan

Run = Callable[..., Any]
DESK = """
def step(call):
    if call["name"] == "tariffs":
        return "5"
    if call["pins"].get("prompt:writer") == "r2":
        return "no idea"
    return f"costs {call['inputs']['look-up']}"
"""


@pytest.fixture
def sealed(gatemark: Run, tmp_path: Path) -> tuple[Path, str]:
    """A store with a sealed attribution of a decision that bob judged."""
    (tmp_path / "desk_steps.py").write_text(DESK)
    judged = {"verdict": "wrong", "reviewer": "bob", "expected": "costs 5"}
    (tmp_path / "decision.json").write_text(json.dumps(decision(judgement=judged)))
    plan(tmp_path, "step")
    store = tmp_path / "store"
    made = gatemark(
        "attribute", tmp_path / "decision.json", "--replay", "--seal", "--store", store, "--json"
    )
    assert made.code == 0, made.err
    for person, role in (
        ("root", "admin"),
        ("olu", "pack_owner"),
        ("bob", "pack_owner"),
        ("kim", "operator"),
    ):
        granted = gatemark("role", "grant", person, role, "--actor", "root", "--store", store)
        assert granted.code == 0, granted.err
    return store, made.json["id"]


@pytest.fixture
def noted(gatemark: Run, sealed: tuple[Path, str]) -> tuple[Path, str]:
    """The same about a decision of the asset desk."""
    store = sealed[0]
    folder = store.parent
    granted = gatemark("role", "grant", "ann", "author", "--actor", "root", "--store", store)
    assert granted.code == 0, granted.err
    added = ("asset", "add", "desk@1.0.0", "--kind", "agent", "--digest", "sha256:" + "1" * 64)
    assert gatemark(*added, "--actor", "ann", "--store", store).code == 0
    judged = {"verdict": "wrong", "reviewer": "bob", "expected": "costs 5"}
    (folder / "named.json").write_text(json.dumps(decision(judgement=judged, asset="desk")))
    asked = ("attribute", folder / "named.json", "--replay", "--seal")
    made = gatemark(*asked, "--store", store, "--json")
    assert made.code == 0, made.err
    return store, made.json["id"]


def judge(gatemark: Run, sealed: tuple[Path, str], actor: str, *more: object) -> Any:
    store, name = sealed
    return gatemark("review", "attribution", name, "--store", store, "--actor", actor, *more)


def test_an_accepted_item_is_a_row_of_a_data_set_and_the_ledger_tells_of_it(
    gatemark: Run, sealed: tuple[Path, str], tmp_path: Path
) -> None:
    out = tmp_path / "items.jsonl"
    refused = judge(gatemark, sealed, "olu", "-o", out)
    assert refused.code == 1
    assert not out.exists()
    ran = judge(gatemark, sealed, "olu", "--accept", "golden_item", "--reject", "rule_gap")
    assert ran.code == 0, ran.err
    assert "accepted by olu golden item" in ran.out
    assert "rejected by olu rule gap" in ran.out
    assert "waiting: routing note" in ran.out
    assert judge(gatemark, sealed, "olu", "-o", out).code == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    assert (row["input"], row["target"]) == ("how much?", "costs 5")
    assert gatemark("ledger", "verify", "--store", sealed[0]).code == 0


@pytest.mark.parametrize(
    ("actor", "kind", "words"),
    [
        ("kim", "golden_item", "must be pack_owner"),
        ("nobody", "routing_note", "must be pack_owner or operator"),
        ("bob", "golden_item", "another person must judge"),
        ("olu", "adversarial_item", "not adversarial_item"),
    ],
)
def test_proposals_are_judged_by_those_who_may(
    gatemark: Run, sealed: tuple[Path, str], actor: str, kind: str, words: str
) -> None:
    ran = judge(gatemark, sealed, actor, "--accept", kind)
    assert ran.code in {1, 2}
    assert words in ran.err


def test_a_proposal_is_judged_once(gatemark: Run, sealed: tuple[Path, str]) -> None:
    assert judge(gatemark, sealed, "kim", "--accept", "routing_note").code == 0
    again = judge(gatemark, sealed, "olu", "--reject", "routing_note")
    assert again.code == 1
    assert "was accepted by kim already" in again.err


def test_an_operator_accepts_no_item_beside_a_note(gatemark: Run, sealed: tuple[Path, str]) -> None:
    both = ("--accept", "routing_note", "--accept", "golden_item")
    assert judge(gatemark, sealed, "kim", *both).code == 1
    shown = judge(gatemark, sealed, "kim", "--json")
    assert shown.json["said"] == {}


def test_the_beginning_of_an_id_is_enough_and_a_stranger_is_unknown(
    gatemark: Run, sealed: tuple[Path, str]
) -> None:
    store, name = sealed
    assert judge(gatemark, (store, name[:20]), "olu").code == 0
    for wrong in ("sha256:", "sha256:" + "0" * 64):
        ran = judge(gatemark, (store, wrong), "olu")
        assert ran.code == 2
        assert "sealed attributions" in ran.err


def test_the_page_tells_what_was_judged(
    gatemark: Run, sealed: tuple[Path, str], tmp_path: Path
) -> None:
    judge(gatemark, sealed, "olu", "--accept", "golden_item", "-o", tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text()
    assert "accepted by olu" in page
    assert "waits for a person" in page


@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_a_sealed_attribution_that_was_tampered_with_is_found(
    gatemark: Run, sealed: tuple[Path, str], harm: str
) -> None:
    store, name = sealed
    for blob in (store / "blobs").rglob("*"):
        if blob.is_file() and name.encode() in blob.read_bytes():
            blob.chmod(0o600)
            if harm == "changed":
                blob.write_bytes(blob.read_bytes().replace(b"high", b"none"))
            else:
                blob.unlink()
    verified = gatemark("ledger", "verify", "--store", store)
    assert verified.code == 4
    words = "was changed" if harm == "changed" else "is missing from the store"
    assert f"(document of an attribution) {words}" in verified.out + verified.err
    assert judge(gatemark, sealed, "olu", "--accept", "golden_item").code == 4


def test_what_was_accepted_lands_in_files_once_with_its_citation(
    gatemark: Run, sealed: tuple[Path, str], tmp_path: Path
) -> None:
    store, name = sealed
    data, backlog = tmp_path / "golden.jsonl", tmp_path / "rules.jsonl"
    data.write_text('{"id": "old", "input": "a", "target": "b"}')
    asked = ("review", "attribution", name, "--actor", "olu", "--store", store)
    early = gatemark(*asked, "--dataset", data)
    assert early.code == 1
    assert "not accepted yet" in early.err
    assert data.read_text() == '{"id": "old", "input": "a", "target": "b"}'
    assert gatemark(*asked, "--accept", "golden_item", "--accept", "rule_gap").code == 0
    for _ in range(2):
        ran = gatemark(*asked, "--dataset", data, "--rule-backlog", backlog)
        assert ran.code == 0, ran.err
    _, added = [json.loads(line) for line in data.read_text().splitlines()]
    assert added["tags"]["attribution"] == name
    (gap,) = [json.loads(line) for line in backlog.read_text().splitlines()]
    assert gap["attribution"] == name
    data.write_text(json.dumps(added | {"target": "something else"}))
    other = gatemark(*asked, "--dataset", data)
    assert other.code == 1
    assert "already has another line" in other.err
    assert gatemark(*asked, "--dataset", tmp_path / "golden.csv").code == 2


def test_accepted_routing_notes_stand_beside_the_route_with_their_citation(
    gatemark: Run, noted: tuple[Path, str]
) -> None:
    store, name = noted
    asked = ("route", "desk", "--store", store)
    assert gatemark(*asked, "--json").json["notes"] == []
    assert judge(gatemark, noted, "kim", "--accept", "routing_note").code == 0
    shown = gatemark(*asked, "--json")
    (note,) = shown.json["notes"]
    assert (note["attribution"], note["accepted_by"]) == (name, "kim")
    assert note["avoid"]["prompt:writer"] == "r2"
    text = gatemark(*asked).out
    assert "note      avoid " in text
    assert f"cites   {name}, accepted by kim" in text
    assert gatemark("route", "elsewhere", "--store", store, "--json").json["notes"] == []


def test_a_note_that_cannot_be_read_is_a_warning_and_the_route_goes_on(
    gatemark: Run, noted: tuple[Path, str]
) -> None:
    store, name = noted
    assert judge(gatemark, noted, "kim", "--accept", "routing_note").code == 0
    for blob in (store / "blobs").rglob("*"):
        if blob.is_file() and name.encode() in blob.read_bytes():
            blob.unlink()
    ran = gatemark("route", "desk", "--store", store, "--json")
    assert (ran.code, ran.json["notes"]) == (1, [])
    assert ran.json["reason"] == "no version is enabled"
    assert any(f"the routing note of {name} cannot be read" in one for one in ran.json["warnings"])


def test_a_note_about_a_version_that_is_not_routed_is_not_shown(
    gatemark: Run, sealed: tuple[Path, str], noted: tuple[Path, str]
) -> None:
    store = sealed[0]
    judged = {"verdict": "wrong", "reviewer": "bob", "expected": "costs 5"}
    late = decision(id="d2", judgement=judged, asset="desk", version="1.0.0")
    (store.parent / "named.json").write_text(json.dumps(late))
    asked = ("attribute", store.parent / "named.json", "--replay", "--seal")
    made = gatemark(*asked, "--store", store, "--json")
    accepted = judge(gatemark, (store, made.json["id"]), "kim", "--accept", "routing_note")
    assert accepted.code == 0, accepted.err
    assert gatemark("route", "desk", "--store", store, "--json").json["notes"] == []
