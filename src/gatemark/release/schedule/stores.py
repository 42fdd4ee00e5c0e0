"""Scheduled runs in a database: each occasion is claimed by exactly one worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
import sqlalchemy as sa

from gatemark.ledger.database import Database
from gatemark.release.schedule.cadence import Occasion, Trigger

RunState = Literal[
    "running",
    "done",
    "failed",
    "timed_out",
    "gate_failed",
    "unjudged",
    "abandoned",
    "missed",
    "expired",
    "skipped_overlap",
]
RUNNING: Final = "running"
ENDED: Final[tuple[RunState, ...]] = ("done", "gate_failed", "unjudged")
"""States of runs that reached a verdict, or needed none."""
MAX_DETAIL: Final = 2_000
METADATA: Final = sa.MetaData()

SCHEDULES_SEEN: Final = sa.Table(
    "schedules_seen",
    METADATA,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("first_seen_s", sa.BigInteger, nullable=False),
)

RUNS: Final = sa.Table(
    "schedule_runs",
    METADATA,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("occasion", sa.Text, primary_key=True),
    sa.Column("due_s", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(24), nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("claimed_s", sa.BigInteger, nullable=False),
    sa.Column("lease_until_s", sa.BigInteger, nullable=False),
    sa.Column("finished_s", sa.BigInteger),
    sa.Column("detail", sa.Text, nullable=False),
)

TRIGGERS: Final = sa.Table(
    "schedule_triggers",
    METADATA,
    sa.Column("kind", sa.String(64), primary_key=True),
    sa.Column("id", sa.String(256), primary_key=True),
    sa.Column("asset", sa.Text, nullable=False),
    sa.Column("at_s", sa.BigInteger, nullable=False),
)


class ScheduledRun(msgspec.Struct, frozen=True):
    """The outcome of one occasion of one schedule."""

    schedule: str
    occasion: str
    due_at: datetime
    state: RunState
    worker: str
    claimed_at: datetime
    finished_at: datetime | None
    detail: str


class SqlRuns:
    """The runs of a store in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known_since(self, schedules: Sequence[str], now: datetime) -> dict[str, datetime]:
        """Return when each schedule was first ticked; now for those that never were."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(SCHEDULES_SEEN)).all()
        known = {row.schedule: _parse_moment(row.first_seen_s) for row in rows}
        return {name: known.get(name, now) for name in schedules}

    def first_seen(self, schedules: Sequence[str], now: datetime) -> dict[str, datetime]:
        """Record and return when each schedule was first ticked.

        A time in the future, from a clock that was ahead, is replaced.
        """
        seen = int(now.timestamp())
        with self._database.writing() as connection:
            known = {
                row.schedule: row.first_seen_s
                for row in connection.execute(sa.select(SCHEDULES_SEEN))
            }
            fresh = [name for name in schedules if name not in known]
            if fresh:
                rows = [{"schedule": name, "first_seen_s": seen} for name in fresh]
                connection.execute(sa.insert(SCHEDULES_SEEN), rows)
            ahead = [name for name in schedules if known.get(name, seen) > seen]
            if ahead:
                here = SCHEDULES_SEEN.c.schedule.in_(ahead)
                connection.execute(sa.update(SCHEDULES_SEEN).where(here).values(first_seen_s=seen))
        return {name: _parse_moment(min(known.get(name, seen), seen)) for name in schedules}

    def last_due(self, schedule: str, now: datetime) -> datetime | None:
        """Return the latest fire time up to now that was handled; triggered runs do not count.

        Fire times that a clock ahead of ours handled do not count until their time has come.
        """
        return self._find_time(schedule, now, _is_time())

    def last_done(self, schedule: str, now: datetime) -> datetime | None:
        """Return the due time of the latest run up to now that finished, whatever its verdict."""
        return self._find_time(schedule, now, RUNS.c.state.in_(ENDED))

    def occasions(self, schedule: str) -> frozenset[str]:
        """Return every occasion of a schedule that was handled."""
        query = sa.select(RUNS.c.occasion).where(RUNS.c.schedule == schedule)
        with self._database.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def since(self, schedule: str, moment: datetime) -> list[tuple[str, datetime, str]]:
        """Return occasion, due time and state of every run of a schedule due since a given time."""
        query = sa.select(RUNS.c.occasion, RUNS.c.due_s, RUNS.c.state).where(
            RUNS.c.schedule == schedule, RUNS.c.due_s >= int(moment.timestamp())
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [(row.occasion, _parse_moment(row.due_s), row.state) for row in rows]

    def claim(
        self, occasion: Occasion, worker: str, now: datetime, lease_s: int
    ) -> RunState | None:
        """Claim an occasion; return None if another worker has it.

        While an earlier run of the schedule is in progress, the occasion is recorded as skipped.
        Missed and expired occasions are only recorded.
        """
        moment = int(now.timestamp())
        key = sa.and_(RUNS.c.schedule == occasion.schedule, RUNS.c.occasion == occasion.id)
        busy = sa.and_(
            RUNS.c.schedule == occasion.schedule,
            RUNS.c.state == RUNNING,
            RUNS.c.lease_until_s > moment,
        )
        with self._database.writing() as connection:
            if connection.execute(sa.select(RUNS.c.state).where(key)).first() is not None:
                return None
            state: RunState = "running"
            detail = ""
            if occasion.state != "due":
                state, detail = occasion.state, f"{occasion.count} fire times"
            elif connection.execute(sa.select(RUNS.c.occasion).where(busy)).first() is not None:
                state, detail = "skipped_overlap", "an earlier run was still going on"
            connection.execute(
                sa.insert(RUNS).values(
                    schedule=occasion.schedule,
                    occasion=occasion.id,
                    due_s=int(occasion.due_at.timestamp()),
                    state=state,
                    worker=worker,
                    claimed_s=moment,
                    lease_until_s=moment + lease_s,
                    finished_s=None if state == RUNNING else moment,
                    detail=detail,
                )
            )
            return state

    def finish(self, occasion: Occasion, state: RunState, now: datetime, detail: str) -> None:
        """Record how a run ended."""
        key = sa.and_(RUNS.c.schedule == occasion.schedule, RUNS.c.occasion == occasion.id)
        values = {"state": state, "finished_s": int(now.timestamp()), "detail": detail[:MAX_DETAIL]}
        with self._database.writing() as connection:
            connection.execute(sa.update(RUNS).where(key).values(**values))

    def abandon(self, now: datetime) -> int:
        """Abandon runs whose worker did not return in time; return their number."""
        moment = int(now.timestamp())
        gone = sa.and_(RUNS.c.state == RUNNING, RUNS.c.lease_until_s <= moment)
        detail = "its worker never came back"
        values = {"state": "abandoned", "finished_s": moment, "detail": detail}
        with self._database.writing() as connection:
            return connection.execute(sa.update(RUNS).where(gone).values(**values)).rowcount

    def runs(self, limit: int = 100) -> list[ScheduledRun]:
        """Return the latest runs, newest first."""
        query = sa.select(RUNS).order_by(RUNS.c.due_s.desc(), RUNS.c.occasion.desc()).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [
            ScheduledRun(
                schedule=row.schedule,
                occasion=row.occasion,
                due_at=_parse_moment(row.due_s),
                state=row.state,
                worker=row.worker,
                claimed_at=_parse_moment(row.claimed_s),
                finished_at=None if row.finished_s is None else _parse_moment(row.finished_s),
                detail=row.detail,
            )
            for row in rows
        ]

    def add_trigger(self, trigger: Trigger) -> bool:
        """Store a trigger; return False if it is known."""
        key = sa.and_(TRIGGERS.c.kind == trigger.kind, TRIGGERS.c.id == trigger.id)
        with self._database.writing() as connection:
            if connection.execute(sa.select(TRIGGERS.c.id).where(key)).first() is not None:
                return False
            connection.execute(
                sa.insert(TRIGGERS).values(
                    kind=trigger.kind,
                    id=trigger.id,
                    asset=trigger.asset or "",
                    at_s=int(trigger.at.timestamp()),
                )
            )
            return True

    def note_once(self, name: str, now: datetime) -> bool:
        """Record that something was reported; return False if it was reported before."""
        with self._database.writing() as connection:
            here = SCHEDULES_SEEN.c.schedule == name
            if connection.execute(sa.select(SCHEDULES_SEEN).where(here)).first() is not None:
                return False
            seen = int(now.timestamp())
            connection.execute(sa.insert(SCHEDULES_SEEN).values(schedule=name, first_seen_s=seen))
            return True

    def triggers(self, until: datetime) -> list[Trigger]:
        """Return every trigger up to a given time, oldest first."""
        query = (
            sa.select(TRIGGERS)
            .where(TRIGGERS.c.at_s <= int(until.timestamp()))
            .order_by(TRIGGERS.c.at_s, TRIGGERS.c.id)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [
            Trigger(kind=row.kind, id=row.id, at=_parse_moment(row.at_s), asset=row.asset or None)
            for row in rows
        ]

    def _find_time(
        self, schedule: str, now: datetime, condition: sa.ColumnElement[bool]
    ) -> datetime | None:
        query = sa.select(sa.func.max(RUNS.c.due_s)).where(
            RUNS.c.schedule == schedule, RUNS.c.due_s <= int(now.timestamp()), condition
        )
        with self._database.reading() as connection:
            seconds = connection.execute(query).scalar()
        return None if seconds is None else _parse_moment(seconds)


def _is_time() -> sa.ColumnElement[bool]:
    """Occasions of a clock are named by a time, those of a trigger by kind and id."""
    return RUNS.c.occasion.like("____-__-__T__:__:__Z")


def _parse_moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
