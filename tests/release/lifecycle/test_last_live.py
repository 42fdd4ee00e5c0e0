"""What is live never goes from something to nothing without somebody's written choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatemark.cli.main import main
from gatemark.core.errors import RefusedError
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import Demote, RollBack
from gatemark.release.lifecycle.model.release_policy import DEFAULT_GATES, GateRule, ReleasePolicy
from gatemark.release.lifecycle.routing import route

from .test_freshness import ASSET, Place
from .world import World


@pytest.fixture(params=["sqlite", "postgresql"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Iterator[Place]:
    store = str(tmp_path / "store") if request.param == "sqlite" else new_postgres_url()
    made = Place(store)
    made.enable_first()
    made.store = store  # type: ignore[attr-defined]
    yield made
    assert verify(made.workspace, VerifyRequest()).issues == ()
    made.workspace.store.close()


def live(place: Place) -> str | None:
    primary = route(place.workspace, ASSET).primary
    return None if primary is None else primary.version


@pytest.mark.parametrize("verb", [("demote", "--reason", "odd"), ("rollback", "--note", "odd")])
def test_a_person_must_say_stop_to_leave_nothing_live(
    place: Place, verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *why = verb
    flags = [*why, "--actor", "ann", "--store", place.store]  # type: ignore[attr-defined]
    assert main([name, ASSET, *flags]) == 1
    assert "ask for that with --stop" in capsys.readouterr().err
    assert live(place) == "1.0.0"
    assert main([name, ASSET, *flags, "--stop", "--dry-run"]) == 0
    assert live(place) == "1.0.0"
    assert main([name, ASSET, *flags, "--stop"]) == 0
    assert live(place) is None


@pytest.mark.parametrize("command", [Demote, RollBack])
def test_the_choice_is_part_of_the_command(
    place: Place, command: type[Demote] | type[RollBack]
) -> None:
    with pytest.raises(RefusedError, match="no earlier version can take over"):
        act(place.workspace, command(actor="ann", asset=ASSET, note="complaints"))
    assert live(place) == "1.0.0"


def test_a_breach_in_the_watch_pauses_the_last_version_that_can_serve() -> None:
    world = World()
    world.enable_first()
    world.push(violations=1)
    facts = world.tick()
    assert [fact.declared.name for fact in facts] == ["canary_judged", "pause"]
    assert world.stage("1.0.0") == "enabled"
    assert world.tick() == []


def test_a_policy_without_a_fallback_lets_a_breach_stop_everything() -> None:
    world = World(ReleasePolicy(fallback="none"))
    world.enable_first()
    world.push(violations=1)
    world.tick()
    assert world.stage("1.0.0") == "rolled_back"


def test_a_gate_that_stops_nothing_is_not_waived() -> None:
    from datetime import timedelta

    from gatemark.release.lifecycle.commands import Waive

    off = GateRule(stages=(), overridable=True)
    world = World(ReleasePolicy(gates={**DEFAULT_GATES, "replay": off}))
    world.add("1.0.0")
    waiver = Waive(
        actor="olu",
        asset="triage",
        version="1.0.0",
        gate="replay",
        note="no traffic yet",
        expires_at=world.now + timedelta(days=1),
    )
    with pytest.raises(RefusedError, match="blocks nothing, so there is nothing to waive"):
        world.do(waiver)
