"""Sealed results in SQLite: rows that can be added and read, not changed or removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes
from gatemark.core.errors import BadInputError, IntegrityError, UsageError
from gatemark.core.result import Result, verify_seal
from gatemark.ledger.port import ResultLine

SHORTEST_PREFIX = 8
_PREFIX = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}\Z")

METADATA = sa.MetaData()
RESULTS = sa.Table(
    "results",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(71), nullable=False, unique=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("finished_at", sa.String(40), nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)
_GUARDS = tuple(
    f"CREATE TRIGGER IF NOT EXISTS results_no_{act} BEFORE {act.upper()} ON results "
    "BEGIN SELECT RAISE(ABORT, 'results are append-only'); END"
    for act in ("update", "delete")
)


class SqliteResults:
    """A result store in one SQLite file."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from error
        self._engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))
        sa.event.listen(self._engine, "connect", _prepare_connection)
        try:
            with self._engine.begin() as connection:
                METADATA.create_all(connection)
                for guard in _GUARDS:
                    connection.execute(sa.text(guard))
        except sa.exc.DatabaseError as error:
            raise BadInputError(f"{path}: is not a usable store: {error.orig}") from error

    def append(self, result: Result) -> int:
        verify_seal(result)
        row = {
            "id": result.id,
            "title": result.title,
            "verdict": result.verdict,
            "finished_at": result.finished_at.isoformat(),
            "document": canonical_bytes(result),
        }
        with self._engine.begin() as connection:
            known = connection.execute(
                sa.select(RESULTS.c.seq).where(RESULTS.c.id == result.id)
            ).scalar()
            if known is not None:
                return int(known)
            added = sa.insert(RESULTS).values(row).returning(RESULTS.c.seq)
            return int(connection.execute(added).scalar_one())

    def get(self, reference: str) -> Result:
        wanted = reference.removeprefix(DIGEST_PREFIX)
        if not _PREFIX.match(wanted):
            raise UsageError(
                f"{reference!r} is no result id (sha256:… or {SHORTEST_PREFIX} or more hex digits)"
            )
        matching = RESULTS.c.id.startswith(DIGEST_PREFIX + wanted, autoescape=True)
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.select(RESULTS.c.id, RESULTS.c.document).where(matching).limit(2)
            ).all()
        if not rows:
            raise UsageError(f"the store holds no result {reference}")
        if len(rows) > 1:
            raise UsageError(f"{reference} fits more than one result; give more digits")
        return _verified(rows[0].id, rows[0].document)

    def lines(self, limit: int) -> Sequence[ResultLine]:
        columns = (RESULTS.c.seq, RESULTS.c.id, RESULTS.c.title, RESULTS.c.verdict)
        query = sa.select(*columns, RESULTS.c.finished_at).order_by(RESULTS.c.seq.desc())
        with self._engine.connect() as connection:
            rows = connection.execute(query.limit(limit)).all()
        return [
            ResultLine(
                seq=row.seq,
                id=row.id,
                title=row.title,
                verdict=row.verdict,
                finished_at=datetime.fromisoformat(row.finished_at),
            )
            for row in rows
        ]

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()


def _prepare_connection(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA recursive_triggers=ON")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()


def _verified(identity: str, document: bytes) -> Result:
    try:
        result = msgspec.json.decode(document, type=Result)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"result {identity} cannot be read: {error}") from error
    if result.id != identity:
        raise IntegrityError(f"result {identity} is stored under another id than its own")
    verify_seal(result)
    return result
