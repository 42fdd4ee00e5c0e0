from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.memory import MemoryEvents, MemoryStore
from tests.ledger.samples import draft, result

from gatemark.core.errors import ConflictError
from gatemark.ledger.event import Event
from gatemark.ledger.port import Store
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.testing.stores import check_store

RESULTS = (result(), result("another", verdict="fail"))


def test_the_store_in_memory_keeps_every_promise() -> None:
    store = MemoryStore()
    check_store(lambda: store, RESULTS)


def test_the_store_in_sqlite_keeps_every_promise(tmp_path: Path) -> None:
    check_store(lambda: open_sqlite(tmp_path / "s.sqlite3"), RESULTS)


def test_the_store_in_postgresql_keeps_every_promise(postgres_url: str) -> None:
    check_store(lambda: open_postgres(postgres_url), RESULTS)


def test_postgresql_with_blobs_in_a_folder_keeps_every_promise(
    postgres_url: str, tmp_path: Path
) -> None:
    check_store(lambda: open_postgres(f"{postgres_url}&blobs={tmp_path}/blobs"), RESULTS)
    assert list(tmp_path.rglob("*"))


class Forgetful(MemoryEvents):
    def append(self, drafts: object, expected: object = None) -> tuple[Event, ...]:
        made = super().append(drafts, expected)  # type: ignore[arg-type]
        if len(self._rows) == 5:
            del self._rows[1]
        return made


class Careless(MemoryEvents):
    def append(self, drafts: object, expected: object = None) -> tuple[Event, ...]:
        return super().append(drafts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Forgetful, Careless])
def test_a_store_that_breaks_a_promise_is_found(kind: type[MemoryEvents]) -> None:
    store: Store = MemoryStore()
    store.events.__class__ = kind  # type: ignore[assignment]
    with pytest.raises(AssertionError):
        check_store(lambda: store, RESULTS)


def test_of_two_writers_one_wins_and_the_other_retries(tmp_path: Path) -> None:
    one, other = (open_sqlite(tmp_path / "s.sqlite3").events for _ in range(2))
    head = one.head()
    one.append((draft(1),), expected=head)
    with pytest.raises(ConflictError, match="the ledger moved on: expected event 0 to be the last"):
        other.append((draft(2),), expected=head)
    other.append((draft(2),), expected=other.head())
    assert [event.seq for event, _ in one.events()] == [1, 2]
