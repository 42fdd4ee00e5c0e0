"""An event that this build cannot decide counts only if it takes authority away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.core.errors import OtherRulesError
from gatemark.ledger.event_kinds import LIFECYCLE_RULES
from gatemark.release.lifecycle.act import check_rules
from gatemark.release.lifecycle.commands import Demote, ReportService, RollBack
from gatemark.release.lifecycle.events.canary import ServiceReported, WindowJudged, WindowPushed
from gatemark.release.lifecycle.events.fact import Fact, LifecycleEvent, advance
from gatemark.release.lifecycle.events.moves import VersionMoved, VersionPaused
from gatemark.release.lifecycle.model.state import Undecided

from .world import ASSET, World, candidate, window

FAR = datetime(2099, 1, 1, tzinfo=UTC)
FUTURE = {"rules": LIFECYCLE_RULES.current + 1}
FLAWED = {"rules": LIFECYCLE_RULES.current, "flaw": Undecided("it is not as any build writes it")}


def forge(world: World, fact: Fact, *, rules: int, flaw: Undecided | None = None) -> int:
    """Append an event that no build of these rules decided."""
    by = msgspec.structs.replace(world.by, rules=rules)
    line = LifecycleEvent(len(world.lines) + 1, "mallory", world.now, fact, by, flaw)
    world.lines.append(line)
    advance(world.state, line)
    return line.seq


def moved(version: str, before: Any, after: Any, cause: Any = "promote") -> VersionMoved:
    return VersionMoved(
        asset=ASSET,
        environment="production",
        version=version,
        candidate_digest=candidate(version),
        before=before,
        after=after,
        cause=cause,
        policy_digest=digest("policy"),
    )


def canary() -> World:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    return world


def two_versions() -> World:
    """2.0.0 serves, and 1.0.0 did before it."""
    world = canary()
    while world.stage("2.0.0") != "canary_25":
        world.clean_windows(1)
    world.clean_windows(2)
    compared = world.result("2.0.0", baseline="1.0.0")
    world.approve("2.0.0", "enabled", compared)
    world.promote("2.0.0", "enabled", compared)
    return world


@pytest.mark.parametrize("forged", [FUTURE, FLAWED])
@pytest.mark.parametrize("command", [RollBack, Demote])
@pytest.mark.parametrize(
    "facts",
    [
        (moved("1.0.0", "superseded", "enabled"),),
        (moved("1.0.0", "superseded", "enabled", "rollback"),),
        (moved("2.0.0", "enabled", "superseded", "supersede"),),
        (
            moved("2.0.0", "enabled", "superseded", "supersede"),
            moved("1.0.0", "superseded", "enabled"),
        ),
        (moved("9.9.9", "shadow", "enabled"),),
        (moved("9.9.9", "shadow", "canary_1"),),
        (moved("1.0.0", "superseded", "canary_1"),),
        (moved("2.0.0", "enabled", "canary_5"),),
    ],
)
def test_what_is_taken_away_is_what_serves(
    facts: tuple[Fact, ...], command: Any, forged: dict[str, Any]
) -> None:
    world = two_versions()
    for fact in facts:
        forge(world, fact, **forged)
    place = world.state.asset.place("production")
    assert (place.enabled, place.canary, place.lineage) == ("2.0.0", None, ["1.0.0", "2.0.0"])
    world.do(command(actor="olu", asset=ASSET, note="complaints"))
    assert world.stage("2.0.0") in ("rolled_back", "demoted")
    assert world.state.asset.place("production").enabled == "1.0.0"


@pytest.mark.parametrize("forged", [FUTURE, FLAWED])
@pytest.mark.parametrize("before", ["enabled", "draft", "shadow"])
def test_a_demotion_that_cannot_be_decided_takes_away_all_the_same(
    before: Any, forged: dict[str, Any]
) -> None:
    """Whatever it says that the stage was."""
    world = two_versions()
    forge(world, moved("2.0.0", before, "demoted", "demote"), **forged)
    assert world.stage("2.0.0") == "demoted"
    assert world.state.asset.place("production").enabled is None
    assert world.state.asset.place("production").lineage == ["1.0.0"]


def test_a_pause_counts_and_a_resume_does_not() -> None:
    world = canary()
    told: dict[str, Any] = {"asset": ASSET, "environment": "production", "version": "2.0.0"}
    forge(world, VersionPaused(reason="manual", **told), **FUTURE)
    assert world.state.asset.track("production", "2.0.0").paused is not None
    forge(world, VersionPaused(reason=None, **told), **FUTURE)
    assert world.state.asset.track("production", "2.0.0").paused is not None


def judged(start: datetime, end: datetime, state: Any) -> WindowJudged:
    return WindowJudged(
        asset=ASSET,
        environment="production",
        version="2.0.0",
        start=start,
        end=end,
        stage="canary_1",
        state=state,
        judge="sequential",
        reasons=("nothing to see",),
    )


@pytest.mark.parametrize("forged", [FUTURE, FLAWED])
@pytest.mark.parametrize("kind", ["judged for ever", "judged", "pushed", "reported"])
def test_no_forged_measurement_blinds_a_canary(kind: str, forged: dict[str, Any]) -> None:
    world = canary()
    start = world.next_start()
    end = start + timedelta(minutes=15)
    clean = window(start)
    facts: dict[str, Fact] = {
        "judged for ever": judged(start, FAR, "inconclusive"),
        "judged": judged(start, end, "clean"),
        "pushed": WindowPushed(
            asset=ASSET,
            environment="production",
            version="2.0.0",
            start=start,
            end=end,
            metrics=clean.metrics,
            invariants=clean.invariants,
            traffic=clean.traffic,
        ),
        "reported": ServiceReported(
            asset=ASSET, environment="production", start=start, end=FAR, good=1, total=1
        ),
    }
    forge(world, facts[kind], **forged)
    world.do(window(start, errors=(180, 2), violations=9))
    world.do(
        ReportService(
            actor="eve", asset=ASSET, environment="production", start=start, end=end, good=1,
            total=2,
        )
    )  # fmt: skip
    world.tick()
    assert world.stage("2.0.0") == "rolled_back"


def test_a_canary_does_not_climb_after_a_forged_event_but_is_watched_further() -> None:
    world = canary()
    forge(world, moved("9.9.9", "shadow", "enabled"), **FUTURE)
    assert not [fact for fact in world.clean_windows(3) if isinstance(fact, VersionMoved)]
    assert world.stage("2.0.0") == "canary_1"
    world.push(violations=9)
    world.tick()
    assert world.stage("2.0.0") == "rolled_back"


def test_a_watch_does_not_end_after_a_forged_event() -> None:
    world = two_versions()
    forge(world, moved("9.9.9", "shadow", "enabled"), **FUTURE)
    world.end_watch()
    assert world.state.asset.place("production").rollout is not None


def test_nothing_climbs_after_an_event_that_cannot_be_decided() -> None:
    world = two_versions()
    seq = forge(world, moved("1.0.0", "superseded", "enabled"), **FUTURE)
    with pytest.raises(OtherRulesError, match=f"event {seq}: recorded under lifecycle rules"):
        check_rules(world.state)
