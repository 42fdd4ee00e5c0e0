"""Read the state of assets from the ledger; each event is read only once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import cast
from weakref import WeakKeyDictionary

import msgspec

from gatemark.core.errors import (
    IntegrityError,
    InvalidValueError,
    NewerFormatError,
    OtherRulesError,
    UnknownNameError,
)
from gatemark.core.stored import FORMAT, convert_stored, newer_format
from gatemark.core.text import did_you_mean
from gatemark.ledger.event import Event, Head
from gatemark.ledger.event_kinds import (
    ASSET_REGISTERED,
    DECIDED_BY,
    LIFECYCLE_RULES,
    RESULT_SEALED,
    DecidedBy,
    ResultSealed,
    check_payload_format,
)
from gatemark.ledger.port import EventStore
from gatemark.release.lifecycle.events.fact import (
    WORKSPACE_SUBJECT,
    Fact,
    LifecycleEvent,
    advance,
    count_events,
    find_fact_kind,
)
from gatemark.release.lifecycle.model.state import Asset, GovernanceState, LifecycleState, Undecided
from gatemark.workspace import Workspace


def recorded(event: Event, payload: Mapping[str, object] | None) -> LifecycleEvent | None:
    """Return an event as the lifecycle reads it, or None for an event of another feature.

    Raises NewerFormatError for a payload format that only a newer build knows.
    """
    kind = find_fact_kind(event.kind)
    if kind is None:
        return None
    if payload is None:
        if not kind.is_kept:
            return None
        raise IntegrityError(f"event {event.seq} ({event.kind}) has no payload")
    content = dict(payload)
    name, decided_by = content.pop(FORMAT, None), content.pop(DECIDED_BY, None)
    try:
        if not check_payload_format(event.kind, name):
            raise NewerFormatError(f"event {event.seq} {newer_format(str(name))}")
        fact = convert_stored(content, cast("type[Fact]", kind.payload))
        by = _read_decided_by(decided_by) if kind.is_decided else None
    except (msgspec.ValidationError, InvalidValueError) as error:
        raise IntegrityError(f"event {event.seq} ({event.kind}) cannot be read: {error}") from error
    except IntegrityError as error:
        raise IntegrityError(f"event {event.seq} ({event.kind}) {error}") from error
    if event.subject != fact.subject:
        # The subject names another asset than the payload.
        raise IntegrityError(
            f"event {event.seq} ({event.kind}) has the subject {event.subject}, "
            f"but is about {fact.subject}"
        )
    return LifecycleEvent(event.seq, event.actor, event.at, fact, by)


def read_event(
    event: Event, payload: Mapping[str, object] | None
) -> LifecycleEvent | Undecided | None:
    """Return an event as ``recorded`` does, also one that is not as any build writes it.

    What takes authority away must go on after such an event, so it blocks no reader: it is returned
    with its flaw, and counts only if it takes away. An event that cannot be read at all is returned
    as what is wrong with it.
    """
    try:
        return recorded(event, payload)
    except (IntegrityError, NewerFormatError) as error:
        why = str(error).removeprefix(f"event {event.seq} ")
        flaw = Undecided(why, error=type(error))
    kind = find_fact_kind(event.kind)
    if kind is None or payload is None:
        return flaw
    content = {name: said for name, said in payload.items() if name not in (FORMAT, DECIDED_BY)}
    try:
        fact = convert_stored(content, cast("type[Fact]", kind.payload))
    except (msgspec.ValidationError, InvalidValueError):
        return flaw
    if event.subject != fact.subject:
        return flaw
    return LifecycleEvent(event.seq, event.actor, event.at, fact, flaw=flaw)


def apply_event(
    state: LifecycleState, event: Event, payload: Mapping[str, object] | None
) -> LifecycleEvent | None:
    """Apply a ledger event to a state, and return it; none for what the lifecycle cannot read.

    An event that cannot be read changes nothing but that nothing climbs after it.
    """
    line = read_event(event, payload)
    if isinstance(line, LifecycleEvent):
        try:
            advance(state, line)
        except (msgspec.ValidationError, InvalidValueError, IntegrityError) as error:
            line = Undecided(f"({event.kind}) cannot be read: {error}")
    if isinstance(line, Undecided):
        part = state.governance if event.subject == WORKSPACE_SUBJECT else state.asset
        part.undecided[event.seq] = line
        part.revision = event.seq
        return None
    return line


def _read_decided_by(said: object) -> DecidedBy:
    if said is None:
        raise IntegrityError("does not say which policy and rules decided it")
    by = convert_stored(said, DecidedBy)
    # What follows from an action under another version of the rules is for the state to say.
    with suppress(OtherRulesError):
        LIFECYCLE_RULES.check(by.rules)
    return by


class _Page(msgspec.Struct):
    """What was read about one asset so far."""

    asset: Asset
    head: Head | None = None
    read_to: int = 0
    is_read: bool = False
    sealed_at: dict[str, datetime] = {}


def _note_seal(page: _Page, event: Event, payload: Mapping[str, object] | None) -> None:
    """Record when a result was last reached; the event may be later than that."""
    try:
        sealed = convert_stored(payload, ResultSealed)
        finished_at = sealed.finished_at
    except (msgspec.ValidationError, IntegrityError) as error:
        page.asset.undecided[event.seq] = Undecided(f"({event.kind}) cannot be read: {error}")
        return
    known = page.sealed_at.get(sealed.result_id)
    page.sealed_at[sealed.result_id] = max(finished_at, known or finished_at)


class AssetStateCache:
    """Caches the states of assets; reading again reads only new events.

    A returned state changes as the ledger grows. Hold ``lock`` while reading one that others may
    update.
    """

    def __init__(self, events: EventStore) -> None:
        self.lock = threading.RLock()
        self._events = events
        self._workspace = GovernanceState()
        self._governance_read_to = 0
        self._pages: dict[str, _Page] = {}
        self._pinned: Head | None = None
        self._followed: int | None = None
        self._names: set[str] | None = None
        self._is_governance_read = False

    def pin(self) -> None:
        """Read new events once, and answer from that state until ``unpin``.

        Use it to read many assets: the ledger is queried once, not for each asset.
        """
        head = self._events.head()
        if self._followed is None:
            # Assets read before continue from where they ended; from here on, events are followed.
            self._followed, self._names, self._is_governance_read = head.seq, None, False
            for page in self._pages.values():
                page.is_read = False
        if head.seq > self._followed:
            for event, payload in self._events.events(self._followed):
                self._follow(event, payload)
                self._followed = event.seq
        self._pinned = head

    def unpin(self) -> None:
        """Query the ledger on every read again."""
        self._pinned = None

    def head(self) -> Head:
        """Return the last event of the ledger as last read."""
        return self._pinned or self._events.head()

    def _follow(self, event: Event, payload: Mapping[str, object] | None) -> None:
        if event.kind == ASSET_REGISTERED and self._names is not None and event.subject:
            self._names.add(event.subject)
        is_news = self._is_governance_read and event.seq > self._governance_read_to
        if event.subject == WORKSPACE_SUBJECT and is_news:
            apply_event(
                LifecycleState(self._workspace, Asset(name=WORKSPACE_SUBJECT)), event, payload
            )
            self._governance_read_to = event.seq
        page = self._pages.get(event.subject or "")
        if page is not None and page.is_read and event.seq > page.read_to:
            self._take(page, event, payload)

    def _take(self, page: _Page, event: Event, payload: Mapping[str, object] | None) -> None:
        if event.kind == RESULT_SEALED:
            _note_seal(page, event, payload)
        else:
            apply_event(LifecycleState(self._workspace, page.asset), event, payload)
        page.read_to = event.seq

    def names(self) -> frozenset[str]:
        """Return the names of all registered assets."""
        if self._names is None or self._pinned is None:
            events = self._events.events(kind=ASSET_REGISTERED)
            self._names = {event.subject for event, _ in events if event.subject}
        return frozenset(self._names)

    def mark(self, asset: str) -> tuple[int, int]:
        """Return the last event that was read of an asset, and of the workspace."""
        self.read(asset)
        return self._pages[asset].read_to, self._governance_read_to

    def read(self, asset: str, head: Head | None = None) -> LifecycleState:
        """Return the current state of an asset; reads nothing if the ledger ends at ``head``."""
        with self.lock:
            page = self._pages.setdefault(asset, _Page(asset=Asset(name=asset)))
            state = LifecycleState(self._workspace, page.asset)
            if head is not None and page.head == head:
                return state
            if head is None and self._pinned is not None and page.is_read:
                return state
            self._read_on(state, page)
            page.head = head
            page.is_read = True
            return state

    def _read_on(self, state: LifecycleState, page: _Page) -> None:
        for event, payload in self._events.events(
            self._governance_read_to, subject=WORKSPACE_SUBJECT
        ):
            apply_event(state, event, payload)
            self._governance_read_to = event.seq
        self._is_governance_read = True
        if state.asset.name == WORKSPACE_SUBJECT:
            return
        for event, payload in self._events.events(page.read_to, subject=state.asset.name):
            self._take(page, event, payload)

    def sealed_at(self, asset: str, result_id: str) -> datetime | None:
        """Return when a result about an asset was last sealed, or None if no event records it."""
        page = self._pages.get(asset)
        return None if page is None else page.sealed_at.get(result_id)


_OPEN: WeakKeyDictionary[Workspace, AssetStateCache] = WeakKeyDictionary()
_OPENING = threading.Lock()


def asset_state_cache(workspace: Workspace) -> AssetStateCache:
    """Return the cache of a workspace; created on first use."""
    with _OPENING:
        if workspace not in _OPEN:
            _OPEN[workspace] = AssetStateCache(workspace.events)
        return _OPEN[workspace]


def read_state(workspace: Workspace, asset: str) -> LifecycleState:
    """Return the current state of an asset."""
    return asset_state_cache(workspace).read(asset)


def describe_undecided(state: LifecycleState) -> tuple[str, ...]:
    """Return what a state says about events that this build cannot decide."""
    numbers: dict[str, list[int]] = {}
    for seq, undecided in sorted(state.undecided.items()):
        numbers.setdefault(undecided.why, []).append(seq)
    return tuple(f"{count_events(seqs)}: {why}" for why, seqs in numbers.items())


def unknown_asset(workspace: Workspace, asset: str) -> UnknownNameError:
    """Return the error for an unknown asset, with the closest known name."""
    close = did_you_mean(asset, asset_state_cache(workspace).names())
    return UnknownNameError(f"there is no asset {asset}{close or '.'} See: gatemark asset list")


def recorded_lines(events: EventStore, subject: str) -> list[LifecycleEvent]:
    """Return the lifecycle events of a subject, in order."""
    return [
        line
        for event, payload in events.events(subject=subject)
        if (line := recorded(event, payload)) is not None
    ]
