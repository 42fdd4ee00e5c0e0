"""An advisory lane as an asset: a candidate for discussion that never gets authority."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.advisory.decisions import LANE, PROMISE, PROMOTION, good_lane

from gatemark.ledger.event import EventDraft
from gatemark.release.lifecycle.model.stages import MOVES, lane_of, moves_of
from gatemark.workspace import Workspace

Run = Callable[..., Any]
ASSET = LANE.replace("/", ".")
PEOPLE = {
    "root": ("admin",),
    "ann": ("author", "evaluator", "pack_owner", "operator"),
    "bob": ("approver",),
}
CASE = {"promotion": PROMOTION, "bounds": PROMISE}


class LaneStore:
    """A store with three people, a pack with the advisory suite, and commands to move the lane."""

    def __init__(self, gatemark: Run) -> None:
        self.gatemark = gatemark
        for person, roles in PEOPLE.items():
            self("role", "grant", person, *roles, actor="root")

    def __call__(self, *arguments: str, actor: str = "ann") -> Any:
        return self.gatemark(*arguments, "--store", "store", "--actor", actor)

    def pack(self, lane: dict[str, Any], *, kind: str = "lane") -> str:
        """Write and run the pack; gives the id of its result."""
        suite = {"id": "advice", "kind": "advisory", "weight": 1, "baseline_evidence": "none"}
        suite |= {"evidence": {"decisions": "d.jsonl"}, "options": {"policy": {"lanes": lane}}}
        pack = {"gatemark": 1, "name": "advice", "version": 1, "score_min": 0.5}
        pack |= {"asset": {"kind": kind, "name": ASSET}, "regression_max": 0, "suites": [suite]}
        Path("pack.yaml").write_text(json.dumps(pack))
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        records = [record | {"timestamp": now} for record in good_lane()]
        Path("d.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        ran = self("run", "pack.yaml", "--json")
        assert ran.code == 0, ran.out
        found: str = ran.json["id"]
        return found

    def add(self, result: str) -> None:
        assert self("asset", "add", f"{ASSET}@1", "--kind", "lane", "--from", result).code == 0
        assert self("asset", "pack", ASSET, "pack.yaml").code == 0
        assert self("promote", f"{ASSET}@1", "--to", "evaluating").code == 0

    def promote(self, to: str, *more: str, actor: str = "ann") -> Any:
        return self("promote", f"{ASSET}@1", "--to", to, *more, actor=actor)

    def approve(self, to: str = "shadow", actor: str = "bob") -> Any:
        return self("approve", f"{ASSET}@1", "--to", to, "--note", "read it", actor=actor)


@pytest.fixture
def store(gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LaneStore:
    monkeypatch.chdir(tmp_path)
    return LaneStore(gatemark)


def test_no_row_leads_a_lane_to_traffic() -> None:
    rows = moves_of("lane")
    stages = {row.before for row in rows} | {row.after for row in rows}
    assert not stages & {"canary_1", "canary_5", "canary_25", "enabled", "superseded"}
    assert {row.cause for row in rows} == {"promote", "demote"}
    (last,) = [row for row in rows if row.after == "shadow"]
    assert (last.before, last.is_approved, last.evidence) == ("eligible", True, "required_pack")
    assert moves_of("prompt") is MOVES


def test_the_first_dot_of_an_asset_is_the_slash_of_its_lane() -> None:
    assert lane_of(ASSET) == LANE
    assert lane_of("a.b.c") == "a/b.c"


def test_a_lane_goes_to_shadow_when_a_second_person_approves(store: LaneStore) -> None:
    result = store.pack({LANE: CASE})
    store.add(result)
    assert store.promote("eligible", "--cite", result).code == 0
    early = store.promote("shadow")
    assert (early.code, "0 of 1 approvals" in early.err) == (1, True)
    own = store.approve(actor="ann")
    assert (own.code, "is the author" in own.err) == (1, True)
    assert store.approve().code == 0
    moved = store.promote("shadow")
    assert moved.code == 0, moved.err
    card = store.gatemark("asset", "show", ASSET, "--store", "store")
    assert "candidate for discussion" in card.out
    route = store.gatemark("route", ASSET, "--store", "store")
    assert "no stage gives it authority" in route.out
    for to in ("canary", "enabled"):
        assert store.promote(to, actor="bob").code == 1
        assert store.approve(to).code == 1
    glass = ("--break-glass", "fire", "--note", "now")
    assert store.promote("enabled", *glass).code == 1
    checked = store.gatemark("ledger", "verify", "--rescore", "--store", "store")
    assert checked.code == 0, checked.out


@pytest.mark.parametrize(
    "lane", [{}, {LANE: {"bounds": PROMISE}}, {LANE: {"promotion": PROMOTION}}]
)
def test_a_pack_that_passes_is_not_enough(store: LaneStore, lane: dict[str, Any]) -> None:
    """Without scope, rollback plan, reviewer and latency bound there is nothing to discuss."""
    result = store.pack(lane)
    store.add(result)
    refused = store.promote("eligible", "--cite", result)
    assert refused.code == 1
    assert f"the lane {LANE} is not a candidate for discussion" in refused.err


def test_the_candidate_must_be_this_lane(store: LaneStore) -> None:
    """A passing evaluation of one lane does not promote another one."""
    result = store.pack({LANE: CASE})
    other = f"{ASSET}2@1"
    assert store("asset", "add", other, "--kind", "lane", "--from", result).code == 0
    assert store("asset", "pack", f"{ASSET}2", "pack.yaml").code == 0
    assert store("promote", other, "--to", "evaluating").code == 0
    refused = store("promote", other, "--to", "eligible", "--cite", result)
    assert (refused.code, "not a candidate for discussion" in refused.err) == (1, True)


def test_a_lane_has_a_name_with_a_dot(store: LaneStore) -> None:
    result = store.pack({LANE: CASE})
    refused = store("asset", "add", "board@1", "--kind", "lane", "--from", result)
    assert (refused.code, "dot for the slash" in refused.err) == (1, True)


def test_a_forged_approval_of_a_lane_is_found(store: LaneStore) -> None:
    """A ledger that says that a lane went to shadow, although it was no candidate, is refused."""
    result = store.pack({LANE: {"bounds": PROMISE}})
    store.add(result)
    workspace = Workspace(store="store", actor="ann")
    ((event, payload),) = [
        (event, payload)
        for event, payload in workspace.events.events()
        if payload and payload.get("after") == "evaluating"
    ]
    forged = {**payload, "before": "evaluating", "after": "eligible", "result_ids": [result]}
    forged["gates"] = []
    draft = EventDraft(event.kind, workspace.clock(), "ann", event.subject, forged)
    workspace.events.append([draft], workspace.events.head())
    checked = store.gatemark("ledger", "verify", "--store", "store")
    assert checked.code == 4
    assert "not a candidate for discussion" in checked.out + checked.err


def test_a_packet_comes_from_a_pack_too(store: LaneStore) -> None:
    result = store.pack({LANE: CASE})
    ran = store.gatemark("advisory", "packet", LANE, "--result", result, "--store", "store")
    assert ran.code == 0, ran.err
    assert "candidate for discussion" in ran.out
