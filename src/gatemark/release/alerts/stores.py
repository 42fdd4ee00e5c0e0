"""The outbox of alerts: stored before they are sent, so that none is lost or sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import sqlalchemy as sa

from gatemark.core.stored import read_stored
from gatemark.ledger.database import Database
from gatemark.release.alerts.alert import Alert

METADATA: Final = sa.MetaData()
"""The table, the same in every database. A ledger migration creates it."""
ALERTS: Final = sa.Table(
    "alerts",
    METADATA,
    sa.Column("id", sa.String(71), primary_key=True),
    sa.Column("sink", sa.Text, primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.Column("last_error", sa.Text, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)

PENDING: Final = "pending"
SENT: Final = "sent"
GIVEN_UP: Final = "given_up"
MAX_ATTEMPTS: Final = 20
LEAST_PATIENCE: Final = timedelta(days=7)
"""Minimum number of attempts, and minimum time, before an alert is given up."""


class Queued(NamedTuple):
    """An alert for one sink, and the state of its delivery."""

    alert: Alert
    sink: str
    state: str
    attempts: int
    last_error: str


class SqlAlerts:
    """The outbox in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def queue(self, alert: Alert, sinks: Sequence[str]) -> int:
        """Store an alert for some sinks; skip those that have it already."""
        added = 0
        with self._database.writing() as connection:
            known = set(
                connection.execute(
                    sa.select(ALERTS.c.sink).where(ALERTS.c.id == alert.id)
                ).scalars()
            )
            for sink in sinks:
                if sink in known:
                    continue
                connection.execute(
                    sa.insert(ALERTS).values(
                        id=alert.id,
                        sink=sink,
                        state=PENDING,
                        attempts=0,
                        created_at=alert.at.isoformat(),
                        last_error="",
                        document=alert.body,
                    )
                )
                added += 1
        return added

    def pending(self) -> list[Queued]:
        """Return the alerts to deliver, oldest first."""
        return self._read(ALERTS.c.state == PENDING)

    def all(self) -> list[Queued]:
        """Return every alert."""
        return self._read(sa.true())

    def mark(self, queued: Queued, error: str | None, now: datetime) -> str:
        """Record an attempt and return the state of the alert.

        It is given up after many failures over many days, independent of the tick frequency.
        """
        attempts = queued.attempts + 1
        is_worn = attempts >= MAX_ATTEMPTS and now - queued.alert.at >= LEAST_PATIENCE
        state = SENT if error is None else GIVEN_UP if is_worn else PENDING
        here = sa.and_(ALERTS.c.id == queued.alert.id, ALERTS.c.sink == queued.sink)
        with self._database.writing() as connection:
            connection.execute(
                sa.update(ALERTS)
                .where(here)
                .values(state=state, attempts=attempts, last_error=(error or "")[:1000])
            )
        return state

    def _read(self, condition: sa.ColumnElement[bool]) -> list[Queued]:
        query = sa.select(ALERTS).where(condition).order_by(ALERTS.c.created_at, ALERTS.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [
            Queued(
                alert=read_stored(row.document, Alert),
                sink=row.sink,
                state=row.state,
                attempts=row.attempts,
                last_error=row.last_error,
            )
            for row in rows
        ]
