"""The one function that decides: ``decide(state, command, now)`` gives facts, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    AssetCommand,
    Command,
    Demote,
    GrantRoles,
    PauseVersion,
    Promote,
    PushWindow,
    ReportService,
    ResumeVersion,
    ReviewGlass,
    RollBack,
    SetExam,
    Tick,
    Waive,
)
from gatemark.lifecycle.decisions.canary import decide_push, decide_tick
from gatemark.lifecycle.decisions.clock import DecisionMoment, settle_clock
from gatemark.lifecycle.decisions.demotion import decide_demote, decide_roll_back
from gatemark.lifecycle.decisions.promotion import decide_promote
from gatemark.lifecycle.decisions.registering import (
    decide_add,
    decide_adopt,
    decide_exam,
    decide_grant,
)
from gatemark.lifecycle.decisions.reporting import decide_report
from gatemark.lifecycle.decisions.voting import (
    decide_approve,
    decide_pause,
    decide_resume,
    decide_review,
    decide_waive,
)
from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.model.state import LifecycleState

TAKES_AWAY: Final = (Demote, RollBack, PauseVersion)
"""Commands that neither a clock nor a lock may stop."""


class Decided(msgspec.Struct, frozen=True):
    """What a command comes to: facts to write down, and when they happened."""

    facts: tuple[Fact, ...]
    at: datetime


def decide(state: LifecycleState, command: Command, now: datetime) -> Decided:
    """What comes of a command: new facts and their moment, none when it is already so.

    Refuses with a reason. (1) The clock is settled, (2) the lock is checked; the rest is the
    command's own.
    """
    takes_away = isinstance(command, TAKES_AWAY)
    moment = settle_clock(state, now, must_act=takes_away)
    if not takes_away:
        _check_lock(state, command)
    return Decided(rule_on(state, command, moment), moment.now)


def rule_on(state: LifecycleState, command: Command, moment: DecisionMoment) -> tuple[Fact, ...]:
    """What the rules make of a command once its moment is settled."""
    return _DECISIONS[type(command)](state, command, moment)


def _check_lock(state: LifecycleState, command: Command) -> None:
    expected = command.expected_revision
    current = (
        state.asset.revision if isinstance(command, AssetCommand) else state.governance.revision
    )
    if expected is not None and expected != current:
        raise RefusedError(
            f"{state.asset.name} changed since event {expected}: its last event is {current}; "
            "look again and decide anew"
        )


_DECISIONS: Final[dict[type, Callable[[LifecycleState, Any, DecisionMoment], tuple[Fact, ...]]]] = {
    GrantRoles: lambda state, command, _: decide_grant(state.governance, command),
    AdoptPolicy: lambda state, command, _: decide_adopt(state.governance, command),
    AddVersion: lambda state, command, _: decide_add(state, command),
    SetExam: lambda state, command, _: decide_exam(state, command),
    Promote: decide_promote,
    Approve: decide_approve,
    Waive: decide_waive,
    Demote: decide_demote,
    RollBack: decide_roll_back,
    PauseVersion: lambda state, command, _: decide_pause(state, command),
    ResumeVersion: lambda state, command, _: decide_resume(state, command),
    ReviewGlass: lambda state, command, _: decide_review(state, command),
    PushWindow: decide_push,
    ReportService: decide_report,
    Tick: decide_tick,
}
