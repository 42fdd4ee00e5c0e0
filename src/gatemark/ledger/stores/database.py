"""A database: read transactions, exclusive write transactions, and the layout of its tables.

A layout is the set of tables that one migration leaves behind. Opening a store never changes its
layout: ``USABLE`` lists the layouts that this build reads and writes directly, and a user upgrades
an older store with ``gatemark store upgrade``.
"""

from __future__ import annotations

import pkgutil
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import sqlalchemy as sa

import gatemark.ledger.migrations
import gatemark.ledger.migrations.versions
from gatemark import __version__
from gatemark.core.errors import (
    BadInputError,
    ConflictError,
    NewerFormatError,
    OutageError,
    RefusedError,
    UsageError,
)

WRITES: Final = "gatemark_writes"
"""The execution option of transactions that will write."""


class _Compiled(sa.util.LRUCache[tuple[object, ...], object]):
    """Statements as SQL, for every engine of one address.

    An engine looks for statements that its own dialect object compiled, so that each opening of a
    store would compile all of them again.
    """

    def get(self, key: tuple[object, ...], default: object = None) -> object:
        return super().get(_add_server_version(key), default)

    def __setitem__(self, key: tuple[object, ...], value: object) -> None:
        super().__setitem__(_add_server_version(key), value)


def _add_server_version(key: tuple[object, ...]) -> tuple[object, ...]:
    """Return the key of a statement with the version of the server in place of the dialect."""
    return (getattr(key[0], "server_version_info", None), *key[1:])


@lru_cache(maxsize=8)
def _get_compiled(_url: sa.URL) -> _Compiled:
    return _Compiled(capacity=500)


class SqlDatabase:
    """An SQLAlchemy engine with the kinds of transactions that stores use.

    ``place`` names the database in messages. ``take_turn`` makes a writer wait for others.
    ``forget`` is the statement that removes deleted rows from the database files. ``looking`` is a
    second engine for short reads, where a transaction for each is too slow.
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
        for each in (engine, looking or engine):
            each.update_execution_options(compiled_cache=_get_compiled(engine.url))
        self._streamer = engine
        self._reader = looking or engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._take_turn = take_turn
        # A command ends without closing its stores; connections must not outlive this object.
        weakref.finalize(self, _dispose, engine, self._reader)

    @property
    def dialect(self) -> str:
        return self._reader.dialect.name

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._convert_errors("is not a usable store"), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def streaming(self) -> Iterator[sa.Connection]:
        with self._convert_errors("is not a usable store"), self._streamer.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Open a read transaction that sees one state, even while others write."""
        engine = self._streamer
        if self.dialect == "postgresql":
            # SQLite does this by default; PostgreSQL shows each query what is committed by then.
            engine = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with self._convert_errors("is not a usable store"), engine.begin() as connection:
            yield connection

    @contextmanager
    def frozen(self) -> Iterator[SqlDatabase]:
        """Yield the database as it is now: every read sees the same state, and writes are refused.

        For checks that read many tables while others write. Until the end, SQLite keeps its
        write-ahead log, and PostgreSQL the rows that are deleted meanwhile.
        """
        with self.snapshot() as connection:
            # The state is fixed by the first statement, not by BEGIN.
            connection.execute(sa.select(1))
            layout_of(connection)
            yield _FrozenDatabase(connection, self.place)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self._convert_errors("cannot be written"), self._writer.begin() as connection:
            self._take_turn(connection)
            yield connection

    @contextmanager
    def adding(self) -> Iterator[sa.Connection]:
        with self._convert_errors("cannot be written"), self._writer.begin() as connection:
            yield connection

    def pages(self, query: sa.Select[Any], by: sa.Column[Any], size: int) -> Iterator[sa.Row[Any]]:
        """Yield the rows of a query in the order of a unique column, in short transactions.

        A slow reader holds no transaction open.
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
        with self._convert_errors("cannot be written"):
            engine = self._reader.execution_options(isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql(self._forget)

    def close(self) -> None:
        _dispose(self._streamer, self._reader)

    def layout(self) -> str | None:
        """Return the layout of the store; None if there is no store yet."""
        with self.reading() as connection:
            return layout_of(connection)

    @contextmanager
    def _convert_errors(self, problem: str) -> Iterator[None]:
        """Raise database errors as Gatemark errors, without statements or addresses."""
        try:
            yield
        except sa.exc.IntegrityError as error:
            raise ConflictError(
                f"{self.place}: conflict with another writer ({_cut_first_line(error)}); "
                "nothing was written"
            ) from error
        except sa.exc.DBAPIError as error:
            reason = _cut_first_line(error)
            if "database is locked" in reason:
                raise ConflictError(
                    f"{self.place}: the database is locked by another process; nothing was written"
                ) from error
            kind = BadInputError
            if _is_outage(error):
                # A connection that met a full disk may hold a lock; later calls get a new one.
                kind = OutageError
                self.close()
            advice = "; make room on the disk and try again" if "is full" in reason else ""
            raise kind(f"{self.place}: {problem}: {reason}{advice}") from error
        except UnicodeDecodeError as error:
            # The driver fails to decode damaged text before it can report the damage.
            raise BadInputError(f"{self.place}: {problem}: it holds invalid text") from error


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
        with self._convert_errors("is not a usable store"):
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


_FULL: Final = ("database or disk is full", "disk I/O error", "unable to open database file")


def _is_outage(error: sa.exc.DBAPIError) -> bool:
    """Whether the database is down, full or disconnected, rather than the query being wrong."""
    if error.connection_invalidated:
        return True
    state = str(getattr(error.orig, "sqlstate", "") or "")
    if state:
        # Connection exceptions, insufficient resources, operator intervention, system errors.
        return state[:2] in {"08", "53", "57", "58"}
    if not isinstance(error, sa.exc.OperationalError):
        return False
    is_server = "psycopg" in type(error.orig).__module__
    return is_server or any(words in str(error.orig) for words in _FULL)


def _cut_first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().split("\n", maxsplit=1)[0]


LayoutState = Literal["newest", "usable", "too_old", "too_new", "unknown"]

_FOLDER: Final = Path(gatemark.ledger.migrations.__file__).parent
NEW_SQLITE_STORE: Final = _FOLDER / "new_sqlite_store.sql"
NEW_POSTGRES_STORE: Final = _FOLDER / "new_postgres_store.sql"
"""Statements that create an empty store of the newest layout, by ``tools/record_layout.py``."""
SCHEMA_MARK: Final = "{schema}"
_MODULE: Final = re.compile(r"v(\d{4})_(\w+)")
_NUMBER: Final = re.compile(r"[0-9]{4}")


def _list_steps() -> dict[str, str]:
    """Return each known layout with the name of its migration: ``v0006_providers`` is 0006."""
    modules = pkgutil.iter_modules(gatemark.ledger.migrations.versions.__path__)
    found = (_MODULE.fullmatch(module.name) for module in modules)
    return dict(sorted((match[1], match[2]) for match in found if match))


STEPS: Final = _list_steps()
LAYOUTS: Final = tuple(STEPS)
NEWEST: Final = LAYOUTS[-1]
OLDEST_USABLE: Final = "0001"
USABLE: Final = LAYOUTS[LAYOUTS.index(OLDEST_USABLE) :]


def layout_of(connection: sa.Connection) -> str | None:
    """Return the layout of a store, or None if the database is empty."""
    tables = sa.inspect(connection)
    if tables.has_table("alembic_version"):
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        return None if found is None else str(found)
    return None


def existing_layout(connection: sa.Connection, place: str) -> str:
    """Return the layout of a store; raise UsageError if there is none."""
    found = layout_of(connection)
    if found is None:
        raise UsageError(f"there is no store at {place}")
    return found


def state_of(found: str) -> LayoutState:
    """Return whether this build can use a layout."""
    if found == NEWEST:
        return "newest"
    if found in USABLE:
        return "usable"
    if found in LAYOUTS:
        return "too_old"
    # Other programs keep their layouts in a table of the same name.
    is_later = _NUMBER.fullmatch(found) is not None and int(found) > int(NEWEST)
    return "too_new" if is_later else "unknown"


def require_known(place: str, found: str) -> None:
    """Refuse a layout that no migration of this build creates."""
    state = state_of(found)
    if state == "too_new":
        raise NewerFormatError(
            f"{place}: has layout {found}, which this build ({__version__}, layouts up to "
            f"{NEWEST}) does not know: install a newer Gatemark"
        )
    if state == "unknown":
        raise BadInputError(
            f"{place}: has layout {found!r}, which is not a layout of Gatemark: "
            "does the database belong to another program?"
        )


def require_usable(place: str, found: str) -> None:
    """Refuse a layout that this build cannot read and write directly."""
    require_known(place, found)
    if found not in USABLE:
        raise BadInputError(
            f"{place}: has layout {found}, this build needs {OLDEST_USABLE} or newer: "
            'run "gatemark store upgrade" (it makes a backup first)'
        )


def steps_after(found: str) -> tuple[str, ...]:
    """Return the migrations that a store of a known layout lacks, such as ``0006 providers``."""
    missing = LAYOUTS[LAYOUTS.index(found) + 1 :]
    return tuple(f"{layout} {STEPS[layout].replace('_', ' ')}" for layout in missing)


def migrate(connection: sa.Connection, found: str | None, to: str = NEWEST) -> None:
    """Migrate a store in the caller's transaction; ``found`` is None for a new store."""
    if found is None and to == NEWEST:
        # Most stores are new: recorded statements give the same tables as the migrations, faster.
        if connection.dialect.name == "sqlite":
            for statement in NEW_SQLITE_STORE.read_text(encoding="utf-8").split(";\n\n"):
                connection.exec_driver_sql(statement)
        else:
            schema = str(connection.execute(sa.text("SELECT current_schema()")).scalar_one())
            named = connection.dialect.identifier_preparer.quote(schema)
            made = NEW_POSTGRES_STORE.read_text(encoding="utf-8").replace(SCHEMA_MARK, named)
            # All in one message; percent signs would be taken for parameters.
            connection.exec_driver_sql(made.replace("%", "%%"))
        found = layout_of(connection)
    if found != to:
        run_migrations(connection, to)


def run_migrations(connection: sa.Connection, to: str = NEWEST) -> None:
    """Run the missing migrations one by one in the caller's transaction."""
    # Alembic is slow to import, and most stores already have the layout they need.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
