"""Thousands of legal and illegal commands against real stores.

The rules are the same whatever the store, so that five thousand commands on SQLite look for broken
ones. The first thousand of them, on PostgreSQL, look for a store that answers otherwise;
``GATEMARK_EXAMPLES=explore`` makes it five thousand there, too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy, GrantRoles
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.workspace import Workspace

from .walker import PEOPLE, Clock, Walker

ACTS, BOUTS = 12, 12
WALKS, COMMANDS = 20, 5_000
FEW_WALKS, FEW_COMMANDS = 5, 1_000


class Walk(RuleBasedStateMachine):
    """One asset after the other lives in the same workspace."""

    workspace: ClassVar[Workspace]
    clock: ClassVar[Clock]
    tally: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.tally["assets"] += 1
        name = f"asset-{self.tally['assets']}"
        self.walker = Walker(self.workspace, self.clock, name, self.tally)

    @rule(seed=st.integers(0, 2**32 - 1))
    def live_on(self, seed: int) -> None:
        self.walker.live_on(seed, ACTS)

    def teardown(self) -> None:
        self.walker.check_whole()


def walk_through(open_workspace: Callable[[Clock], Workspace], walks: int) -> Counter[str]:
    """Walk until there were enough commands; then the auditor looks at the ledger."""

    class ThisWalk(Walk):
        clock = Clock()
        workspace = open_workspace(clock)
        tally: ClassVar[Counter[str]] = Counter()

    for person, roles in PEOPLE.items():
        act(ThisWalk.workspace, GrantRoles(actor="root", person=person, roles=roles))
    # A day in shadow for every version would leave few of them to walk with.
    act(ThisWalk.workspace, AdoptPolicy(actor="root", policy=ReleasePolicy(name="no-wait")))
    chosen = settings(
        deadline=None,
        max_examples=walks,
        stateful_step_count=BOUTS,
        database=None,
        derandomize=True,
        # A walk of hundreds of commands is not made shorter in any time worth waiting for.
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(ThisWalk, settings=chosen)  # type: ignore[no-untyped-call]
    assert verify(ThisWalk.workspace, VerifyRequest()).issues == ()
    return ThisWalk.tally


def check_tally(tally: Counter[str], commands: int) -> None:
    """The walk went far enough to say something."""
    assert tally["commands"] >= commands
    assert min(tally["refused"], tally["carried out"]) >= commands / 5
    for stage in ("rejected", "canary_5", "canary_25", "superseded", "demoted", "rolled_back"):
        assert tally[f"to {stage}"] > 0, stage


@pytest.mark.slow
def test_a_random_walk_through_sqlite_never_breaks_the_rules(tmp_path: Path) -> None:
    tally = walk_through(lambda clock: Workspace(store=str(tmp_path / "store"), clock=clock), WALKS)
    check_tally(tally, COMMANDS)


@pytest.mark.slow
def test_a_random_walk_through_postgresql_never_breaks_the_rules(postgres_url: str) -> None:
    is_long = os.environ.get("GATEMARK_EXAMPLES") == "explore"
    walks, commands = (WALKS, COMMANDS) if is_long else (FEW_WALKS, FEW_COMMANDS)
    check_tally(
        walk_through(lambda clock: Workspace(store=postgres_url, clock=clock), walks), commands
    )
