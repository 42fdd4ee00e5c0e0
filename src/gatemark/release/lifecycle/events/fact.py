"""What all lifecycle events share: how a kind is declared, and how events change the state.

A kind of event is one class with the decorator ``event``. The class is the payload. ``apply``
changes the state, and ``sentence`` is what histories and pages print. The actor and time are on the
ledger event itself. The state, histories, the formats page and ``ledger verify`` pick up a declared
kind automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias, TypeVar

import msgspec

from gatemark.core.errors import IntegrityError, OtherRulesError
from gatemark.ledger.event_kinds import (
    LIFECYCLE_RULES,
    DecidedBy,
    EventKind,
    declare,
    event_kinds,
    find_kind,
)
from gatemark.release.lifecycle.commands import Command
from gatemark.release.lifecycle.model.nouns import AssetName, Noun, Role, VersionName
from gatemark.release.lifecycle.model.state import Asset, GovernanceState, LifecycleState, Undecided

Tone = Literal["up", "down", "flag", "note"]
WORKSPACE_SUBJECT: Final = "*"
"""The subject of events that concern every asset: roles and the release policy."""


F = TypeVar("F", bound="Fact")


@dataclass(frozen=True, kw_only=True)
class FactKind(EventKind):
    """A kind of event that changes the lifecycle state; the decorator of its payload class.

    ``command`` is the one that leads to it, if its fields are those of the event. With ``act``,
    which says what the command does, it is decided as declared here: by somebody with one of the
    ``roles``, about an asset that exists, unless the event would change nothing. When ``ledger
    verify`` decides again, ``compared`` fields must be equal (if empty: all but the note), and
    ``deadlines`` may not be later. A ``measurement`` has no line in histories.
    """

    roles: tuple[Role, ...] = ()
    command: type[Command] | None = None
    act: str = ""
    compared: tuple[str, ...] = ()
    deadlines: tuple[str, ...] = ()
    tone: Tone = "note"
    is_measurement: bool = False
    is_decided: bool = True

    def __call__(self, fact: type[F]) -> type[F]:
        fact.declared = declare(replace(self, payload=fact))
        if self.act and self.command is not None and issubclass(fact, AssetFact):
            DECLARED_ACTS[self.command] = fact
        return fact


event: Final = FactKind
DECLARED_ACTS: Final[dict[type[Command], type[AssetFact]]] = {}
"""The event of each command that is decided as its event declares."""


class Fact(Noun, frozen=True, kw_only=True):
    """The content of a lifecycle event."""

    declared: ClassVar[FactKind]

    @property
    def subject(self) -> str:
        """The ledger subject that the event is stored under."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The subject of the sentence."""
        raise NotImplementedError

    @property
    def sentence(self) -> str:
        """What happened, in a few words that follow the label."""
        raise NotImplementedError

    @property
    def tone(self) -> Tone:
        """How a history highlights the event."""
        return self.declared.tone

    @property
    def is_shown(self) -> bool:
        """Whether a history has a line for it."""
        return not self.declared.is_measurement

    @property
    def gives_authority(self) -> bool:
        """Whether somebody or something may gain by it.

        What only measures or takes away goes on after an event that this build cannot decide.
        """
        return True

    def takes_away(self, _asset: Asset) -> bool:
        """Whether it only lowers what a version may do; only then it counts without a decision."""
        return False

    def advance(self, state: LifecycleState, event: LifecycleEvent) -> None:
        """Apply this event to the state."""
        raise NotImplementedError

    def commands(self, actor: str) -> tuple[Command, ...]:
        """Return the commands that may have led to this event, if it is the first of its action."""
        command = self.declared.command
        if command is None:
            return ()
        shared = set(command.__struct_fields__).intersection(self.__struct_fields__) - {"actor"}
        return (command(actor=actor, **{name: getattr(self, name) for name in shared}),)

    @property
    def compared(self) -> dict[str, object]:
        """The fields that must be equal when the rules decide again, by name."""
        kind = self.declared
        fields = kind.compared or tuple(
            name for name in self.__struct_fields__ if name not in {"note", *kind.deadlines}
        )
        return {"kind": kind.name, **{name: getattr(self, name) for name in fields}}


Facts: TypeAlias = tuple[Fact, ...]


class GovernanceFact(Fact, frozen=True, kw_only=True):
    """A fact that concerns every asset."""

    @property
    def subject(self) -> str:
        return WORKSPACE_SUBJECT

    def advance(self, state: LifecycleState, event: LifecycleEvent) -> None:
        """Apply this event, unless this build cannot decide it."""
        if event.undecided is not None:
            state.governance.undecided[event.seq] = event.undecided
        else:
            self.apply(state.governance, event)
        state.governance.revision = event.seq
        state.governance.last_at = event.at

    def apply(self, governance: GovernanceState, event: LifecycleEvent) -> None:
        """Apply this event to the governance state."""


class AssetFact(Fact, frozen=True, kw_only=True):
    """A fact about one asset."""

    asset: AssetName

    @property
    def subject(self) -> str:
        return self.asset

    @property
    def label(self) -> str:
        return self.asset

    def advance(self, state: LifecycleState, event: LifecycleEvent) -> None:
        """Apply this event; one that this build cannot decide counts only if it takes away.

        So what serves, and what a rollback leaves, never rests on an event that nobody can decide.
        """
        if self.asset != state.asset.name:
            raise IntegrityError(f"event {event.seq} is about {self.asset}, not {state.asset.name}")
        state.asset.revision = event.seq
        # Times never decrease along the ledger, unless a clock that ran ahead was set back.
        state.asset.last_at = event.at
        if event.undecided is not None:
            state.asset.undecided[event.seq] = event.undecided
            is_applied = self.takes_away(state.asset)
            self.mark_undecided(state.asset, event)
            if not is_applied:
                return
        self.apply(state.asset, event)

    def mark_undecided(self, asset: Asset, event: LifecycleEvent) -> None:
        """Mark the version that would gain by an event that this build cannot decide, if any."""

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Apply this event to the asset; by default, nothing changes."""

    def is_known(self, _asset: Asset) -> bool:
        """Whether the asset is already as this event makes it."""
        return False


class VersionFact(AssetFact, frozen=True, kw_only=True):
    """A fact about one version in one environment."""

    environment: AssetName
    version: VersionName

    @property
    def label(self) -> str:
        return f"{self.asset}@{self.version}"

    def mark_undecided(self, asset: Asset, event: LifecycleEvent) -> None:
        if self.version in asset.versions and self.may_raise(asset):
            asset.ensure_track(self.environment, self.version).undecided = event.seq

    def may_raise(self, _asset: Asset) -> bool:
        """Whether the version may serve after this event what it did not serve before it."""
        return self.gives_authority


class LifecycleEvent(msgspec.Struct, frozen=True):
    """One ledger event as the lifecycle reads it."""

    seq: int
    actor: str
    at: datetime
    fact: Fact
    decided_by: DecidedBy | None = None
    flaw: Undecided | None = None
    """What is wrong with how it was written, if anything."""

    @property
    def rules(self) -> int:
        """The version of the rules that decided it; 0 for what nobody decides."""
        return 0 if self.decided_by is None else self.decided_by.rules

    @property
    def undecided(self) -> Undecided | None:
        """Why this build cannot decide it: it is flawed, or was decided by other rules."""
        if self.flaw or self.decided_by is None or self.rules == LIFECYCLE_RULES.current:
            return self.flaw
        why = LIFECYCLE_RULES.describe_other(self.rules)
        return Undecided(why, error=OtherRulesError, rules=self.rules)

    @property
    def through(self) -> str:
        """The channel it came through as text, or empty for what nobody decides."""
        return "" if self.decided_by is None else self.decided_by.channel.words


def count_events(numbers: Sequence[int]) -> str:
    """Return the numbers of some events, in order, as text."""
    first, last = numbers[0], numbers[-1]
    return f"event {first}" if first == last else f"{len(numbers)} events from {first} to {last}"


def fact_kinds() -> Iterator[FactKind]:
    """Return every kind of event that the lifecycle reads."""
    return (kind for kind in event_kinds().values() if isinstance(kind, FactKind))


def find_fact_kind(name: str) -> FactKind | None:
    """Return the kind with that name, or None if the lifecycle does not read it."""
    kind = find_kind(name)
    return kind if isinstance(kind, FactKind) else None


def fold(name: str, events: Iterable[LifecycleEvent]) -> LifecycleState:
    """Return the state of an asset after some events, in ledger order.

    The events are trusted. Whether a step was legal was decided before it was written, and
    ``gatemark ledger verify`` checks that again.
    """
    state = LifecycleState(governance=GovernanceState(), asset=Asset(name=name))
    for one in events:
        advance(state, one)
    return state


def advance(state: LifecycleState, event: LifecycleEvent) -> None:
    """Apply one more event to a state."""
    event.fact.advance(state, event)
