"""The database itself refuses what the ledger never does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.ledger.samples import draft, result

from gatemark.core.canonical import digest_bytes
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.ledger.stores.sql import missing_guards
from gatemark.ledger.stores.sql_blobs import SqlBlobs

COLUMN = {
    "events": "actor",
    "nodes": "hash",
    "checkpoints": "note",
    "results": "title",
    "payload_erasures": "tombstone",
    "blob_erasures": "tombstone",
    "payloads": "data",
    "blobs": "byte_count",
    "blob_pieces": "data",
}


def fill(store: Store) -> None:
    """At least one row in every table."""
    store.events.append([draft(n) for n in range(1, 6)])
    store.results.append(result())
    store.events.add_checkpoint(5, "a note")
    (row,) = store.events.rows_at([3]).values()
    said = {"seq": 3, "payload_digest": "sha256:" + row.payload_digest.hex(), "reason": "x"}
    store.events.erase_payload(3, draft(9, "payload_erased", **said))
    gone = store.blobs.put(b"gone")
    store.blobs.put(b"kept")
    store.blobs.remove(gone, 7)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A store in which every table has rows; nothing that is refused changes it."""
    path = tmp_path_factory.mktemp("guards") / "s.sqlite3"
    store = open_sqlite(path)
    store.blobs = SqlBlobs(store.database)
    fill(store)
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA recursive_triggers=ON")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def postgres(new_postgres_url: Callable[[], str]) -> Iterator[psycopg.Connection]:
    url = new_postgres_url()
    store = open_postgres(url)
    fill(store)
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("table", COLUMN)
def test_sqlite_refuses_to_change_or_remove_any_row(sqlite: sqlite3.Connection, table: str) -> None:
    assert sqlite.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|tombstone"):
        sqlite.execute(f"DELETE FROM {table}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sqlite.execute(f"UPDATE {table} SET {COLUMN[table]} = {COLUMN[table]}")


def test_sqlite_refuses_to_replace_a_row(sqlite: sqlite3.Connection) -> None:
    for table in ("events", "nodes", "payloads"):
        with pytest.raises(sqlite3.IntegrityError):
            sqlite.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} LIMIT 1")


EVENT = "INSERT INTO events VALUES ({seq}, {prev}, 'k', 't', 'a', NULL, {zero}, {zero})"


@pytest.mark.parametrize("seq", [0, 1, 3, 7, 9, -1])
def test_sqlite_refuses_an_event_that_is_not_the_next(sqlite: sqlite3.Connection, seq: int) -> None:
    prev = "(SELECT digest FROM events ORDER BY seq DESC LIMIT 1)"
    with pytest.raises(sqlite3.IntegrityError, match="follow each other without a gap"):
        sqlite.execute(EVENT.format(seq=seq, prev=prev, zero="zeroblob(32)"))


def test_sqlite_refuses_an_event_that_names_another_predecessor(
    sqlite: sqlite3.Connection,
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="follow each other without a gap"):
        sqlite.execute(EVENT.format(seq=8, prev="zeroblob(32)", zero="zeroblob(32)"))
    prev = "(SELECT digest FROM events ORDER BY seq DESC LIMIT 1)"
    sqlite.execute(EVENT.format(seq=8, prev=prev, zero="zeroblob(32)"))
    sqlite.rollback()


@pytest.mark.parametrize("table", COLUMN)
def test_postgresql_refuses_to_change_or_remove_any_row(
    postgres: psycopg.Connection, table: str
) -> None:
    found = postgres.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert found is not None
    assert found[0] > 0
    for act in (
        f"DELETE FROM {table}",
        f"UPDATE {table} SET {COLUMN[table]} = {COLUMN[table]}",
        f"TRUNCATE {table}",
    ):
        with pytest.raises(psycopg.Error, match=r"append-only|tombstone"):
            postgres.execute(act)


def test_postgresql_refuses_an_event_that_is_not_the_next(postgres: psycopg.Connection) -> None:
    prev = "(SELECT digest FROM events ORDER BY seq DESC LIMIT 1)"
    zero = "decode(repeat('00', 32), 'hex')"
    for seq, before in ((9, prev), (3, prev), (8, zero)):
        with pytest.raises(psycopg.Error, match=r"follow each other|duplicate key"):
            postgres.execute(EVENT.format(seq=seq, prev=before, zero=zero))


def test_postgresql_takes_the_right_to_change_even_from_the_owner(postgres_server: str) -> None:
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("CREATE ROLE app LOGIN")
        admin.execute("CREATE SCHEMA owned AUTHORIZATION app")
    url = postgres_server.replace("postgres:@", "app@") + "&options=-csearch_path%3Downed"
    store = open_postgres(url)
    fill(store)
    with psycopg.connect(url, autocommit=True) as connection:
        # Without the triggers, the missing right alone holds.
        connection.execute("ALTER TABLE events DISABLE TRIGGER ALL")
        for act in ("DELETE FROM events", "UPDATE events SET actor = ''", "TRUNCATE events"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(act)
    with store.database.reading() as connection:
        assert "events_no_delete" in missing_guards(connection)
    store.events.append((draft(20),))
    store.close()


def test_a_payload_goes_only_after_its_tombstone(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "s.sqlite3")
    store.events.append([draft(1), draft(2)])
    connection = sqlite3.connect(tmp_path / "s.sqlite3")
    with pytest.raises(sqlite3.IntegrityError, match="only after their tombstone"):
        connection.execute("DELETE FROM payloads WHERE seq = 1")
    connection.execute("INSERT INTO payload_erasures VALUES (1, 3)")
    connection.execute("DELETE FROM payloads WHERE seq = 1")
    with pytest.raises(sqlite3.IntegrityError, match="only after their tombstone"):
        connection.execute("DELETE FROM payloads")
    connection.close()
    store.close()


def test_no_guard_is_missing_from_a_fresh_store(tmp_path: Path, postgres_url: str) -> None:
    for store in (open_sqlite(tmp_path / "s.sqlite3"), open_postgres(postgres_url)):
        assert store.events.missing_guards() == []
        store.close()


def test_blobs_in_the_database_are_checked_on_the_way_out(postgres_url: str) -> None:
    store = open_postgres(postgres_url)
    name = store.blobs.put(b"hello")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE blob_pieces DISABLE TRIGGER ALL")
        connection.execute("UPDATE blob_pieces SET data = 'hullo'::bytea")
    assert name == digest_bytes(b"hello")
    with pytest.raises(Exception, match="its bytes were changed"):
        store.blobs.get(name)
    store.close()
