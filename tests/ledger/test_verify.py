from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gatemark.core.errors import GatemarkError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import CLOCK_SET_BACK
from gatemark.ledger.keys import make_key, sign_checkpoint
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.ledger.verify import FurtherChecks, VerifyRequest, verify_store
from gatemark.workspace import Workspace

from .governed import write_history
from .memory import MemoryStore
from .samples import MOMENT, draft
from .tamper import Tamperer

EDITS = 60
ODD_VALUES: list[Any] = [None, 7, 1.5, "text", "", b"", b"bytes", b"\x00" * 32, "2026-05-04", -1]


def test_an_empty_ledger_verifies() -> None:
    report = verify_ledger(MemoryStore())
    assert (report.verdict, report.events, report.origin) == ("pass", 0, None)


def test_the_same_history_verifies_in_every_store(tmp_path: Path, postgres_url: str) -> None:
    stores: list[Store] = [
        MemoryStore(),
        open_sqlite(tmp_path / "s.sqlite3"),
        open_postgres(postgres_url),
    ]
    counts = set()
    for store in stores:
        write_history(store)
        report = verify_ledger(store)
        assert report.issues == ()
        counts.add((report.events, report.results, report.blobs, report.decisions))
        store.close()
    assert len(counts) == 1


def test_time_may_fall_only_where_the_ledger_says_so() -> None:
    store = MemoryStore()
    store.events.append([draft(3600)])
    back = EventDraft(CLOCK_SET_BACK, MOMENT, "root", None, {"reason": "host b was ahead"})
    store.events.append([back, draft(1)])
    report = verify_ledger(store)
    assert report.issues == ()
    assert [event.at for event, _ in store.events.events()][1:] == [MOMENT, draft(1).at]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("history")
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT, actor="root")
    make_key(workspace, place / "k")
    write_history(workspace.store)
    sign_checkpoint(workspace, str(place / "k"))
    workspace.store.close()
    connection = sqlite3.connect(place / "store" / "gatemark.sqlite3")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return place / "store"


@pytest.mark.slow
def test_any_edit_of_any_cell_is_found_whatever_is_put_there(history: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    tables = ("events", "payloads", "nodes", "checkpoints", "results")
    found = 0
    for number in range(EDITS):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(history / "gatemark.sqlite3", folder)
        shutil.copytree(history / "blobs", folder / "blobs")
        who = Tamperer(folder)
        table = rng.choice(tables)
        rows = who.connection.execute(f"SELECT rowid, * FROM {table}").fetchall()
        names = [column[1] for column in who.connection.execute(f"PRAGMA table_info({table})")]
        row, column = rng.choice(rows), rng.randrange(len(names))
        value = rng.choice([*ODD_VALUES, _bent(rng, row[column + 1])])
        # Numbers, titles and list columns of results are shown, and nothing rests on them.
        if table == "results" and names[column] not in ("id", "document"):
            continue
        try:
            who.run(f"UPDATE {table} SET {names[column]} = ? WHERE rowid = ?", value, row[0])
        except sqlite3.Error:
            continue
        finally:
            who.connection.commit()
            who.connection.close()
        if value == row[column + 1]:
            continue
        store = open_sqlite(folder / "gatemark.sqlite3")
        report = verify_ledger(store)
        store.close()
        assert report.verdict == "fail", (table, names[column], row[0], value)
        found += 1
    assert found > EDITS / 2


def _bent(rng: random.Random, value: Any) -> Any:
    """The same value with one bit or character changed."""
    if isinstance(value, bytes) and value:
        place = rng.randrange(len(value))
        return value[:place] + bytes([value[place] ^ 1 << rng.randrange(8)]) + value[place + 1 :]
    if isinstance(value, str) and value:
        place = rng.randrange(len(value))
        return value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]
    return value + 1 if isinstance(value, int) else value


def test_a_damaged_file_never_passes_for_another_history(history: Path, tmp_path: Path) -> None:
    """Bytes flipped anywhere in the file: found, or without effect on what is read."""
    rng = random.Random(11)
    original = (history / "gatemark.sqlite3").read_bytes()
    true = told(history / "gatemark.sqlite3")
    found = 0
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copytree(history / "blobs", folder / "blobs")
        damaged = bytearray(original)
        for _ in range(16):
            damaged[rng.randrange(100, len(damaged))] ^= 1 << rng.randrange(8)
        path = folder / "gatemark.sqlite3"
        path.write_bytes(damaged)
        try:
            store = open_sqlite(path)
            report = verify_ledger(store)
        except GatemarkError:
            found += 1
            continue
        if report.verdict == "fail":
            found += 1
        else:
            assert told(path) == true
        store.close()
    assert found > 10


def told(path: Path) -> list[Any]:
    store = open_sqlite(path)
    try:
        return [*store.events.events(), *store.results.documents()]
    finally:
        store.close()


class Differing(NamedTuple):
    differences: tuple[str, ...] = ("the score is another",)
    unjudged: tuple[str, ...] = ()


def test_a_result_without_an_event_that_differs_is_told_without_a_number(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "ledger.sqlite3")
    further = FurtherChecks(lambda _: (), lambda _: (), (), lambda *_: [("sha256:1", Differing())])
    report = verify_store(store, VerifyRequest(rescore=True), further)
    store.close()
    told = [issue.message for issue in report.issues if issue.check == "rescore"]
    assert told == ["result sha256:1: the score is another"]
