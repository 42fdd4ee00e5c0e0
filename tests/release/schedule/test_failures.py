"""A scheduled run that does not pass is recorded, alerts, and follows its schedule's policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.release.lifecycle.sealed import result, sealed_pack_identity

from gatemark.core.canonical import digest
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.alerts.alert import AlertPlan, FileSink
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import (
    AddVersion,
    Approve,
    GrantRoles,
    Promote,
    SetRequiredPack,
)
from gatemark.release.lifecycle.routing import route
from gatemark.release.schedule.cadence import DEFAULT_PLAN, Occasion, Schedule, SchedulePlan
from gatemark.release.schedule.events import SCHEDULE_FAILED
from gatemark.release.schedule.list_schedules import list_schedules
from gatemark.release.schedule.open_stores import schedule_runs_of
from gatemark.release.schedule.stores import RunState
from gatemark.release.schedule.tick import find_due, tick_schedules
from gatemark.workspace import Workspace

START = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
NIGHT = datetime(2027, 3, 2, 3, 0, tzinfo=UTC)


class Place:
    """A store with live assets, and runs that seal what a test wants."""

    def __init__(self, store: str, log: Path) -> None:
        self.now = START
        self.workspace = Workspace(store=store, clock=lambda: self.now)
        roles: dict[str, Any] = {
            "ada": ("admin",),
            "ann": ("author", "evaluator", "operator"),
            "pam": ("pack_owner",),
            "bob": ("approver",),
        }
        for person, held in roles.items():
            act(self.workspace, GrantRoles(actor="ada", person=person, roles=held))
        self.log = log
        self.asked: list[str | None] = []

    def seal(self, asset: str, version: str, **more: Any) -> str:
        sealed = result(asset, digest([asset, version]), self.now, **more)
        self.workspace.results.append(sealed)
        return sealed.id

    def enable(self, asset: str, version: str, kind: Any = "prompt") -> None:
        act(
            self.workspace,
            AddVersion(
                actor="ann",
                asset=asset,
                kind=kind,
                version=version,
                digest=digest([asset, version]),
            ),
        )
        exam = SetRequiredPack(
            actor="pam",
            asset=asset,
            required_pack=sealed_pack_identity(self.now),
            file=f"{asset}.yaml",
        )
        act(self.workspace, exam)
        steps: list[tuple[Any, tuple[str, ...]]] = [
            ("evaluating", ()),
            ("eligible", (self.seal(asset, version),)),
            ("shadow", ()),
        ]
        for stage, cites in steps:
            self.promote(asset, version, stage, *cites)
        act(
            self.workspace,
            Approve(
                actor="bob", asset=asset, version=version, stage="enabled", note="read the results"
            ),
        )
        self.promote(asset, version, "enabled")

    def promote(self, asset: str, version: str, to: Any, *cites: str) -> None:
        step = Promote(actor="ann", asset=asset, version=version, to=to, result_ids=cites)
        act(self.workspace, step)

    def alerts(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines]

    def tick(self, schedule: Schedule, *, fails: str = "", state: RunState = "gate_failed") -> Any:
        """One tick; the run of the asset ``fails`` seals a failed result about 1.0.0."""

        def run(_schedule: Schedule, occasion: Occasion, _now: datetime) -> tuple[RunState, str]:
            self.asked.append(occasion.asset)
            if occasion.asset != fails:
                return "done", "exit 0"
            if state == "gate_failed":
                self.seal(fails, "1.0.0", verdict="fail", title="nightly")
            return state, "exit 1"

        self.now = NIGHT
        return tick_schedules(
            self.workspace,
            SchedulePlan((schedule,)),
            now=NIGHT,
            worker="w",
            alert_plan=AlertPlan((FileSink(name="log", path=str(self.log)),)),
            runner=run,
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Iterator[Place]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = Place(store, tmp_path / "alerts.jsonl")
    yield made
    assert verify(made.workspace, VerifyRequest()).issues == ()
    made.workspace.store.close()


def nightly(**more: Any) -> Schedule:
    return Schedule(id="nightly", kind="regression", cron="0 2 * * *", asset_class="prompt", **more)


def failures(place: Place) -> list[tuple[str | None, Any]]:
    events = place.workspace.events.events(kind=SCHEDULE_FAILED)
    return [(event.subject, payload) for event, payload in events]


def test_a_nightly_run_goes_over_the_assets_of_its_class(place: Place) -> None:
    place.enable("mail", "1.0.0")
    place.enable("chat", "1.0.0")
    place.enable("tagger", "1.0.0", kind="classifier")
    tick = place.tick(nightly())
    assert place.asked == ["chat", "mail"]
    assert [line.schedule for line in tick.runs] == ["nightly/chat", "nightly/mail"]
    assert failures(place) == []
    lines = list_schedules(place.workspace, SchedulePlan((nightly(),)), NIGHT)
    assert {line.id: line.command for line in lines} == {
        "nightly/chat": "run {pack}",
        "nightly/mail": "run {pack}",
    }


def test_a_failing_run_is_an_event_and_an_alert_and_keeps_what_is_live(place: Place) -> None:
    place.enable("mail", "1.0.0")
    tick = place.tick(nightly(), fails="mail")
    ((subject, payload),) = failures(place)
    assert (subject, payload["level"], payload["version"]) == ("mail", "BREACH", "1.0.0")
    assert len(payload["result_ids"]) == 1
    assert tick.runs[0].detail == "exit 1; 1.0.0 stays live (on_fail: keep_last)"
    (alert,) = place.alerts()
    assert (alert["level"], alert["asset"]) == ("BREACH", "mail")
    primary = route(place.workspace, "mail").primary
    assert primary is not None
    assert primary.version == "1.0.0"


@pytest.mark.parametrize(
    ("on_fail", "is_live"), [("keep_last", True), ("fallback", True), ("stop", False)]
)
def test_the_last_live_version_goes_only_by_an_explicit_choice(
    place: Place, on_fail: Any, is_live: bool
) -> None:
    place.enable("mail", "1.0.0")
    place.tick(nightly(on_fail=on_fail), fails="mail")
    assert (route(place.workspace, "mail").primary is not None) == is_live


def test_a_run_that_ends_with_an_error_alerts_and_touches_nothing(place: Place) -> None:
    place.enable("mail", "1.0.0")
    place.tick(nightly(on_fail="stop"), fails="mail", state="failed")
    ((_, payload),) = failures(place)
    assert (payload["level"], payload["version"]) == ("WARN", None)
    assert place.alerts()[0]["level"] == "WARN"
    assert route(place.workspace, "mail").primary is not None


def test_an_abandoned_run_is_tried_again_three_times_at_most(place: Place) -> None:
    place.enable("mail", "1.0.0")
    plan = SchedulePlan((nightly(time_limit="1m"),))
    runs = schedule_runs_of(place.workspace)
    seen = []
    for attempt in range(5):
        at = NIGHT + timedelta(minutes=10 * attempt)
        due = [one for one in find_due(place.workspace, plan, at) if one.state == "due"]
        for occasion in due:
            seen.append((occasion.id, occasion.asset))
            assert runs.claim(occasion, "w", at, 60) == "running"
        runs.abandon(at + timedelta(minutes=5))
    first = seen[0][0]
    assert seen == [(first, "mail"), (f"{first}#2", "mail"), (f"{first}#3", "mail")]


def test_the_built_in_cadence_runs_required_packs_without_a_command_of_its_own(
    place: Place,
) -> None:
    place.enable("mail", "1.0.0")
    due = {one.schedule for one in find_due(place.workspace, DEFAULT_PLAN, NIGHT)}
    assert {"regression-prompt/mail", "drift"} <= due
    assert not any(name.startswith("regression-tool") for name in due)
