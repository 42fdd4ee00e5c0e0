"""``decide(state, command, now)`` returns the facts of a command, or refuses it.

A change of what is allowed, of what follows from a command, or of what a policy means is a new
version of the rules (``LIFECYCLE_RULES``). Decisions of another version are only recorded.
"""

from __future__ import annotations

from datetime import datetime
from types import ModuleType
from typing import Final

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.release.lifecycle.commands import (
    AssetCommand,
    Command,
    Demote,
    PauseVersion,
    RollBack,
)
from gatemark.release.lifecycle.decisions import approvals, canary, demotion, promotion, registering
from gatemark.release.lifecycle.decisions.decision import (
    DECISIONS,
    DecisionMoment,
    decide_declared,
    settle_clock,
)
from gatemark.release.lifecycle.events.fact import DECLARED_ACTS, Facts
from gatemark.release.lifecycle.model.state import LifecycleState

FAMILIES: Final[tuple[ModuleType, ...]] = (approvals, canary, demotion, promotion, registering)
"""The modules that decide; importing one registers the commands it decides."""
TAKES_AWAY: Final = (Demote, RollBack, PauseVersion)
"""Commands that work with a wrong clock and without the lock."""


class Decided(msgspec.Struct, frozen=True):
    """The facts that a command leads to, and their time."""

    facts: Facts
    at: datetime


def decide(state: LifecycleState, command: Command, now: datetime) -> Decided:
    """Return the new facts of a command and their time; no facts if nothing changes.

    Raises RefusedError with the reason. (1) Check the clock, (2) check the lock; the rest depends
    on the command.
    """
    takes_away = isinstance(command, TAKES_AWAY)
    moment = settle_clock(state, now, must_act=takes_away)
    if not takes_away:
        _check_lock(state, command)
    return Decided(rule_on(state, command, moment), moment.now)


def rule_on(state: LifecycleState, command: Command, moment: DecisionMoment) -> Facts:
    """Decide a command at a given time."""
    declared = DECLARED_ACTS.get(type(command))
    if declared is not None:
        return decide_declared(declared, state, command)
    return DECISIONS[type(command)](state, command, moment)


def _check_lock(state: LifecycleState, command: Command) -> None:
    expected = command.expected_revision
    current = (
        state.asset.revision if isinstance(command, AssetCommand) else state.governance.revision
    )
    if expected is not None and expected != current:
        raise RefusedError(
            f"{state.asset.name} changed since event {expected}: its last event is {current}; "
            "reload and try again"
        )
