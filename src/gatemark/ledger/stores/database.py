"""A database as the stores see it: transactions for reading, and for writers in turn."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import BadInputError, ConflictError
from gatemark.ledger.stores.upgrade import layout_of

WRITES: Final = "gatemark_writes"
"""The execution option that marks a transaction which will write."""


class SqlDatabase:
    """An engine, how to call its place in messages, how writers take turns, how to forget.

    ``forget`` is the statement that makes the database let go of the bytes of removed rows.
    ``looking`` is another engine for short looks, where a transaction for each costs too much.
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
        """The kind of database."""
        return self._reader.dialect.name

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for looking."""
        with self._told("is not a usable store"), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def streaming(self) -> Iterator[sa.Connection]:
        """A transaction for looking at an answer that is fetched piece by piece."""
        with self._told("is not a usable store"), self._streamer.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A transaction for looking that sees one state, whatever others write meanwhile."""
        engine = self._streamer
        if self.dialect == "postgresql":
            # SQLite does this by itself; PostgreSQL shows each question what is committed by then.
            engine = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with self._told("is not a usable store"), engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that no other writer is inside at the same time."""
        with self._told("cannot be written"), self._writer.begin() as connection:
            self._take_turn(connection)
            yield connection

    @contextmanager
    def adding(self) -> Iterator[sa.Connection]:
        """A transaction that writes, but nothing whose order matters."""
        with self._told("cannot be written"), self._writer.begin() as connection:
            yield connection

    def forget(self) -> None:
        """Let removed rows leave the files too, as far as this database can be made to."""
        with self._told("cannot be written"):
            engine = self._reader.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql(self._forget)

    def close(self) -> None:
        """Let go of every connection."""
        _dispose(self._streamer, self._reader)

    def layout(self) -> str | None:
        """The layout of the store; None when nobody has made a store here yet."""
        with self.reading() as connection:
            return layout_of(connection)

    @contextmanager
    def _told(self, trouble: str) -> Iterator[None]:
        """Database errors in the words of this project, without statements or addresses."""
        try:
            yield
        except sa.exc.IntegrityError as error:
            raise ConflictError(
                f"{self.place}: another writer was faster ({_first_line(error)}); "
                "nothing was written"
            ) from error
        except sa.exc.DBAPIError as error:
            reason = _first_line(error)
            if "database is locked" in reason:
                raise ConflictError(f"{self.place}: is busy; nothing was written") from error
            raise BadInputError(f"{self.place}: {trouble}: {reason}") from error
        except UnicodeDecodeError as error:
            # The driver meets damaged bytes where it tells of damage.
            raise BadInputError(f"{self.place}: {trouble}: it holds broken text") from error


def _dispose(*engines: sa.Engine) -> None:
    for engine in engines:
        engine.dispose()


def _first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().split("\n", maxsplit=1)[0]
