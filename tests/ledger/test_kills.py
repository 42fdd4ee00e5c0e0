"""Real kills: a writing process is shot in the middle of its work, again and again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.kills import remains, shoot

from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres

KILLS = 220
POSTGRES_KILLS = 25


@pytest.mark.slow
def test_a_shot_writer_loses_nothing_it_reported_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite3"
    told = shoot(str(path), KILLS)
    assert sum(line.startswith("event") for line in told) > KILLS / 2
    assert any(line.startswith("result") for line in told)
    assert remains(open_sqlite(path), told) == ((), (), ())


@pytest.mark.slow
def test_a_shot_writer_loses_nothing_it_reported_on_postgresql(postgres_url: str) -> None:
    told = shoot(postgres_url, POSTGRES_KILLS)
    assert told
    store = open_postgres(postgres_url)
    assert remains(store, told) == ((), (), ())
    store.close()
