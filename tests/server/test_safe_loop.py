"""The loop that is safe to leave alone, by command and by page, on both stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Client
from tests.release.drift.live import ASSET, METRIC, Live, lively, point, stamp
from tests.release.drift.series import day
from tests.release.drift.test_versions import BAD, OTHER, upgrade
from tests.release.lifecycle.sealed import sealed_pack_identity
from tests.release.lifecycle.world import window
from tests.release.review.arms import make_review
from tests.server.failures import add_failure
from tests.server.scene import Scene

from gatemark.core.canonical import digest
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.alerts.alert import AlertPlan, FileSink
from gatemark.release.lifecycle.act import act, run_due
from gatemark.release.lifecycle.canary import canary_state
from gatemark.release.lifecycle.commands import AdoptPolicy, Approve, Demote, SetRequiredPack
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy, ShadowRules
from gatemark.release.schedule.cadence import Occasion, Schedule, SchedulePlan
from gatemark.release.schedule.tick import tick_schedules

Run = Callable[..., Any]
API = f"/api/v1/assets/{ASSET}"


class Loop:
    """A store that commands, a server and a frozen clock share."""

    def __init__(self, store: str, folder: Path, gatemark: Run) -> None:
        self.store, self.folder = store, folder
        self.gatemark = gatemark
        self.live = Live(store, folder)
        self.scene = Scene(store, clock=lambda: self.live.now)

    def push(self, *lines: dict[str, Any]) -> None:
        path = self.folder / "points.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        now = ("--now", stamp(day(60)))
        ran = self.gatemark("drift", "push", path, "--store", self.store, *now, "--actor", "olu")
        assert ran.code == 0, ran.err

    def days(self, first: int, values: list[float], **more: Any) -> None:
        self.push(*(point(first + at, value, **more) for at, value in enumerate(values)))

    def probe(self, days: float) -> Any:
        self.live.now = max(self.live.now, day(days))
        now = ("--now", stamp(day(days)))
        ran = self.gatemark("drift", "probe", "--store", self.store, *now, "--json")
        assert ran.code == 0, ran.err
        return ran.json


@pytest.fixture(params=["sqlite", "postgresql"])
def loop(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    gatemark: Run,
    new_postgres_url: Callable[[], str],
) -> Iterator[Loop]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = Loop(store, tmp_path, gatemark)
    yield made
    assert verify(made.live.workspace, VerifyRequest()).issues == ()
    made.live.workspace.store.close()
    made.scene.workspace.store.close()


def stages(client: Client) -> dict[str, str]:
    return {line["version"]: line["stage"] for line in client.get(API).json()["versions"]}


def routed(client: Client) -> str | None:
    primary = client.get(f"{API}/route").json()["primary"]
    return None if primary is None else str(primary["version"])


def test_drift_in_two_metrics_takes_out_one_version_and_pages_say_so(loop: Loop) -> None:
    loop.live.enable()
    loop.live.now = day(0)
    upgrade(loop.live)
    for metric in (METRIC, OTHER):
        loop.days(1, [*lively(), BAD, BAD], metric=metric)
    found = loop.probe(19)
    assert [one["act"] for one in found["actions"] if one["act"] == "demote"] == ["demote"]
    with loop.scene.running() as client:
        loop.scene.session(client, "olu")
        assert stages(client) == {"2.0.0": "demoted", "1.0.0": "enabled"}
        assert routed(client) == "1.0.0"
        drift = client.get(f"{API}/drift").json()
        assert {one["version"] for one in drift["episodes"]} == {"2.0.0"}
        page = client.get(f"/assets/{ASSET}/drift").text
        assert "2.0.0 was demoted" in page
        why = client.get(f"/assets/{ASSET}/versions/2.0.0").text
        assert "BREACH" in why
        loop.days(19, [BAD, BAD])
        loop.probe(21)
        loop.scene.session(client, "olu")
        assert routed(client) == "1.0.0", "it served none of these windows from end to end"


def test_the_last_live_version_goes_on_serving_until_a_person_says_stop(loop: Loop) -> None:
    loop.live.enable()
    loop.days(0, [*lively(), BAD, BAD])
    loop.probe(18)
    with loop.scene.running() as client:
        headers = loop.scene.session(client, "olu")
        assert routed(client) == "1.0.0"
        assert "no earlier version takes over" in client.get(f"/assets/{ASSET}/drift").text
        asked = {"note": "drift"}
        refused = client.post(f"{API}/demotion", json=asked, headers=headers)
        assert (refused.status_code, routed(client)) == (409, "1.0.0")
        done = client.post(f"{API}/demotion", json={**asked, "stop": True}, headers=headers)
        assert (done.status_code, routed(client)) == (200, None)


def test_golden_accuracy_is_held_against_the_sealed_score_and_a_rise_harms_nobody(
    loop: Loop,
) -> None:
    loop.live.enable(score=0.9)
    loop.days(0, [0.99, 1.0], n=200)
    assert loop.probe(2)["episodes"] == []
    loop.days(2, [0.7], n=200)
    loop.probe(3)
    with loop.scene.running() as client:
        loop.scene.session(client, "olu")
        (series,) = client.get(f"{API}/drift").json()["series"]
        assert series["signal"]["level"] == "BREACH"
        page = client.get(f"/assets/{ASSET}/drift").text
        assert "against the sealed score 0.9" in page
        assert routed(client) == "1.0.0"


def test_only_new_answers_lead_back_after_a_fall(loop: Loop) -> None:
    live = loop.live
    live.enable()
    live.now = day(2)
    upgrade(live)
    old = live.now
    live.now = day(3)
    act(live.workspace, Demote(actor="olu", asset=ASSET, version="2.0.0", note="drift", stop=True))
    live.now = day(4)
    live.promote("2.0.0", "evaluating", actor="ann")
    stale = live.seal("2.0.0", answered_at=old)
    silent = live.seal("2.0.0", is_timed=False)
    with loop.scene.running() as client:
        for cited, words in ((stale, "is older than the demotion"), (silent, "does not say when")):
            headers = loop.scene.session(client, "eve")
            headers["If-Match"] = client.get(API).headers["etag"]
            body = {"to": "eligible", "result_ids": [cited]}
            answer = client.post(f"{API}/versions/2.0.0/promotion", json=body, headers=headers)
            assert (answer.status_code, words in answer.text) == (409, True), answer.text
        fresh = live.seal("2.0.0")
        headers["If-Match"] = client.get(API).headers["etag"]
        body = {"to": "eligible", "result_ids": [fresh]}
        answer = client.post(f"{API}/versions/2.0.0/promotion", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert stages(client)["2.0.0"] == "eligible"


def test_a_shadow_without_pairs_does_not_become_a_canary(loop: Loop) -> None:
    live = loop.live
    live.enable()
    rules = ShadowRules(min_pairs=100)
    policy = ReleasePolicy(name="measured", shadow=rules, watch_hours=0)
    act(live.workspace, AdoptPolicy(actor="root", policy=policy))
    live.now = day(2)
    live.to_shadow("2.0.0")
    since = live.now
    live.now += timedelta(hours=2)
    compared = live.seal("2.0.0", baseline=digest("1.0.0"))
    with loop.scene.running() as client:
        headers = loop.scene.session(client, "olu")
        assert "shadow must have 100 pairs" in client.get(f"/assets/{ASSET}/versions/2.0.0").text
        span = {
            "start": stamp(since),
            "end": stamp(since + timedelta(hours=1)),
            "n": 100,
            "agreed": 99,
            "errors": {"candidate": 0, "live": 0},
        }
        sent = client.post(f"{API}/versions/2.0.0/shadow", json={"spans": [span]}, headers=headers)
        assert sent.status_code == 200, sent.text
        assert "shadow must have" not in client.get(f"/assets/{ASSET}/versions/2.0.0").text
    live.do(Approve, "bob", "2.0.0", stage="canary_1", result_ids=(compared,), note="read it")
    live.promote("2.0.0", "canary_1", compared)
    assert live.stage("2.0.0") == "canary_1"


def test_a_scheduled_run_that_fails_is_in_the_ledger_and_keeps_what_is_live(
    loop: Loop, tmp_path: Path
) -> None:
    live = loop.live
    live.enable()
    exam = SetRequiredPack(
        actor="olu", asset=ASSET, required_pack=sealed_pack_identity(live.now), file="pack.yaml"
    )
    act(live.workspace, exam)
    live.now = day(1) + timedelta(hours=3)
    schedule = Schedule(id="nightly", kind="regression", cron="0 2 * * *", asset_class="prompt")
    log = tmp_path / "alerts.jsonl"

    def run(_schedule: Schedule, _occasion: Occasion, _now: Any) -> Any:
        live.seal("1.0.0", verdict="fail")
        return "gate_failed", "exit 1"

    tick_schedules(
        live.workspace,
        SchedulePlan((schedule,)),
        now=live.now,
        worker="w",
        alert_plan=AlertPlan((FileSink(name="log", path=str(log)),)),
        runner=run,
    )
    with loop.scene.running() as client:
        loop.scene.session(client, "olu")
        assert (routed(client), log.read_text(encoding="utf-8").count("\n")) == ("1.0.0", 1)
        events = client.get("/api/v1/ledger/events", params={"kind": "schedule_failed"})
        assert events.status_code == 200, events.text
        assert "schedule_failed" in client.get("/ledger").text


def test_routing_notes_stand_on_the_page_and_in_the_interface_as_soon_as_accepted(
    loop: Loop, tmp_path: Path
) -> None:
    loop.live.enable()
    with loop.scene.running() as client:
        name = add_failure(loop.scene, tmp_path)
        headers = loop.scene.session(client, "olu")
        before = client.get(f"{API}/route")
        assert before.json()["notes"] == []
        address = f"/assets/{ASSET}"
        assert "accepted by olu" not in client.get(address).text
        form = {
            "form_mark": loop.scene.mark(client),
            "verdicts:routing_note": "accepted",
            "note": "yes",
        }
        assert client.post(f"/attributions/{name}", data=form).status_code == 303
        unchanged = {**headers, "If-None-Match": before.headers["etag"]}
        after = client.get(f"{API}/route", headers=unchanged)
        (note,) = after.json()["notes"]
        assert (note["attribution"], note["accepted_by"]) == (name, "olu")
        assert note["avoid"]["prompt:writer"] == "r2"
        shown = client.get(address).text
        assert "prompt:writer r2" in shown
        assert "accepted by olu" in shown
    (note,) = loop.gatemark("route", ASSET, "--store", loop.store, "--json").json["notes"]
    assert note["attribution"] == name


def test_a_policy_for_some_assets_counts_and_pages_offer_only_legal_steps(
    loop: Loop, tmp_path: Path
) -> None:
    live = loop.live
    live.enable()
    entry = {"names": ["tri*"], "set": {"shadow_min_hours": 5, "watch_hours": 0}}
    file = tmp_path / "release.yaml"
    file.write_text(json.dumps({"gatemark_release": 1, "shadow": None, "assets": [entry]}))
    adopted = loop.gatemark("policy", "adopt", file, "--actor", "root", "--store", loop.store)
    assert adopted.code == 0, adopted.err
    live.now = day(400)
    live.to_shadow("2.0.0")
    with loop.scene.running() as client:
        loop.scene.session(client, "olu")
        why = client.get(f"/assets/{ASSET}/versions/2.0.0").text
        assert "shadow must last 5 h" in why
        assert "shadow must last 24 h" not in why
        page = client.get(f"/assets/{ASSET}").text
        assert ">canary</option>" in page
        assert ">enabled</option>" not in page, "a version is live: a shadow goes to canary first"
    shown = loop.gatemark("policy", "show", "--asset", ASSET, "--store", loop.store)
    assert "shadow_min_hours: 5" in shown.out


def test_an_approval_from_before_the_clean_windows_does_not_enable(loop: Loop) -> None:
    live = loop.live
    live.enable()
    live.now = day(2)
    run_due(live.workspace, ASSET, "production")
    policy = ReleasePolicy(name="no-watch", watch_hours=0)
    act(live.workspace, AdoptPolicy(actor="root", policy=policy))
    live.to_canary("2.0.0")
    live.do(Approve, "bob", "2.0.0", stage="enabled", note="read it")
    for _ in range(6):
        begin = canary_state(live.workspace, ASSET).next_window
        live.now = begin + timedelta(minutes=16)
        act(live.workspace, window(begin))
        run_due(live.workspace, ASSET, "production")
    assert live.stage("2.0.0") == "canary_25"
    with loop.scene.running() as client:
        headers = loop.scene.session(client, "olu")
        promotion = f"{API}/versions/2.0.0/promotion"
        headers["If-Match"] = client.get(API).headers["etag"]
        refused = client.post(promotion, json={"to": "enabled"}, headers=headers)
        words = "given before the 2 clean windows"
        assert (refused.status_code, words in refused.text) == (409, True), refused.text
        assert words in client.get(f"/assets/{ASSET}/versions/2.0.0").text
        live.do(Approve, "bob", "2.0.0", stage="enabled", note="read it")
        headers["If-Match"] = client.get(API).headers["etag"]
        done = client.post(promotion, json={"to": "enabled"}, headers=headers)
        assert (done.status_code, routed(client)) == (200, "2.0.0"), done.text


def test_samples_of_small_canary_windows_count_together(loop: Loop) -> None:
    live = loop.live
    live.enable()
    live.now = day(2)
    run_due(live.workspace, ASSET, "production")
    act(live.workspace, AdoptPolicy(actor="root", policy=ReleasePolicy(name="now", watch_hours=0)))
    live.to_canary("2.0.0")
    judged = []
    for _ in range(6):
        begin = canary_state(live.workspace, ASSET).next_window
        live.now = begin + timedelta(minutes=16)
        act(live.workspace, window(begin, n=20, errors=(0, 0), traffic=(20, 20)))
        run_due(live.workspace, ASSET, "production")
        with loop.scene.running() as client:
            loop.scene.session(client, "olu")
            judged.append("must have 50 samples, got" in client.get(f"/assets/{ASSET}").text)
    # Twenty samples are too few and forty are; sixty decide. Twice that makes a step.
    assert live.stage("2.0.0") == "canary_5"
    assert any(judged)


def test_positions_of_a_review_are_not_guessable_by_page(loop: Loop, tmp_path: Path) -> None:
    make_review(loop.live.workspace.acting_as("eve"), tmp_path, count=24)
    firsts = []
    with loop.scene.running() as client:
        headers = loop.scene.session(client, "bob")
        while (shown := client.get("/api/v1/reviews/letters/next").json()["pair"]) is not None:
            firsts.append(str(shown["a"]).split()[0])
            vote = {"token": shown["token"], "answered": "a"}
            done = client.post("/api/v1/reviews/letters/votes", json=vote, headers=headers)
            assert done.status_code == 200, done.text
    blocks = [set(firsts[at : at + 2]) for at in range(0, len(firsts), 2)]
    assert len(firsts) == 24
    assert {len(block) for block in blocks} == {1, 2}, "no block of two has to hold both"
