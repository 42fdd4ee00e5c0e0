"""The versions of the rules: every decision is checked by the version that made it.

A change of what is allowed, of what follows from a command, or of what a policy means is a new
version. The function of the old version stays here for as long as its decisions can be decided
again. Where it had to go, ``decide`` is None, and its decisions are recorded, not decided anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gatemark.ledger.payloads import RULES_VERSION
from gatemark.lifecycle.commands import Command
from gatemark.lifecycle.decisions.clock import DecisionMoment
from gatemark.lifecycle.decisions.decide import rule_on
from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.model.state import LifecycleState

Decide = Callable[[LifecycleState, Command, DecisionMoment], tuple[Fact, ...]]


class RuleBook(NamedTuple):
    """One version of the rules: since which release, and how it decides."""

    since: str
    decide: Decide | None


RULE_BOOKS: Final[dict[int, RuleBook]] = {RULES_VERSION: RuleBook("0.1.0", rule_on)}
"""Every version of the rules that a ledger may name, by its number."""
