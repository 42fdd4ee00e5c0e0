"""Verify recorded decisions: decide each action again, and compare.

The inspector replays the events. For each action it derives the command that must have been given,
decides it again, and compares the facts. An event that was written around the rules is refused here
as it would have been then, with the same message. An action under another version of the rules is
only applied as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import (
    IntegrityError,
    InvalidValueError,
    NewerFormatError,
    OtherRulesError,
    RefusedError,
)
from gatemark.ledger.event_kinds import LIFECYCLE_RULES, SYSTEM
from gatemark.release.lifecycle.commands import Command, Demote, Promote, RollBack, Tick
from gatemark.release.lifecycle.decisions.decide import rule_on
from gatemark.release.lifecycle.decisions.decision import DecisionMoment
from gatemark.release.lifecycle.events.approvals import BreakGlassUsed, GateOverridden
from gatemark.release.lifecycle.events.canary import WindowJudged
from gatemark.release.lifecycle.events.fact import Fact, LifecycleEvent, advance, count_events
from gatemark.release.lifecycle.events.governance import PolicyAdopted
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import Cited
from gatemark.release.lifecycle.model.state import Asset, GovernanceState, LifecycleState

SKEW: Final = timedelta(seconds=10)
"""Maximum time between a decision and its event in the ledger."""

Evidence = Callable[[Asset], Mapping[str, Cited]]
"""Returns what is known now of the results about an asset."""


class EventFinding(NamedTuple):
    """An event number, and what is wrong with that event."""

    seq: int
    message: str
    breaks_off: bool = False


class Inspector:
    """Reads lifecycle events in order and reports those that the rules do not explain."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._not_decided: dict[str, list[int]] = {}
        self._newer: str | None = None
        self._governance = GovernanceState()
        self._assets: dict[str, Asset] = {}
        self._lost: set[str] = set()
        self._act: list[LifecycleEvent] = []
        self._one_person_since: list[int] = []

    @property
    def caveats(self) -> tuple[str, ...]:
        """Events since which one person could do everything."""
        return tuple(
            f"event {seq}: from here on in one-person mode, so that nobody else had to approve"
            for seq in self._one_person_since
        )

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Actions under another version of the rules, or in a format of a newer build."""
        newer = () if self._newer is None else (self._newer,)
        return newer + tuple(
            f"{count_events(numbers)}: {why}" for why, numbers in self._not_decided.items()
        )

    def step(self, line: LifecycleEvent) -> list[EventFinding]:
        """Read an event; return the findings of the action that ended before it."""
        if self._newer is not None:
            return []
        if not line.fact.declared.is_decided:
            # Not caused by a command (such as a drift signal), so there is nothing to decide again.
            found = self.settle() if self._act else []
            advance(self._state(line.fact.subject), line)
            return found
        found = [] if self._act and _is_one_act(self._act[-1], line) else self.settle()
        self._act.append(line)
        return found

    def _state(self, name: str) -> LifecycleState:
        asset = self._assets.get(name)
        if asset is None:
            asset = self._assets[name] = Asset(name=name)
        return LifecycleState(self._governance, asset)

    def settle(self) -> list[EventFinding]:
        """Return the findings of the events that are not checked yet."""
        lines, self._act = self._act, []
        found: list[EventFinding] = []
        while lines:
            lines = lines[self._explain(lines, found) :]
        return found

    def finish(self) -> list[EventFinding]:
        """Return the findings of the last action; an incomplete one is missing its next event."""
        last = self._act[-1].seq if self._act else 0
        return [
            EventFinding(last + 1, f"missing: event {finding.seq} is not the end of its act")
            if finding.breaks_off
            else finding
            for finding in self.settle()
        ]

    def _explain(self, lines: Sequence[LifecycleEvent], found: list[EventFinding]) -> int:
        """Check the action that the first of these events begins; return how many events it has."""
        first = lines[0]
        if self._newer is not None:
            return len(lines)
        name = first.fact.subject
        if name in self._lost:
            return 1
        state = self._state(name)
        try:
            if not self._can_decide(first):
                found.extend(_find_older_rules(state, first))
                advance(state, first)
                return 1
            count, problem = self._decide_again(state, lines, possible_commands(lines))
            if problem is not None:
                found.append(problem)
            for line in lines[:count]:
                found.extend(_find_older_rules(state, line))
                found.extend(_find_wrong_names(state.governance, line, first))
                advance(state, line)
                # As the document says it: a later build may read a missing field differently.
                if isinstance(line.fact, PolicyAdopted) and line.fact.policy.get("one_person"):
                    self._one_person_since.append(line.seq)
        except NewerFormatError as error:
            # Later decisions may depend on it.
            self._newer = f"event {first.seq}: {error}; decisions from here on are not judged"
            return len(lines)
        except (IntegrityError, msgspec.ValidationError, ValueError, KeyError) as error:
            self._lost.add(name)
            message = f"events of {name} cannot be checked from here on: {error}"
            found.append(EventFinding(first.seq, message))
            return 1
        return count

    def _can_decide(self, line: LifecycleEvent) -> bool:
        """Whether this build has the rules that decided an action; if not, note the action."""
        try:
            LIFECYCLE_RULES.check(line.rules)
        except OtherRulesError as error:
            self._not_decided.setdefault(str(error), []).append(line.seq)
            return False
        return True

    def _decide_again(
        self, state: LifecycleState, lines: Sequence[LifecycleEvent], asked: PossibleCommands
    ) -> tuple[int, EventFinding | None]:
        """Return the number of events of the action, and its problem if no command explains it."""
        main = lines[asked.main]
        problem: EventFinding | None = None
        if not asked.commands:
            message = f"no command leads to it: {_collect_words(main.fact)}"
            problem = EventFinding(main.seq, message, breaks_off=asked.breaks_off)
        for command in asked.commands:
            if "evidence" in command.__struct_fields__:
                changes: dict[str, object] = {"evidence": self._evidence(state.asset)}
                command = msgspec.structs.replace(command, **changes)  # noqa: PLW2901
            for now in _list_moments(state, main.at):
                try:
                    facts = rule_on(state, command, DecisionMoment(now))
                except (RefusedError, InvalidValueError) as refused:
                    why = "; ".join(refused.lines())
                    problem = problem or EventFinding(main.seq, f"the rules refuse it: {why}")
                    continue
                other = _find_first_difference(facts, lines)
                if other is None:
                    return len(facts), None
                problem = problem or other
        return asked.main + 1, problem


def _find_older_rules(state: LifecycleState, line: LifecycleEvent) -> Iterator[EventFinding]:
    """Yield that a decision rests on one of higher rules: builds only take away after those."""
    before = max((one.rules for one in state.undecided.values()), default=0)
    if line.rules < before and line.fact.gives_authority:
        yield EventFinding(
            line.seq, f"names rules {line.rules}, but rules {before} had decided before it"
        )


def _find_wrong_names(
    governance: GovernanceState, line: LifecycleEvent, first: LifecycleEvent
) -> Iterator[EventFinding]:
    """Yield how the policy and rules that an event names differ from those in force."""
    by = line.decided_by
    if by is None:
        yield EventFinding(line.seq, "does not say which policy and rules decided it")
        return
    if line.rules != first.rules:
        yield EventFinding(line.seq, "names other rules than the rest of its act")
    in_force = governance.policy_digest
    if by.policy_digest != in_force:
        yield EventFinding(
            line.seq, f"names policy {by.policy_digest}, but {in_force} was in force"
        )


class PossibleCommands(NamedTuple):
    """Commands that may have led to an action, and which of its events is the main one.

    ``breaks_off`` means that the main event is missing, although these events lead up to it.
    """

    commands: tuple[Command, ...]
    main: int = 0
    breaks_off: bool = False


def possible_commands(lines: Sequence[LifecycleEvent]) -> PossibleCommands:
    """Return the commands that may have led to the first of these events.

    ``lines`` are events of one actor at one time; they may belong to several actions.
    """
    fact = lines[0].fact
    if isinstance(fact, VersionMoved | GateOverridden | BreakGlassUsed):
        return _move(lines)
    return PossibleCommands(fact.commands(lines[0].actor))


def _move(lines: Sequence[LifecycleEvent]) -> PossibleCommands:
    """Return the command behind a move; a demotion is its own first event."""
    first, actor = lines[0].fact, lines[0].actor
    break_glass = first if isinstance(first, BreakGlassUsed) else None
    for number, line in enumerate(lines):
        fact = line.fact
        if not isinstance(fact, VersionMoved) or fact.cause == "supersede":
            continue
        if break_glass is not None and fact.cause != "break_glass":
            continue
        if isinstance(first, GateOverridden) and fact.cause != "promote":
            continue
        return PossibleCommands(_step(fact, break_glass, actor, lines[number + 1 :]), number)
    # An override, a break-glass event or a superseded version, without the move itself.
    return PossibleCommands((), breaks_off=True)


def _step(
    fact: VersionMoved,
    break_glass: BreakGlassUsed | None,
    actor: str,
    later: Sequence[LifecycleEvent],
) -> tuple[Command, ...]:
    tick = Tick(actor=actor, asset=fact.asset, environment=fact.environment)
    if fact.cause in ("promote", "break_glass"):
        incident = (
            break_glass.incident
            if break_glass is not None and fact.cause == "break_glass"
            else None
        )
        step = Promote(
            actor=actor,
            asset=fact.asset,
            environment=fact.environment,
            note=fact.note,
            version=fact.version,
            to=fact.after,
            result_ids=fact.result_ids,
            incident=incident,
        )
        # The break-glass event comes before the move; such a move alone has no command.
        return () if fact.cause == "break_glass" and break_glass is None else (step,)
    if fact.cause == "ramp":
        return (tick,)
    if fact.cause == "demote":
        demote = Demote(
            actor=actor,
            asset=fact.asset,
            environment=fact.environment,
            note=fact.note,
            version=fact.version,
            to=fact.after,
            signals=fact.signals,
            stop=True,
        )
        return (demote,)
    returned = next(
        (
            line.fact.version
            for line in later
            if isinstance(line.fact, VersionMoved) and line.fact.after == "enabled"
        ),
        None,
    )
    ways = tuple(
        RollBack(
            actor=actor,
            asset=fact.asset,
            environment=fact.environment,
            note=fact.note,
            version=fact.version,
            to=to,
            signals=fact.signals,
            stop=True,
        )
        for to in dict.fromkeys((None, returned))
    )
    return (tick, *ways) if actor == SYSTEM else ways


def _is_one_act(before: LifecycleEvent, line: LifecycleEvent) -> bool:
    same = (before.actor, before.at, before.fact.subject) == (
        line.actor,
        line.at,
        line.fact.subject,
    )
    return same and line.seq == before.seq + 1


def _list_moments(state: LifecycleState, at: datetime) -> Iterator[datetime]:
    """Yield when an event may have been decided: at its time, or before the ledger delayed it."""
    yield at
    known = [one for one in (state.governance.last_at, state.asset.last_at) if one is not None]
    last = max(known, default=at)
    # Never before the last event: an approval that had expired by then must stay expired.
    yield from {max(at - SKEW, last)} - {at}


def _find_first_difference(
    facts: Sequence[Fact], lines: Sequence[LifecycleEvent]
) -> EventFinding | None:
    """Return the first event that differs from what the rules decide."""
    if not facts:
        return EventFinding(lines[0].seq, "the rules would have changed nothing here")
    for number, fact in enumerate(facts):
        if number == len(lines):
            missing = f"the act lacks its event {_collect_words(fact)}"
            return EventFinding(lines[-1].seq, missing, breaks_off=True)
        line = lines[number]
        if line.fact.compared != fact.compared:
            return EventFinding(line.seq, _find_other_words(line.fact, fact))
        for field in fact.declared.deadlines:
            limit: datetime = getattr(fact, field)
            said: datetime = getattr(line.fact, field)
            if said > limit + SKEW:
                message = f"{field} must be {limit.isoformat()} at the latest, got {said}"
                return EventFinding(line.seq, message)
    return None


def _find_other_words(said: Fact, ruled: Fact) -> str:
    words = f"says {_collect_words(said)}, the rules say {_collect_words(ruled)}"
    if _collect_words(said) != _collect_words(ruled):
        return words
    names = [name for name, value in ruled.compared.items() if said.compared[name] != value]
    return f"{words} with other {', '.join(names)}"


def _collect_words(fact: Fact) -> str:
    if isinstance(fact, VersionMoved):
        cited = f", citing {len(fact.result_ids)} results" if fact.result_ids else ""
        return f"{fact.version} goes from {fact.before} to {fact.after} ({fact.cause}{cited})"
    if isinstance(fact, WindowJudged):
        return f"the window of {fact.start:%Y-%m-%d %H:%M:%SZ} is {fact.state}"
    return type(fact).__name__
