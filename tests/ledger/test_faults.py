"""A disk that is full, and statements that fail in the middle: all or nothing, and then go on."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from gatemark.core.errors import BadInputError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.sql import SqlStore

from .samples import draft, result

FULL = "database or disk is full"


class Fault:
    """Fails the n-th statement, or the commit, of the transactions that follow."""

    def __init__(self, store: SqlStore, at: int) -> None:
        self._engine = store.database._reader
        self._left = at
        self.struck = False

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.struck = True
            raise sqlite3.OperationalError(FULL)

    def statement(self, *_: object) -> None:
        self._count()

    def commit(self, _: sa.Connection) -> None:
        try:
            self._count()
        except sqlite3.OperationalError as error:
            raise sa.exc.OperationalError("COMMIT", None, error) from error

    @contextmanager
    def armed(self) -> Iterator[None]:
        sa.event.listen(self._engine, "before_cursor_execute", self.statement)
        sa.event.listen(self._engine, "commit", self.commit)
        try:
            yield
        finally:
            sa.event.remove(self._engine, "before_cursor_execute", self.statement)
            sa.event.remove(self._engine, "commit", self.commit)


def append(store: Store) -> None:
    store.events.append([draft(20 + n) for n in range(3)])


def seal(store: Store) -> None:
    store.results.append(result("sealed under stress"))


def erase(store: Store) -> None:
    (row,) = store.events.rows_at([2]).values()
    said = {"seq": 2, "payload_digest": "sha256:" + row.payload_digest.hex(), "reason": "x"}
    store.events.erase_payload(2, draft(20, "payload_erased", **said))


def fails(fault: Fault, store: Store, act: Callable[[Store], None]) -> BadInputError | None:
    """How an act ends under a fault; nothing but our own error may come out."""
    try:
        with fault.armed():
            act(store)
    except BadInputError as error:
        return error
    return None


@pytest.mark.parametrize("act", [append, seal, erase])
def test_a_write_that_fails_anywhere_leaves_nothing_behind(
    tmp_path: Path, act: Callable[[Store], None]
) -> None:
    for at in range(1, 40):
        store = open_sqlite(tmp_path / f"{at}.sqlite3")
        store.events.append([draft(n) for n in range(1, 6)])
        head = store.events.head()
        fault = Fault(store, at)
        if fails(fault, store, act) is None:
            break
        assert fault.struck
        assert store.events.head() == head
        assert verify_ledger(store).issues == ()
        act(store)
        assert verify_ledger(store).issues == ()
        store.close()
    assert at > 5
    assert not fault.struck


def test_a_database_that_may_not_grow_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    open_sqlite(path).close()
    small = open_sqlite(path)
    engine = small.database._reader
    sa.event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA max_page_count = 160"))
    engine.dispose()

    def fill() -> None:
        while True:
            small.events.append([draft(small.events.head().seq, filler="x" * 3000)])

    with pytest.raises(BadInputError, match=f"cannot be written: {FULL}"):
        fill()
    done = small.events.head().seq
    assert done > 3
    small.close()
    store = open_sqlite(path)
    assert store.events.head().seq == done
    store.events.append([draft(done)])
    assert verify_ledger(store).issues == ()


def limited(path: Path, byte_limit: int) -> int:
    """Append in a child process whose files may not grow beyond a limit; gives what it reached."""
    pid = os.fork()
    if pid == 0:
        reached = 0
        try:
            # Past the limit the system refuses to write, as a full disk does.
            resource.setrlimit(resource.RLIMIT_FSIZE, (byte_limit, byte_limit))
            store = open_sqlite(path)
            while reached < 200:
                store.events.append([draft(reached, filler="x" * 2000)])
                reached += 1
        except BadInputError:
            pass
        finally:
            os._exit(reached)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_full_disk_keeps_what_was_reported_and_lets_it_go_on(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    open_sqlite(path).close()
    total = 0
    for extra in range(0, 60_000, 5_021):
        wal = path.with_name(path.name + "-wal")
        used = wal.stat().st_size if wal.exists() else 0
        total += limited(path, max(path.stat().st_size, used) + extra)
        store = open_sqlite(path)
        assert store.events.head().seq >= total
        assert verify_ledger(store).issues == ()
        total = store.events.head().seq
        store.close()
    assert total > 10


def test_a_blob_that_does_not_fit_leaves_no_trace(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "s.sqlite3")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            store.blobs.put(b"x" * 5000)
        except BadInputError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
