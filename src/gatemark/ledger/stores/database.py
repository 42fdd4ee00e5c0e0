"""A database: transactions for reading, and for writers one at a time."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import sqlalchemy as sa

from gatemark.core.errors import BadInputError, ConflictError, RefusedError
from gatemark.ledger.stores.upgrade import layout_of

WRITES: Final = "gatemark_writes"
"""The execution option that marks a transaction which will write."""


class SqlDatabase:
    """An SQLAlchemy engine with the kinds of transactions that stores use.

    ``place`` names the database in messages. ``take_turn`` makes a writer wait for others.
    ``forget`` is the statement that removes deleted rows from the database files. ``looking`` is
    another engine for short reads, where a transaction for each costs too much.
    """

    def __init__(
        self,
        engine: sa.Engine,
        place: str,
        *,
        take_turn: Callable[[sa.Connection], object],
        forget: str,
        looking: sa.Engine | None = None,
    ) -> None:
        self.place = place
        self._forget = forget
        self._streamer = engine
        self._reader = looking or engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._take_turn = take_turn
        # A command ends without closing what it opened; connections must not outlive their owner.
        weakref.finalize(self, _dispose, engine, self._reader)

    @property
    def dialect(self) -> str:
        """Name of the SQL dialect."""
        return self._reader.dialect.name

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a connection for reading."""
        with self._told("is not a usable store"), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def streaming(self) -> Iterator[sa.Connection]:
        """Open a read transaction for results that are fetched in pieces."""
        with self._told("is not a usable store"), self._streamer.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Open a read transaction that sees one state, whatever others write meanwhile."""
        engine = self._streamer
        if self.dialect == "postgresql":
            # SQLite does this by itself; PostgreSQL shows each question what is committed by then.
            engine = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with self._told("is not a usable store"), engine.begin() as connection:
            yield connection

    @contextmanager
    def frozen(self) -> Iterator[SqlDatabase]:
        """Yield the database as it is now: every read sees the same state, and writes are refused.

        For checks that read many tables beside writers. SQLite keeps its write-ahead log until the
        end, PostgreSQL the rows that are deleted meanwhile.
        """
        with self.snapshot() as connection:
            # The state is that of the first statement, not of BEGIN.
            connection.execute(sa.select(1))
            layout_of(connection)
            yield _FrozenDatabase(connection, self.place)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a write transaction that excludes other writers."""
        with self._told("cannot be written"), self._writer.begin() as connection:
            self._take_turn(connection)
            yield connection

    @contextmanager
    def adding(self) -> Iterator[sa.Connection]:
        """Open a write transaction for rows whose order does not matter."""
        with self._told("cannot be written"), self._writer.begin() as connection:
            yield connection

    def pages(self, query: sa.Select[Any], by: sa.Column[Any], size: int) -> Iterator[sa.Row[Any]]:
        """Yield the rows of a query in the order of a unique column, in short transactions.

        Whoever reads slowly holds no transaction open.
        """
        ordered = query.order_by(by).limit(size)
        page: Sequence[sa.Row[Any]] = ()
        while True:
            later = ordered if not page else ordered.where(by > getattr(page[-1], by.name))
            with self.reading() as connection:
                page = connection.execute(later).all()
            yield from page
            if len(page) < size:
                return

    def forget(self) -> None:
        """Remove deleted rows from the database files, as far as the database allows."""
        with self._told("cannot be written"):
            engine = self._reader.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql(self._forget)

    def close(self) -> None:
        """Close every connection."""
        _dispose(self._streamer, self._reader)

    def layout(self) -> str | None:
        """Return the layout of the store; None if there is no store yet."""
        with self.reading() as connection:
            return layout_of(connection)

    @contextmanager
    def _told(self, trouble: str) -> Iterator[None]:
        """Raise database errors as our own, without statements or addresses."""
        try:
            yield
        except sa.exc.IntegrityError as error:
            raise ConflictError(
                f"{self.place}: conflict with another writer ({_first_line(error)}); "
                "nothing was written"
            ) from error
        except sa.exc.DBAPIError as error:
            reason = _first_line(error)
            if "database is locked" in reason:
                raise ConflictError(
                    f"{self.place}: the database is locked by another process; nothing was written"
                ) from error
            raise BadInputError(f"{self.place}: {trouble}: {reason}") from error
        except UnicodeDecodeError as error:
            # The driver meets damaged bytes where it tells of damage.
            raise BadInputError(f"{self.place}: {trouble}: it holds invalid text") from error


class _FrozenDatabase(SqlDatabase):
    """One state of a database, read through one connection."""

    def __init__(self, connection: sa.Connection, place: str) -> None:
        self.place = place
        self._connection = connection

    @property
    def dialect(self) -> str:
        return self._connection.dialect.name

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._told("is not a usable store"):
            yield self._connection

    streaming = snapshot = reading

    def writing(self) -> NoReturn:
        raise RefusedError(f"{self.place}: is being checked and cannot be written by the check")

    adding = writing

    def forget(self) -> None:
        pass

    def close(self) -> None:
        pass


def _dispose(*engines: sa.Engine) -> None:
    for engine in engines:
        engine.dispose()


def _first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().split("\n", maxsplit=1)[0]
