"""Stores and exports with one damaged value, and the commands that read them."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.mutation import HOSTILE, RAW, damaged_bytes, damaged_value, spelled
from tests.ledger.listed import write_everything

from gatemark.ledger.export import export_ledger
from gatemark.ledger.keys import make_key
from gatemark.workspace import Workspace

DATABASE = "gatemark.sqlite3"
LOOKS: tuple[tuple[str, ...], ...] = (
    ("ledger", "verify"),
    ("ledger", "log", "--limit", "1000"),
    ("list",),
    ("store", "info"),
    ("asset", "list"),
    ("asset", "show", "triage"),
    ("asset", "history", "triage"),
    ("why", "triage@1.0.0"),
    ("route", "triage"),
    ("review", "export", "letters"),
    ("review", "status", "letters"),
    ("review", "close", "letters"),
    ("review", "labels", "status", "tone"),
    ("review", "labels", "export", "tone"),
    ("drift", "status"),
    ("drift", "metrics"),
    ("canary", "show", "triage"),
)
ODD: tuple[Any, ...] = (
    *(one for one in HOSTILE if not isinstance(one, list | dict) and not str(one).startswith(RAW)),
    *(b"", b"\xff\xfe", b"{}", b"[", b'{"at":"2026-02-30T00:00:00Z"}', "2026-02-30T00:00:00+00:00"),
    *("9999-99-99", "{}", "[]", "null", '{"plan":1}', 2**62, -(2**62)),
)


class Kept(NamedTuple):
    """A good store, an export of it, and its tables with their columns."""

    store: Path
    export: Path
    columns: list[tuple[str, str]]


def keep(folder: Path) -> Kept:
    """Write a store with something of everything, and export it."""
    store = folder / "good"
    write_everything(str(store), folder)
    workspace = Workspace(store=str(store), actor="ada")
    make_key(workspace, folder / "key")
    export_ledger(workspace, str(folder / "exported"), str(folder / "key"))
    workspace.store.close()
    with closing(sqlite3.connect(store / DATABASE)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        columns = [
            (str(table), str(column[1]))
            for (table,) in tables.fetchall()
            for column in connection.execute(f'PRAGMA table_info("{table}")')
            if connection.execute(f'SELECT 1 FROM "{table}"').fetchone()
        ]
    return Kept(store, folder / "exported", columns)


def damaged_store(kept: Kept, place: Path, draw: random.Random) -> str:
    """Copy the store with one odd value, or with odd bytes; say what was done."""
    shutil.copytree(kept.store, place)
    file = place / DATABASE
    if draw.random() < 0.1:
        data = bytearray(file.read_bytes())
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        file.write_bytes(data if draw.random() < 0.7 else data[: draw.randrange(len(data))])
        return "bytes of the file"
    table, column = draw.choice(kept.columns)
    odd = draw.choice(ODD)
    if isinstance(odd, int) and not -(2**63) <= odd < 2**63:
        odd = str(odd)
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in found.fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        (value,) = draw.choice(connection.execute(f'SELECT "{column}" FROM "{table}"').fetchall())
        if isinstance(value, bytes | str) and draw.random() < 0.4:
            odd = _odd_document(value, draw, odd)
        try:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" IS ?', (odd, value)
            )
            connection.commit()
        except sqlite3.IntegrityError:
            connection.rollback()
    return f"{table}.{column} = {odd!r:.80}"


def _odd_document(value: bytes | str, draw: random.Random, odd: Any) -> Any:
    """A document with one odd value, where the value is one."""
    try:
        document = json.loads(value)
    except ValueError:
        return odd
    data = spelled(damaged_value(document, draw))
    return data if isinstance(value, bytes) else data.decode()


def damaged_export(kept: Kept, place: Path, draw: random.Random) -> str:
    """Copy the export with one damaged file; say which."""
    shutil.copytree(kept.export, place)
    path = draw.choice(sorted(one for one in place.rglob("*") if one.is_file()))
    data = path.read_bytes()
    lines = data.splitlines()
    at = draw.randrange(len(lines)) if lines else 0
    try:
        document = json.loads(lines[at] if path.suffix == ".jsonl" else data)
        odd = spelled(damaged_value(document, draw))
        data = b"\n".join([*lines[:at], odd, *lines[at + 1 :], b""]) if len(lines) > 1 else odd
    except (ValueError, IndexError):
        data = damaged_bytes(data, draw)
    path.write_bytes(data)
    return str(path.relative_to(place))


def looks(
    kept: Kept, folder: Path, seed: int, numbers: Iterable[int]
) -> Iterator[tuple[str, list[str]]]:
    """Yield what was damaged and a command to run on it, for each number."""
    for number in numbers:
        draw = random.Random(f"{seed} {number}")
        place = folder / "damaged"
        if draw.random() < 0.2:
            yield damaged_export(kept, place, draw), ["ledger", "verify", str(place)]
        else:
            what = damaged_store(kept, place, draw)
            yield what, [*draw.choice(LOOKS), "--store", str(place)]
        shutil.rmtree(place)
