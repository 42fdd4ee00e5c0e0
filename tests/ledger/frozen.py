"""Stores that released builds wrote, as they lie under ``tests/fixtures/stores``."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import zstandard

ROOT = Path(__file__).parents[1] / "fixtures" / "stores"


class Frozen(NamedTuple):
    """One store of one build, and what its manifest says about it."""

    build: str
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        """How tests call it, such as ``0.2.0-full-sqlite``."""
        return f"{self.build}-{self.facts['story']}-{self.facts['form']}"

    @property
    def folder(self) -> Path:
        """Where its archive lies."""
        return ROOT / self.build

    def public_keys(self) -> list[Path]:
        """The public keys of its ledger, the oldest first."""
        return [self.folder / name for name in self.facts["public_keys"]]


class Place(NamedTuple):
    """An unpacked store: the folder with its packs and keys, and its address."""

    frozen: Frozen
    folder: Path
    store: str

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest says about it."""
        return self.frozen.facts


def manifests() -> list[dict[str, Any]]:
    """Every manifest, with the folder it lies in."""
    paths = sorted(ROOT.glob("*/manifest.json"))
    return [{"folder": path.parent, **json.loads(path.read_bytes())} for path in paths]


def stores(*forms: str, stories: tuple[str, ...] = ()) -> list[Frozen]:
    """The stores of these forms, of every build."""
    return [
        Frozen(manifest["folder"].name, facts)
        for manifest in manifests()
        for facts in manifest["stores"]
        if facts["form"] in forms and facts["story"] in (stories or (facts["story"],))
    ]


def members(frozen: Frozen) -> dict[str, bytes]:
    """The files of an archive by name."""
    data = (frozen.folder / frozen.facts["archive"]).read_bytes()
    plain = zstandard.ZstdDecompressor().decompress(data)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        found = {one.name: tar.extractfile(one) for one in tar.getmembers()}
    return {name: file.read() for name, file in found.items() if file is not None}


def unpack(frozen: Frozen, folder: Path) -> None:
    """Write the files of an archive into a folder."""
    for name, data in members(frozen).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if path.suffix == ".key":
            # Commands refuse a private key that others can read.
            path.chmod(0o600)


class Server:
    """A PostgreSQL server into which dumps are restored, one database each.

    A dump is run once; further copies are made from that database, to which nobody connects.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._numbers = count(1)
        self._templates: dict[str, str] = {}

    def copy(self, name: str, dump: Path) -> str:
        """The address of a fresh copy of a store."""
        if name not in self._templates:
            template = self._create()
            with psycopg.connect(self._of(template), autocommit=True) as connection:
                # As bytes, which the driver takes for SQL without a look.
                connection.execute(dump.read_bytes())
            self._templates[name] = template
        return self._of(self._create(self._templates[name]))

    def _create(self, template: str = "template1") -> str:
        name = f"frozen_{next(self._numbers)}"
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return name

    def _of(self, database: str) -> str:
        return self._address.replace("/postgres?", f"/{database}?")


class Warehouse:
    """Unpacks every archive once and hands out copies."""

    def __init__(self, folder: Path, server: Callable[[], Server]) -> None:
        self._folder = folder
        self._server = server
        self._read: dict[str, Place] = {}

    def to_read(self, frozen: Frozen) -> Place:
        """A store that tests only look at; they share it."""
        if frozen.name not in self._read:
            folder = self._folder / frozen.name
            unpack(frozen, folder)
            self._read[frozen.name] = self._place(frozen, folder)
        return self._read[frozen.name]

    def to_change(self, frozen: Frozen, folder: Path) -> Place:
        """A store of one's own; taken from the archive again, as reading might change it."""
        unpack(frozen, folder)
        return self._place(frozen, folder)

    def _place(self, frozen: Frozen, folder: Path) -> Place:
        if frozen.facts["form"] == "postgres":
            address = self._server().copy(frozen.name, folder / "dump.sql")
            return Place(frozen, folder, address)
        return Place(frozen, folder, str(folder / "store"))


def content_of(place: Place) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a store by table, to see whether something was changed."""
    if place.facts["form"] == "postgres":
        with psycopg.connect(place.store) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            ).fetchall()
            return {
                name: sorted(connection.execute(f'SELECT * FROM "{name}"'.encode()), key=repr)
                for (name,) in tables
            }
    with closing(sqlite3.connect(Path(place.store) / "gatemark.sqlite3")) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr)
            for (name,) in found
        }


def flip_in_database(place: Place, table: str, column: str, key: str) -> None:
    """Change one byte in the middle of a column, in a row from the middle of a table.

    The guards of the database are taken away first, as an administrator could.
    """
    with editing(place) as run:
        rows = run(f"SELECT {key}, {column} FROM {table} ORDER BY {key}")
        number, data = rows[len(rows) // 2]
        run(f"UPDATE {table} SET {column} = %s WHERE {key} = {number}", flipped(bytes(data)))


@contextmanager
def editing(place: Place) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """Runs SQL in a store whose guards are gone; values are written as ``%s``."""
    if place.facts["form"] == "postgres":
        with psycopg.connect(place.store) as connection:
            connection.execute("SET session_replication_role = replica")

            def in_postgres(statement: str, *values: Any) -> list[tuple[Any, ...]]:
                found = connection.execute(statement.encode(), values or None)
                return found.fetchall() if found.description else []

            yield in_postgres
        return
    with closing(sqlite3.connect(Path(place.store) / "gatemark.sqlite3")) as lite:
        triggers = lite.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            lite.execute(f"DROP TRIGGER {name}")
        yield lambda statement, *values: lite.execute(
            statement.replace("%s", "?"), values
        ).fetchall()
        lite.commit()


def flipped(data: bytes) -> bytes:
    """The same bytes with one bit changed in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def flip_in_file(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = flipped(path.read_bytes())
    path.unlink()
    path.write_bytes(data)
