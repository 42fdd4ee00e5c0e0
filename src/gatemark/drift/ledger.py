"""Ledger events about drift tables: pushed points, and what a probe recorded.

Events are written in the transaction that writes the rows: neither is there without the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from gatemark.drift.batches import PointBatch
from gatemark.drift.events import DriftRecorded, PointsPushed
from gatemark.drift.open_stores import points_of
from gatemark.drift.stores.batches import has_batches, is_without_points, uncovered_batch
from gatemark.drift.stores.points import Pusher
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.event_kinds import DRIFT_RECORDED, POINTS_PUSHED, SYSTEM, as_payload
from gatemark.workspace import Workspace

MOST_ASSETS: Final = 20
"""How many assets an event of a push names; it says how many there are."""


@contextmanager
def open_push(workspace: Workspace, now: datetime) -> Iterator[Pusher]:
    """A push of points with its ledger events; every push goes through here."""
    with points_of(workspace).pushing(int(now.timestamp()), PushEvents(workspace, now)) as pusher:
        yield pusher


class PushEvents:
    """Tells the ledger of one push."""

    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self._workspace = workspace
        self._events = workspace.store.events
        self._now = now
        # Read once: all events of a push are of one moment.
        self._at = workspace.clock()

    def next_number(self, connection: sa.Connection) -> int:
        """The number of the first event of the push, after one that covers what is there."""
        self.cover_existing(connection)
        return self._events.next_number(connection)

    def tell(self, connection: sa.Connection, batches: Sequence[PointBatch]) -> None:
        """One event for each batch."""
        self._add(connection, [self._said(batch, adopted=False) for batch in batches])

    def cover_existing(self, connection: sa.Connection) -> Event | None:
        """Tell of rows from before pushes had events, all in one.

        None when there are none, or an earlier event records them.
        """
        if self._events.has_kind(connection, POINTS_PUSHED) or is_without_points(connection):
            return None
        batch = uncovered_batch(connection)
        (event,) = self._add(connection, [self._said(batch, adopted=True)])
        return event

    def _said(self, batch: PointBatch, *, adopted: bool) -> PointsPushed:
        return PointsPushed(
            rows=batch.rows,
            digest=batch.digest,
            pushed_at=self._now,
            asset_count=len(batch.assets),
            assets=batch.assets[:MOST_ASSETS],
            adopted=adopted,
        )

    def _add(self, connection: sa.Connection, said: Sequence[PointsPushed]) -> Sequence[Event]:
        actor = SYSTEM if any(one.adopted for one in said) else self._workspace.actor
        payloads = [as_payload(one) for one in said]
        return self._events.add(
            connection, lambda last: _drafts(POINTS_PUSHED, payloads, actor, _at(self._at, last))
        )


def cover_existing_points(workspace: Workspace) -> Event | None:
    """Record points that were pushed before pushes had events.

    For a store that was just brought to layout 0007. Gives the event; None when there is nothing
    to cover, or the ledger covers points already.
    """
    teller = PushEvents(workspace, workspace.clock())
    with workspace.store.database.writing() as connection:
        return teller.cover_existing(connection) if has_batches(connection) else None


def recording_events(
    workspace: Workspace, now: datetime
) -> Callable[[sa.Connection, DriftRecorded], None]:
    """Return the function that records what a probe, or closing an episode, wrote."""

    def tell(connection: sa.Connection, said: DriftRecorded) -> None:
        payload = as_payload(said)
        workspace.store.events.add(
            connection, lambda last: _drafts(DRIFT_RECORDED, [payload], SYSTEM, _at(now, last))
        )

    return tell


def _drafts(
    kind: str, payloads: Sequence[dict[str, object]], actor: str, at: datetime
) -> list[EventDraft]:
    return [EventDraft(kind, at, actor, None, payload) for payload in payloads]


def _at(now: datetime, last: datetime | None) -> datetime:
    """Now, or the last event's moment: a clock that is behind must not keep points out."""
    return now if last is None else max(now, last)
