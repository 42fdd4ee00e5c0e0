"""Attacks on lanes as assets: evidence of another age, kind, suite or result."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.advisory.decisions import LANE, OTHER, PROMISE, PROMOTION, good_lane

from gatemark.server.accounts.identity import Identity
from gatemark.server.views.approvals import open_step, step_packet
from gatemark.workspace import Workspace

from .test_lanes import ASSET, CASE, LaneStore

Run = Callable[..., Any]
LOOSE = {"lanes": {LANE: {"promotion": PROMOTION, "bounds": PROMISE | {"agreement_rate_min": 0}}}}
LOOSE["overall"] = {"agreement_rate_min": 0, "false_positive_rate_max": 1}  # type: ignore[dict-item]


def at(moment: datetime, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record | {"timestamp": f"{moment:%Y-%m-%dT%H:%M:%SZ}"} for record in records]


def now() -> datetime:
    return datetime.now(UTC)


def suite(name: str, file: str, policy: dict[str, Any] | None = None) -> dict[str, Any]:
    options = {"policy": policy or {"lanes": {LANE: CASE}}}
    found = {"id": name, "kind": "advisory", "weight": 1, "baseline_evidence": "none"}
    return found | {"evidence": {"decisions": file}, "options": options}


class Attack(LaneStore):
    """A store with packs of one's own."""

    def write(self, file: str, records: list[dict[str, Any]]) -> None:
        Path(file).write_text("".join(json.dumps(record) + "\n" for record in records))

    def run(self, *suites: dict[str, Any], more: tuple[str, ...] = (), **fields: Any) -> Any:
        weighed = [one | {"weight": 1 / len(suites)} for one in suites]
        pack = {"gatemark": 1, "name": "advice", "version": 1, "score_min": 0.5}
        pack |= {"asset": {"kind": "lane", "name": ASSET}, "regression_max": 0, "suites": weighed}
        Path("pack.yaml").write_text(json.dumps(pack | fields))
        return self("run", "pack.yaml", *more, "--json")

    def packet(self, result: str, lane: str = LANE) -> Any:
        return self.gatemark(
            "advisory", "packet", lane, "--result", result, "--store", "store", "--json"
        )


@pytest.fixture
def store(gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attack:
    monkeypatch.chdir(tmp_path)
    return Attack(gatemark)


def test_records_are_as_old_as_they_say(store: Attack) -> None:
    """The oldest record dates the result; nobody has to state it, and old ones promote nothing."""
    old = now() - timedelta(days=40)
    records = at(now(), good_lane())
    store.write("d.jsonl", [*at(old, records[:1]), *records[1:]])
    ran = store.run(suite("advice", "d.jsonl"))
    assert ran.code == 0, ran.err
    assert ran.json["runtime"]["answered_at"].startswith(f"{old:%Y-%m-%dT%H:%M:%S}")
    store.add(ran.json["id"])
    refused = store.promote("eligible", "--cite", ran.json["id"])
    assert (refused.code, "must be at most 720 h old" in refused.err) == (1, True)
    assert f"{old:%Y-%m-%d}" in store.packet(ran.json["id"]).json["oldest_answer"]


def test_nobody_makes_dated_records_younger(store: Attack) -> None:
    store.write("d.jsonl", at(now() - timedelta(days=40), good_lane()))
    stated = ("--answered-at", f"{now():%Y-%m-%dT%H:%M:%SZ}")
    ran = store.run(suite("advice", "d.jsonl"), more=stated)
    assert (ran.code, "answers that do not say when they were given" in ran.err) == (2, True)


def test_a_leap_second_is_a_time(store: Attack) -> None:
    records = [record | {"timestamp": "2016-12-31T23:59:60Z"} for record in good_lane()]
    store.write("d.jsonl", records)
    ran = store.run(suite("advice", "d.jsonl"))
    assert ran.json["runtime"]["answered_at"].startswith("2016-12-31T23:59:59")


@pytest.mark.parametrize("kind", ["prompt", "model", "agent"])
def test_a_lane_gets_no_authority_as_an_asset_of_another_kind(store: Attack, kind: str) -> None:
    """Also where a release policy asks for neither replay nor adversarial suites."""
    gates = {name: {"stages": [], "on_fail": "alert"} for name in ("replay", "adversarial")}
    Path("release.yaml").write_text(json.dumps({"gatemark_release": 1, "gates": gates}))
    adopted = store("policy", "adopt", "release.yaml", actor="root")
    assert adopted.code == 0, adopted.err
    store.write("d.jsonl", at(now(), good_lane()))
    result = store.run(suite("advice", "d.jsonl")).json["id"]
    assert store("asset", "add", f"{ASSET}@1", "--kind", kind, "--from", result).code == 0
    assert store("asset", "pack", ASSET, "pack.yaml").code == 0
    assert store.promote("evaluating").code == 0
    refused = store.promote("eligible", "--cite", result)
    assert (refused.code, "pack for an advisory lane" in refused.err) == (1, True)


def wrong(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same lane, a third of whose recommendations are wrong."""
    found = []
    for place, record in enumerate(records):
        changed = json.loads(json.dumps(record))
        changed["decision_id"] = "01K" + record["decision_id"][3:]
        if place % 3 == 0 and record["notes"] == ["case:normal"]:
            changed["recommendation"]["label"] = "log"
            changed["outcome"] |= {"comparison": "disagree", "error_type": None}
        found.append(changed)
    return found


@pytest.mark.parametrize("order", [1, -1])
def test_no_suite_of_a_pack_hides_another_one(store: Attack, order: int) -> None:
    """Records against a lane count in whichever suite they lie, whatever its policy asks."""
    store.write("good.jsonl", at(now(), good_lane()))
    store.write("bad.jsonl", at(now(), wrong(good_lane())))
    both = [suite("one", "good.jsonl"), suite("two", "bad.jsonl")][::order]
    ran = store.run(*both)
    assert ran.code == 1, ran.out
    told = store.packet(ran.json["id"])
    assert told.code == 1
    assert told.json["status"] == "blocked"
    assert any("agreement" in line for line in told.json["blockers"])
    assert any(line.startswith("suite 1 of 2: ") for line in told.json["numbers"])
    assert any(line.startswith("suite 2 of 2: ") for line in told.json["numbers"])


@pytest.mark.parametrize("order", [1, -1])
def test_a_lane_is_a_candidate_by_every_suite_that_has_it(store: Attack, order: int) -> None:
    """One suite scopes the lane and has what fits; another one, without a scope, has the rest."""
    store.write("good.jsonl", at(now(), good_lane()))
    store.write("bad.jsonl", at(now(), wrong(good_lane())))
    unscoped = {**LOOSE, "lanes": {LANE: {"bounds": LOOSE["lanes"][LANE]["bounds"]}}}
    both = [suite("one", "good.jsonl"), suite("two", "bad.jsonl", unscoped)][::order]
    ran = store.run(*both)
    assert ran.code == 0, ran.err
    store.add(ran.json["id"])
    refused = store.promote("eligible", "--cite", ran.json["id"])
    assert (refused.code, "not a candidate for discussion" in refused.err) == (1, True)
    told = store.packet(ran.json["id"])
    assert (told.code, told.json["status"]) == (1, "not scoped")


def test_a_pack_that_did_not_pass_has_no_candidate(store: Attack) -> None:
    """The lane keeps every bound, but the pack holds it to those of another lane too."""
    others = wrong(good_lane(OTHER, start=500))
    store.write("d.jsonl", at(now(), [*good_lane(), *others]))
    ran = store.run(suite("advice", "d.jsonl", {"lanes": {LANE: CASE, OTHER: CASE}}))
    assert ran.code == 1, ran.out
    told = store.packet(ran.json["id"])
    assert (told.code, told.json["status"]) == (1, "blocked")
    assert told.json["blockers"][-1].startswith("the pack did not pass (fail): ")


def test_the_page_shows_the_packet_of_the_result_that_decides(store: Attack) -> None:
    """A result of another pack, sealed later and cited too, does not put its packet in front."""
    store.write("d.jsonl", at(now(), good_lane()))
    other = {"lanes": {LANE: {"promotion": PROMOTION | {"scope": "everything"}, "bounds": PROMISE}}}
    full = store.run(suite("advice", "d.jsonl")).json["id"]
    store.add(full)
    second = store.run(suite("advice", "d.jsonl", other), name="nicer").json["id"]
    promoted = store.promote("eligible", "--cite", full, "--cite", second)
    assert promoted.code == 0, promoted.err
    workspace = Workspace(store="store", actor="bob")
    step = open_step(workspace, Identity("bob", ("approver",), "session", "password"), ASSET, "1")
    packet = step_packet(workspace, step)
    assert packet is not None
    assert (packet.result, packet.scope) == (full, PROMOTION["scope"])


def test_the_caveats_of_the_lane_come_first(store: Attack) -> None:
    """Those of other lanes are only counted."""
    store.write("d.jsonl", at(now(), [*good_lane(), *good_lane(OTHER, start=500)]))
    slow = {"promotion": PROMOTION, "bounds": {}}
    policy = {"lanes": {LANE: CASE | {"promotion": PROMOTION | {"reviewer": "Ada"}}, OTHER: slow}}
    told = store.packet(store.run(suite("advice", "d.jsonl", policy)).json["id"]).json
    caveats = told["caveats"]
    assert caveats[0] == f"{LANE}: whoever approved its scope reviews it as well"
    assert "12 more records to look at are of other lanes; the result lists them" in caveats
    assert caveats[-1] == "1 more caveat about other lanes; see the result"
    shared = [line for line in caveats if line.startswith("whole result: ")]
    assert shared


def test_a_policy_that_asks_for_less_is_in_every_packet(store: Attack) -> None:
    """Also if it asks less of another lane first: the caveat is about the policy."""
    store.write("d.jsonl", at(now(), [*good_lane(), *good_lane(OTHER, start=500)]))
    loose = {"promotion": PROMOTION, "bounds": PROMISE | {"agreement_rate_min": 0.5}}
    policy = {"lanes": {LANE: loose, OTHER: loose}}
    result = store.run(suite("advice", "d.jsonl", policy)).json["id"]
    for lane in (LANE, OTHER):
        caveats = " ".join(store.packet(result, lane).json["caveats"])
        assert "the policy asks for less than the defaults" in caveats
