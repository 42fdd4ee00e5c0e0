"""The state of an asset from its events alone, to compare with what is read and cached."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.ledger.port import EventStore
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT, LifecycleEvent, fold
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.state_cache import recorded_lines


def replay(events: EventStore, asset: str) -> LifecycleState:
    return fold(asset, lifecycle_lines(events, asset))


def lifecycle_lines(events: EventStore, asset: str) -> Iterator[LifecycleEvent]:
    """Yield every event that the state of an asset depends on, in order."""
    lines = [*recorded_lines(events, WORKSPACE_SUBJECT), *recorded_lines(events, asset)]
    yield from sorted(lines, key=lambda line: line.seq)
