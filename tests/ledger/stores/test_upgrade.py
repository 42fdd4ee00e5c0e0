"""Stores of earlier layouts are upgraded without losing anything, and only when asked."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from tests.ledger.samples import result

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import IntegrityError
from gatemark.core.result import Result
from gatemark.ledger.checks.verify import verify_ledger
from gatemark.ledger.stores.database import NEWEST
from gatemark.ledger.stores.folder import open_sqlite, sqlite_place
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.ledger.stores.sql import upgrade_database

# Just what the first release wrote, word for word.
FIRST_LAYOUT = """
CREATE TABLE results (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id VARCHAR(71) NOT NULL,
    title TEXT NOT NULL,
    verdict VARCHAR(16) NOT NULL,
    finished_at VARCHAR(40) NOT NULL,
    document BLOB NOT NULL,
    UNIQUE (id)
);
CREATE TRIGGER results_no_update BEFORE UPDATE ON results
    BEGIN SELECT RAISE(ABORT, 'results are append-only'); END;
CREATE TRIGGER results_no_delete BEFORE DELETE ON results
    BEGIN SELECT RAISE(ABORT, 'results are append-only'); END;
"""


def old_store(path: Path, results: list[Result]) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(FIRST_LAYOUT)
    for one in results:
        row = (one.id, one.title, one.verdict, one.finished_at.isoformat(), canonical_bytes(one))
        connection.execute(
            "INSERT INTO results (id, title, verdict, finished_at, document) "
            "VALUES (?, ?, ?, ?, ?)",
            row,
        )
    connection.commit()
    connection.close()


def upgraded(path: Path) -> str | None:
    database = sqlite_place(path).database
    try:
        return upgrade_database(database)
    finally:
        database.close()


def test_a_store_of_the_first_layout_keeps_its_results_and_gets_a_ledger(tmp_path: Path) -> None:
    results = [result("a"), result("b", verdict="fail"), result("c")]
    old_store(tmp_path / "s.sqlite3", results)
    assert upgraded(tmp_path / "s.sqlite3") == "0001"
    store = open_sqlite(tmp_path / "s.sqlite3")
    assert [line.title for line in store.results.lines(9)] == ["c", "b", "a"]
    assert [store.results.get(one.id) for one in results] == results
    told = [payload["result_id"] for _, payload in store.events.events() if payload]
    assert told == [one.id for one in results]
    assert store.results.append(results[1]) == 2
    assert store.events.head().seq == 3
    assert store.events.missing_guards() == []
    report = verify_ledger(store)
    assert (report.verdict, report.events, report.results) == ("pass", 3, 3)


def test_an_empty_store_of_the_first_layout_is_upgraded(tmp_path: Path) -> None:
    old_store(tmp_path / "s.sqlite3", [])
    assert upgraded(tmp_path / "s.sqlite3") == "0001"
    assert open_sqlite(tmp_path / "s.sqlite3").events.head().seq == 0


def test_a_store_with_an_edited_result_is_not_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    old_store(path, [result("a")])
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER results_no_update")
    connection.execute("UPDATE results SET document = replace(document, 'tester', 'forger')")
    connection.commit()
    with pytest.raises(IntegrityError, match="not canonical JSON"):
        upgraded(path)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert {name for (name,) in tables} == {"results", "sqlite_sequence"}
    connection.close()


def test_many_may_open_a_new_store_at_once(tmp_path: Path, postgres_url: str) -> None:
    def sqlite(_: int) -> int:
        return open_sqlite(tmp_path / "s.sqlite3").events.head().seq

    def postgres(_: int) -> int:
        store = open_postgres(postgres_url)
        seq = store.events.head().seq
        store.close()
        return seq

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(sqlite, range(4))) == [0] * 4
        assert list(threads.map(postgres, range(4))) == [0] * 4
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            (NEWEST,)
        ]


def test_the_tables_of_the_code_are_the_tables_of_the_migrations(
    tmp_path: Path, postgres_url: str
) -> None:
    import sqlalchemy as sa

    from gatemark.ledger.stores.tables import METADATA

    for store in (open_sqlite(tmp_path / "s.sqlite3"), open_postgres(postgres_url)):
        with store.database.reading() as connection:
            inspector = sa.inspect(connection)
            for table in METADATA.tables.values():
                columns = [column["name"] for column in inspector.get_columns(table.name)]
                assert columns == [column.name for column in table.columns]
        store.close()
