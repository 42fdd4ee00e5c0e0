"""Answers to requests with an idempotency key, and runs started from the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import msgspec
import sqlalchemy as sa

from gatemark.ledger.database import NOTE_EVENTS, Database
from gatemark.ledger.event import Event
from gatemark.server.accounts.nouns import (
    ALIVE_S,
    KeptAnswer,
    PageRun,
    RunState,
    from_seconds,
    to_seconds,
)
from gatemark.server.accounts.stores.tables import ANSWERS, PAGE_RUNS

KEPT_HOURS: Final = 24
MAX_DETAIL: Final = 2_000


class SqlAnswers:
    """Answers to requests with an idempotency key, stored for a day."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, person: str, key: str, request: str, now: datetime) -> KeptAnswer | None:
        """Claim a new request and return None; return what is known of a repeated one.

        A request that is running belongs to the server that claimed it, as long as that server
        calls ``touch``. If it died, the same request claims the key again, unless it wrote events:
        to decide it a second time could do it twice.
        """
        mine = (ANSWERS.c.person == person, ANSWERS.c.key == key)
        query = sa.select(ANSWERS).where(*mine)
        with self._database.writing() as connection:
            old = to_seconds(now - timedelta(hours=KEPT_HOURS))
            connection.execute(sa.delete(ANSWERS).where(ANSWERS.c.kept_s < old))
            row = connection.execute(query).first()
            is_dead = (
                row is not None and row.status is None and row.kept_s < to_seconds(now) - ALIVE_S
            )
            if row is not None and is_dead and row.request == request and not row.body:
                connection.execute(sa.update(ANSWERS).where(*mine).values(kept_s=to_seconds(now)))
                return None
            if row is not None:
                lost = _decode_numbers(row.body) if is_dead else ()
                return KeptAnswer(row.request, row.status, row.body or b"", lost)
            fresh = {"person": person, "key": key, "request": request, "kept_s": to_seconds(now)}
            connection.execute(sa.insert(ANSWERS).values(fresh))
        return None

    def keep(self, person: str, key: str, status: int, body: bytes) -> None:
        """Store an answer."""
        self._change(person, key, {"status": status, "body": body})

    def touch(self, person: str, key: str, now: datetime) -> None:
        """Say that a request is still running."""
        self._change(person, key, {"kept_s": to_seconds(now)})

    def fail(self, person: str, key: str) -> None:
        """End a failed request: it may be repeated, unless it wrote events; then it is lost."""
        mine = (ANSWERS.c.person == person, ANSWERS.c.key == key)
        with self._database.adding() as connection:
            connection.execute(sa.delete(ANSWERS).where(*mine, ANSWERS.c.body.is_(None)))
            silent = sa.update(ANSWERS).where(*mine)
            connection.execute(silent.values(kept_s=ANSWERS.c.kept_s - ALIVE_S - 1))

    def _change(self, person: str, key: str, values: dict[str, object]) -> None:
        with self._database.adding() as connection:
            where = (ANSWERS.c.person == person, ANSWERS.c.key == key)
            connection.execute(sa.update(ANSWERS).where(*where).values(values))


@contextmanager
def noting_events(person: str, key: str) -> Iterator[None]:
    """Keep the numbers of the events that a request writes, each in the transaction of its act."""
    mine = (ANSWERS.c.person == person, ANSWERS.c.key == key)

    def note(connection: sa.Connection, events: Sequence[Event]) -> None:
        before = _decode_numbers(
            connection.execute(sa.select(ANSWERS.c.body).where(*mine)).scalar()
        )
        body = msgspec.json.encode([*before, *(event.seq for event in events)])
        connection.execute(sa.update(ANSWERS).where(*mine).values(body=body))

    token = NOTE_EVENTS.set(note)
    try:
        yield
    finally:
        NOTE_EVENTS.reset(token)


def _decode_numbers(body: bytes | None) -> tuple[int, ...]:
    return msgspec.json.decode(body, type=tuple[int, ...]) if body else ()


class SqlPageRuns:
    """The runs that were started from the page."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: PageRun) -> None:
        """Store a new run."""
        row = {
            "id": run.id,
            "pack": run.pack,
            "person": run.person,
            "state": run.state,
            "choices": "" if run.limit is None else str(run.limit),
            "result_id": None,
            "detail": run.detail,
            "started_s": to_seconds(run.started_at),
            "alive_s": to_seconds(run.alive_at),
            "finished_s": None,
        }
        with self._database.adding() as connection:
            connection.execute(sa.insert(PAGE_RUNS).values(row))

    def change(self, identity: str, state: RunState, now: datetime, **more: str | None) -> None:
        """Change the state of a run; it has ended unless it is queued or running."""
        values: dict[str, object] = {"state": state, "alive_s": to_seconds(now), **more}
        values["detail"] = (more.get("detail") or "")[:MAX_DETAIL]
        values["finished_s"] = None if state in ("queued", "running") else to_seconds(now)
        with self._database.adding() as connection:
            where = PAGE_RUNS.c.id == identity
            connection.execute(sa.update(PAGE_RUNS).where(where).values(values))

    def interrupt(self, before: datetime, now: datetime) -> int:
        """Mark runs whose server has stopped reporting."""
        values = {
            "state": "interrupted",
            "finished_s": to_seconds(now),
            "detail": "the server stopped while it ran",
        }
        going = PAGE_RUNS.c.state.in_(("queued", "running"))
        with self._database.adding() as connection:
            silent = sa.update(PAGE_RUNS).where(going, PAGE_RUNS.c.alive_s < to_seconds(before))
            return connection.execute(silent.values(values)).rowcount

    def get(self, identity: str) -> PageRun | None:
        """One run."""
        with self._database.reading() as connection:
            query = sa.select(PAGE_RUNS).where(PAGE_RUNS.c.id == identity)
            row = connection.execute(query).first()
        return None if row is None else _run(row)

    def latest(self, limit: int) -> tuple[PageRun, ...]:
        """The newest runs first."""
        order = (PAGE_RUNS.c.started_s.desc(), PAGE_RUNS.c.id)
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(PAGE_RUNS).order_by(*order).limit(limit)).all()
        return tuple(_run(row) for row in rows)


def _run(row: sa.Row[tuple[object, ...]]) -> PageRun:
    found = row._mapping  # noqa: SLF001 - the documented way to columns by name
    return PageRun(
        id=found["id"],
        pack=found["pack"],
        person=found["person"],
        state=found["state"],
        limit=int(found["choices"]) if found["choices"] else None,
        result_id=found["result_id"],
        detail=found["detail"],
        started_at=from_seconds(found["started_s"]),
        alive_at=from_seconds(found["alive_s"]),
        finished_at=None if found["finished_s"] is None else from_seconds(found["finished_s"]),
    )
