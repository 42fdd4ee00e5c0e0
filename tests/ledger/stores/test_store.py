from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import CacheStats
from tests.ledger.samples import result

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, IntegrityError, UsageError
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.folder import FolderBlobs, open_sqlite, sqlite_place
from gatemark.ledger.stores.postgres import open_postgres, postgres_place
from gatemark.ledger.stores.sql import SqlResults
from gatemark.ledger.stores.tables import RESULTS


@pytest.fixture
def store(tmp_path: Path) -> SqlResults:
    return open_sqlite(tmp_path / "deep" / "store.sqlite3").results


def test_a_result_comes_back_as_it_was_sealed(store: SqlResults) -> None:
    sealed = result()
    assert store.append(sealed) == 1
    assert store.get(sealed.id) == sealed
    assert store.get(sealed.id[7:15]) == sealed


def test_the_same_result_is_kept_once(store: SqlResults) -> None:
    assert [store.append(result()), store.append(result("b")), store.append(result())] == [1, 2, 1]
    assert [line.title for line in store.lines(10)] == ["b", "exam"]
    assert [line.title for line in store.lines(1)] == ["b"]


@pytest.mark.parametrize("reference", ["", "xyz", "abc", "../../etc", "%", "sha256:", "0" * 65])
def test_what_is_no_id_is_refused(store: SqlResults, reference: str) -> None:
    with pytest.raises(UsageError):
        store.get(reference)


def test_an_unknown_id_is_refused(store: SqlResults) -> None:
    with pytest.raises(UsageError, match="holds no result"):
        store.get("0" * 64)


def test_a_result_with_a_false_id_is_never_kept(store: SqlResults) -> None:
    forged = msgspec.structs.replace(result(), title="forged")
    with pytest.raises(IntegrityError):
        store.append(forged)


@pytest.mark.parametrize("act", ["UPDATE results SET title = 'x'", "DELETE FROM results"])
def test_the_database_itself_refuses_changes(tmp_path: Path, act: str) -> None:
    path = tmp_path / "s.sqlite3"
    open_sqlite(path).results.append(result())
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(act)
    connection.close()


def test_replacing_a_row_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    sealed = result()
    open_sqlite(path).results.append(sealed)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA recursive_triggers=ON")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(
            "INSERT OR REPLACE INTO results (seq, id, title, verdict, finished_at, document) "
            "VALUES (1, ?, 'x', 'pass', 'x', x'00')",
            (sealed.id,),
        )
    connection.close()


def test_a_flipped_byte_in_any_part_of_the_document_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    sealed = result()
    open_sqlite(path).results.append(sealed)
    connection = sqlite3.connect(path)
    (document,) = connection.execute("SELECT document FROM results").fetchone()
    connection.execute("DROP TRIGGER results_no_update")
    for place in range(0, len(document), 7):
        flipped = bytearray(document)
        flipped[place] ^= 1
        connection.execute("UPDATE results SET document = ?", (bytes(flipped),))
        connection.commit()
        with pytest.raises(IntegrityError):
            open_sqlite(path).results.get(sealed.id)
    connection.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    path.write_bytes(b"not a database, but long enough to look at" * 10)
    with pytest.raises(BadInputError, match="not a usable store"):
        open_sqlite(path)


def test_blobs_are_kept_once_under_their_digest_and_checked_on_the_way_out(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    name = blobs.put(b"hello")
    assert blobs.put(b"hello") == name
    assert blobs.get(name) == b"hello"
    (stored,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    stored.write_bytes(b"hullo")
    with pytest.raises(IntegrityError, match="were changed"):
        blobs.get(name)
    stored.unlink()
    with pytest.raises(IntegrityError, match="missing"):
        blobs.get(name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "sha256:../x", "sha256:" + "A" * 64, ""])
def test_blob_names_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a digest"):
        FolderBlobs(tmp_path).get(name)


def test_a_file_that_changed_after_it_was_judged_is_not_kept(tmp_path: Path) -> None:
    source = tmp_path / "evidence"
    source.write_bytes(b"after")
    blobs = FolderBlobs(tmp_path / "blobs")
    with pytest.raises(IntegrityError, match="changed after it was judged"):
        blobs.put_file(source, digest("before"))
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]


def _first_titles(database: SqlDatabase, title: str) -> tuple[list[str], CacheStats]:
    """The titles that are ``title`` in a database, and whether the question was compiled before."""
    with database.reading() as connection:
        found = connection.execute(sa.select(RESULTS.c.title).where(RESULTS.c.title == title))
        return list(found.scalars()), found.context.cache_hit


def test_sql_that_one_store_compiled_serves_the_next(tmp_path: Path) -> None:
    databases = []
    for name in ("a", "b"):
        open_sqlite(tmp_path / f"{name}.sqlite3").results.append(result(name))
        databases.append(sqlite_place(tmp_path / f"{name}.sqlite3").database)
    assert _first_titles(databases[0], "a")[0] == ["a"]
    assert _first_titles(databases[1], "b") == (["b"], CacheStats.CACHE_HIT)
    assert _first_titles(databases[1], "a") == ([], CacheStats.CACHE_HIT)


def test_sql_is_compiled_once_for_a_server(postgres_url: str) -> None:
    store = open_postgres(postgres_url)
    store.results.append(result("a"))
    first, second = (postgres_place(postgres_url).database for _ in range(2))
    assert _first_titles(first, "b")[0] == []
    assert _first_titles(second, "a") == (["a"], CacheStats.CACHE_HIT)
    for opened in (store, first, second):
        opened.close()
