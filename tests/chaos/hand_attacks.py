"""What somebody with the folder or the database can do by hand, and whether it is found.

An attack is found when ``ledger verify`` says so; it does not matter when every look at the store
still shows what it showed before. One that is neither is a hole.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from tests.chaos.guarded import Ended, guarded
from tests.chaos.stores import DATABASE, LOOKS, ODD, Kept, _odd_document
from tests.ledger.listed import PostgresPlace

from gatemark.cli.main import main as gatemark

VERIFY = ("ledger", "verify")
DETECTED = 4
UNCHAINED = frozenset({"drift_ticks"})
"""When a watcher was last alive: written over at each tick, shown, and no part of a decision."""
MOMENT = "2026-11-01T00:00:00Z"
MOMENTS = {"drift status": "--now", "drift metrics": "--now", "asset history": "--at"}
"""Looks that print the time, or depend on it: every one of them is taken at the same moment."""
SHOWN = [
    (*one, option, MOMENT) if (option := MOMENTS.get(" ".join(one[:2]))) else one
    for one in LOOKS
    if one not in (VERIFY, ("store", "info"))
]


class Outcome(NamedTuple):
    """How an attack ended."""

    name: str
    ended: Ended
    is_found: bool
    changed: str
    """The first look that shows something else now; empty if none does."""

    @property
    def is_hole(self) -> bool:
        return not self.is_found and bool(self.changed)


def shown(address: str) -> dict[str, str]:
    """What every look at a store prints."""
    said = {" ".join(one): guarded(partial(_look, one, address)).said for one in SHOWN}
    return {look: text.replace(address, "STORE") for look, text in said.items()}


def _look(words: tuple[str, ...], address: str) -> int:
    return int(gatemark([*words, "--store", address]))


def outcome(name: str, address: str, good: dict[str, str], *since: str) -> Outcome:
    """Verify an attacked store, and look at it when that finds nothing."""
    ended = guarded(lambda: int(gatemark([*VERIFY, "--store", address, *since])))
    if ended.code != 0:
        return Outcome(name, ended, ended.code in (2, DETECTED), "")
    now = shown(address)
    changed = next((look for look in good if good[look] != now[look]), "")
    return Outcome(name, ended, is_found=False, changed=changed)


def _flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def flipped_blob(place: Path, draw: random.Random) -> None:
    _flip(draw.choice(_blobs(place)), draw)


def swapped_blobs(place: Path, draw: random.Random) -> None:
    one, other = draw.sample(_blobs(place), 2)
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def flipped_database(place: Path, draw: random.Random) -> None:
    _flip(place / DATABASE, draw)


def removed_row(place: Path, draw: random.Random) -> None:
    """Without its guards, as the owner of the file can."""
    with closing(sqlite3.connect(place / DATABASE)) as connection:
        found = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
        for kind, name in found:
            if kind == "trigger":
                connection.execute(f'DROP TRIGGER "{name}"')
        tables = [name for kind, name in found if kind == "table" and "sqlite" not in name]
        tables = [name for name in tables if name not in UNCHAINED]
        full = [t for t in tables if connection.execute(f'SELECT 1 FROM "{t}"').fetchone()]
        table = draw.choice(full)
        # By all of its values: some tables have no rowid.
        rows = connection.execute(f'SELECT * FROM "{table}"')
        held = " AND ".join(f'"{column}" IS ?' for column, *_ in rows.description)
        connection.execute(f'DELETE FROM "{table}" WHERE {held}', draw.choice(rows.fetchall()))
        connection.commit()


def _blobs(place: Path) -> list[Path]:
    return sorted(path for path in (place / "blobs").rglob("*") if path.is_file())


IN_PLACE: tuple[Callable[[Path, random.Random], None], ...] = (
    flipped_blob,
    swapped_blobs,
    flipped_database,
    removed_row,
)


def on_files(kept: Kept, folder: Path, seed: int, tries: int) -> Iterator[Outcome]:
    """Attack copies of a store in a folder, one way after the other."""
    good = shown(str(kept.store))
    place = folder / "attacked"
    for number in range(tries):
        attack = IN_PLACE[number % len(IN_PLACE)]
        shutil.copytree(kept.store, place)
        attack(place, random.Random(f"{seed} {number}"))
        yield outcome(f"{attack.__name__} {number}", str(place), good)
        shutil.rmtree(place)


def _go_on(place: Path) -> int:
    """Write a few events that the attacker would like to be gone."""
    codes = [
        gatemark(["role", "grant", name, "author", "--actor", "root", "--store", str(place)])
        for name in ("cy", "di", "ed")
    ]
    return int(max(codes))


def rolled_back(kept: Kept, folder: Path) -> Outcome:
    """Put an older database in place of one that a newer checkpoint was taken from."""
    place, checkpoint = folder / "attacked", folder / "newer.txt"
    shutil.copytree(kept.store, place)
    assert guarded(lambda: _go_on(place)).code == 0
    words = ["ledger", "checkpoint", "--signing-key", str(folder / "key"), "-o", str(checkpoint)]
    signed = guarded(lambda: int(gatemark([*words, "--store", str(place)])))
    assert signed.code == 0, signed.said
    for ending in ("", "-wal", "-shm"):
        (place / f"{DATABASE}{ending}").unlink(missing_ok=True)
    shutil.copy(kept.store / DATABASE, place / DATABASE)
    found = outcome("rolled back", str(place), {}, "--since", str(checkpoint))
    shutil.rmtree(place)
    return found if found.is_found else found._replace(changed="the newest events")


def cut_journal(kept: Kept, folder: Path, draw: random.Random) -> Outcome:
    """Cut the write-ahead log of a store whose writer was shot, after a checkpoint was taken."""
    place, checkpoint = folder / "attacked", folder / "newer.txt"
    shutil.copytree(kept.store, place)
    journal = place / f"{DATABASE}-wal"
    words = ["ledger", "checkpoint", "--signing-key", str(folder / "key"), "-o", str(checkpoint)]

    def write_and_die() -> int:
        holder = sqlite3.connect(place / DATABASE)  # keeps the journal from being folded in
        holder.execute("SELECT 1 FROM sqlite_master").fetchone()
        _go_on(place)
        code = int(gatemark([*words, "--store", str(place)]))
        os._exit(code or 9)

    guarded(write_and_die)
    os.truncate(journal, draw.randrange(journal.stat().st_size))
    (place / f"{DATABASE}-shm").unlink(missing_ok=True)
    # The checkpoint covers every event: whoever verifies since it has lost none.
    found = outcome("cut journal", str(place), {}, "--since", str(checkpoint))
    shutil.rmtree(place)
    return found


def on_rows(address: str, seed: int, tries: int) -> Iterator[Outcome]:
    """Change or remove one value of a row as an administrator of the database, and put it back."""
    place = PostgresPlace(address)
    good = shown(address)
    columns = [
        (str(table), str(column))
        for table, column in place.rows(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name NOT LIKE 'kept_%'"
        )
        if table not in UNCHAINED and place.rows(f"SELECT 1 FROM {table} LIMIT 1")
    ]
    for number in range(tries):
        draw = random.Random(f"{seed} {number}")
        table, column = draw.choice(columns)
        what = _damage(place, table, column, draw)
        if what is not None:
            yield outcome(what, address, good)
            place.restore()
    place.close()


def _damage(place: PostgresPlace, table: str, column: str, draw: random.Random) -> str | None:
    """Change a value, or remove its row; None where the database itself refuses."""
    rows = place.rows(f"SELECT ctid::text, {column} FROM {table}")
    where, value = draw.choice(rows)
    if isinstance(value, memoryview):
        value = bytes(value)
    try:
        if draw.random() < 0.2:
            place.edit(f"DELETE FROM {table} WHERE ctid = ?::tid", where)
            return f"a row of {table} removed"
        odd: Any = draw.choice(ODD)
        if isinstance(value, bytes | str) and draw.random() < 0.5:
            odd = _odd_document(value, draw, odd)
        place.edit(f"UPDATE {table} SET {column} = ? WHERE ctid = ?::tid", odd, where)
    except (psycopg.Error, ValueError, OverflowError):
        return None
    return f"{table}.{column} = {odd!r:.60}"
