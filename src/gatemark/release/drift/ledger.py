"""Ledger events about drift tables: pushed points, and what a probe recorded.

Events are written in the transaction that writes the rows: neither exists without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import msgspec
import sqlalchemy as sa

from gatemark.core.errors import IntegrityError
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import DRIFT_RECORDED, POINTS_PUSHED, SYSTEM, as_payload
from gatemark.release.drift.batches import PointBatch
from gatemark.release.drift.events import DriftRecorded, JudgedUntil, PointsPushed
from gatemark.release.drift.open_stores import points_of
from gatemark.release.drift.stores.points import Pusher
from gatemark.workspace import Workspace

MOST_ASSETS: Final = 20
"""Maximum number of asset names in a push event; it also has the total."""


@contextmanager
def open_push(workspace: Workspace, now: datetime) -> Iterator[Pusher]:
    """Open a push of points that writes its ledger events; every push uses this."""
    with points_of(workspace).pushing(int(now.timestamp()), PushEvents(workspace, now)) as pusher:
        yield pusher


class PushEvents:
    """Writes the ledger events of one push."""

    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self._workspace = workspace
        self._events = workspace.store.events
        self._now = now
        # Read once: all events of a push have the same time.
        self._at = workspace.clock()

    def next_number(self, connection: sa.Connection) -> int:
        """Return the number of the first event of the push."""
        return self._events.next_number(connection)

    def tell(self, connection: sa.Connection, batches: Sequence[PointBatch]) -> None:
        """Append one event for each batch."""
        self._add(connection, [self._make_payload(batch) for batch in batches])

    def _make_payload(self, batch: PointBatch) -> PointsPushed:
        return PointsPushed(
            rows=batch.rows,
            digest=batch.digest,
            pushed_at=self._now,
            asset_count=len(batch.assets),
            assets=batch.assets[:MOST_ASSETS],
        )

    def _add(self, connection: sa.Connection, said: Sequence[PointsPushed]) -> None:
        actor = self._workspace.actor
        payloads = [as_payload(one) for one in said]
        self._events.add(
            connection,
            lambda last: _make_drafts(POINTS_PUSHED, payloads, actor, _choose_time(self._at, last)),
        )


def make_event_recorder(
    workspace: Workspace, now: datetime
) -> Callable[[sa.Connection, DriftRecorded], None]:
    """Return the function that appends the event of a recording."""

    def tell(connection: sa.Connection, said: DriftRecorded) -> None:
        payload = as_payload(said)
        workspace.store.events.add(
            connection,
            lambda last: _make_drafts(DRIFT_RECORDED, [payload], SYSTEM, _choose_time(now, last)),
        )

    return tell


def read_judged_until(workspace: Workspace) -> JudgedUntil | None:
    """Return how far the last probe that recorded something judged; None if there was none."""
    newest = workspace.store.events.newest(DRIFT_RECORDED)
    if newest is None:
        return None
    event, payload = newest
    try:
        return convert_stored(payload, DriftRecorded).judged
    except msgspec.ValidationError as error:
        raise IntegrityError(f"event {event.seq}: is not a {event.kind}: {error}") from error


def _make_drafts(
    kind: str, payloads: Sequence[dict[str, object]], actor: str, at: datetime
) -> list[EventDraft]:
    return [EventDraft(kind, at, actor, None, payload) for payload in payloads]


def _choose_time(now: datetime, last: datetime | None) -> datetime:
    """Return now, or the last event's time: a slow clock must not keep points out."""
    return now if last is None else max(now, last)
