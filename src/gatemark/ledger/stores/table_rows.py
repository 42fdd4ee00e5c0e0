"""Convert rows of any table to bytes and back, the same for every database.

The tables and columns of a layout are read from the migrations, so none are named here. Values keep
their types: text, bytes, integers, floats, booleans and null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedColumn

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.stores.database import migrate
from gatemark.ledger.stores.tables import BLOB_PIECES, BLOBS

PART_BYTES: Final = 4 << 20
MAX_PART_BYTES: Final = 128 << 20
_FETCHED_ROWS: Final = 500
# Blobs are backed up as files, and the layout is recorded separately.
_LEFT_OUT: Final = frozenset({"alembic_version", "sqlite_sequence", BLOBS.name, BLOB_PIECES.name})


class TableShape(msgspec.Struct, frozen=True):
    """A table of a layout and its columns in order."""

    name: str
    columns: tuple[str, ...]


@cache
def shapes_of(layout: str) -> tuple[TableShape, ...]:
    """Return the tables of a layout, without those of blobs."""
    engine = sa.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            migrate(connection, None, to=layout)
            inspector = sa.inspect(connection)
            return tuple(
                TableShape(name, tuple(column["name"] for column in inspector.get_columns(name)))
                for name in sorted(set(inspector.get_table_names()) - _LEFT_OUT)
            )
    finally:
        engine.dispose()


def reflect_tables(
    connection: sa.Connection, shapes: Sequence[TableShape], place: str
) -> dict[str, sa.Table]:
    """Return the tables of the database; refuse columns that differ from the layout."""
    wanted = [shape.name for shape in shapes]
    inspector = sa.inspect(connection)
    missing = set(wanted) - set(inspector.get_table_names())
    if missing:
        raise BadInputError(f"{place}: tables are missing: {', '.join(sorted(missing))}")
    # All at once: asking PostgreSQL for each table separately takes about five times as long.
    # Columns and keys are all that is needed; MetaData.reflect would ask for indexes and more.
    columns = inspector.get_multi_columns(filter_names=wanted)
    keys = inspector.get_multi_pk_constraint(filter_names=wanted)
    tables = {}
    for name, expected in ((shape.name, set(shape.columns)) for shape in shapes):
        found = {column["name"]: column for column in columns[None, name]}
        if found.keys() != expected:
            names = ", ".join(sorted(found.keys() ^ expected))
            raise BadInputError(f"{place}: the table {name} has other columns: {names}")
        key = sa.PrimaryKeyConstraint(*keys[None, name]["constrained_columns"])
        tables[name] = sa.Table(name, sa.MetaData(), *map(_make_column, found.values()), key)
    return tables


def _make_column(found: ReflectedColumn) -> sa.Column[object]:
    default = found["default"]
    return sa.Column(
        found["name"], found["type"], server_default=None if default is None else sa.text(default)
    )


def read_parts(
    connection: sa.Connection, table: sa.Table, shape: TableShape, place: str
) -> Iterator[tuple[int, bytes]]:
    """Yield all rows in key order, in parts of limited size, each with its row count."""
    kinds = _list_kinds(table, shape)
    columns = [table.columns[name] for name in shape.columns]
    query = sa.select(*columns).order_by(*table.primary_key.columns)
    encoder = msgspec.msgpack.Encoder()
    rows: list[bytes] = []
    size = 0
    for found in connection.execute(query.execution_options(yield_per=_FETCHED_ROWS)):
        row = tuple(found)
        _check(row, kinds, shape, place)
        encoded = encoder.encode(row)
        if len(encoded) > MAX_PART_BYTES - 5:
            raise BadInputError(
                f"{place}: a row of {shape.name} has {len(encoded)} bytes, "
                f"at most {MAX_PART_BYTES} can be backed up"
            )
        if rows and size + len(encoded) > PART_BYTES:
            yield _encode_part(rows)
            rows, size = [], 0
        rows.append(encoded)
        size += len(encoded)
    if rows:
        yield _encode_part(rows)


def insert_part(
    connection: sa.Connection, table: sa.Table, shape: TableShape, data: bytes, place: str
) -> int:
    """Insert the rows of a part and return how many there are."""
    try:
        rows = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IntegrityError(f"{place}: rows of {shape.name} cannot be read: {error}") from error
    if not isinstance(rows, list):
        raise IntegrityError(f"{place}: rows of {shape.name} cannot be read")
    kinds = _list_kinds(table, shape)
    for row in rows:
        _check(row, kinds, shape, place)
    if rows:
        named = [dict(zip(shape.columns, row, strict=True)) for row in rows]
        try:
            connection.execute(sa.insert(table), named)
        except sa.exc.IntegrityError as error:
            raise IntegrityError(
                f"{place}: rows of {shape.name} conflict with each other"
            ) from error
    return len(rows)


def continue_numbers(connection: sa.Connection, table: sa.Table) -> None:
    """Make PostgreSQL's row numbers continue after those that were inserted."""
    if connection.dialect.name != "postgresql":
        # SQLite continues after the highest number by itself.
        return
    for column in table.columns:
        if column.server_default is None or not isinstance(column.type, sa.Integer):
            continue
        highest = connection.execute(sa.select(sa.func.max(column))).scalar()
        if highest is not None:
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(sa.select(sa.func.setval(sequence, highest)))


def _encode_part(rows: Sequence[bytes]) -> tuple[int, bytes]:
    """Return a MessagePack array of rows that are already encoded."""
    return len(rows), b"\xdd" + len(rows).to_bytes(4, "big") + b"".join(rows)


def _list_kinds(table: sa.Table, shape: TableShape) -> tuple[type, ...]:
    return tuple(table.columns[name].type.python_type for name in shape.columns)


def _check(row: Sequence[object], kinds: Sequence[type], shape: TableShape, place: str) -> None:
    """Refuse a value of the wrong type; SQLite itself would accept any."""
    if not isinstance(row, (list, tuple)) or len(row) != len(kinds):
        raise IntegrityError(f"{place}: a row of {shape.name} has the wrong number of columns")
    for value, kind, name in zip(row, kinds, shape.columns, strict=True):
        if value is not None and type(value) is not kind:
            seen = type(value).__name__
            raise IntegrityError(
                f"{place}: {shape.name}.{name} holds {seen}, expected {kind.__name__}"
            )
