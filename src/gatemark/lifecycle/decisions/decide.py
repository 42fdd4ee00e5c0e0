"""``decide(state, command, now)`` returns the facts of a command, or refuses it.

Every decision is verified by the version of the rules that made it. A change of what is allowed, of
what follows from a command, or of what a policy means is a new version. The function of an old
version stays while its decisions can be decided again. If it had to be removed, ``decide`` of its
rule book is None, and its decisions are only recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import ModuleType
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.ledger.event_kinds import RULES_VERSION
from gatemark.lifecycle.commands import AssetCommand, Command, Demote, PauseVersion, RollBack
from gatemark.lifecycle.decisions import approvals, canary, demotion, promotion, registering
from gatemark.lifecycle.decisions.decision import DECISIONS, DecisionMoment, settle_clock
from gatemark.lifecycle.events.fact import Facts
from gatemark.lifecycle.model.state import LifecycleState

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
    """Decide a command at a given time and by given rules."""
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


Decide = Callable[[LifecycleState, Command, DecisionMoment], Facts]


class RuleBook(NamedTuple):
    """One version of the rules: the release that introduced it, and its deciding function."""

    since: str
    decide: Decide | None


def _by_rules(version: int) -> Decide:
    def decide(state: LifecycleState, command: Command, moment: DecisionMoment) -> Facts:
        return rule_on(state, command, msgspec.structs.replace(moment, rules=version))

    return decide


RULE_BOOKS: Final[dict[int, RuleBook]] = {
    1: RuleBook("0.1.0", _by_rules(1)),
    2: RuleBook("0.2.0", _by_rules(2)),
    3: RuleBook("0.2.0", _by_rules(3)),
    4: RuleBook("0.2.0", _by_rules(4)),
    5: RuleBook("0.2.0", _by_rules(5)),
    RULES_VERSION: RuleBook("0.2.0", rule_on),
}
"""Every version of the rules that a ledger may name, by its number.

Rules 2: an approval to enable a canary counts only if it was given after the clean windows that the
step rests on, and a watch that got no measurements pauses its version before it ends.

Rules 3: a result is as old as its oldest answer, however often it is judged again. One that does
not say when its answers were given supports no promotion. A breach after enabling pauses the last
version that can serve, and a gate that cannot block is not waived. Samples of canary windows are
pooled until there are enough. A policy with ``shadow`` requires paired measurements with
the live version.

Rules 4: nobody is admin and author, evaluator or operator, and no admin approves. A vote does not
count when its giver got a role, a link or a password from the author, or from whoever promotes,
within the time of the policy. A policy with ``one_person`` lifts this if nobody else has a role.

Rules 5: a new store starts with the default policy of 0.2.0, and a policy may have exceptions
for some assets.

Rules 6: a gate is not waived by whoever wrote the same content under another name, nor by somebody
who got access from the author within the time of the policy. A canary window in which the canary
has clearly fewer samples per key than the baseline is not clean.
"""
