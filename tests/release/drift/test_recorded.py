"""What the ledger tells of recordings: a probe's, a closed episode's, and one cut short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from gatemark.integrity import verify
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.drift import probe
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.judging.cohort_state import RecordedEpisode
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.stores.episodes import TickRecorder

from .live import Live, lively
from .series import day


@pytest.fixture(params=["sqlite", "postgres"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    store = str(tmp_path / "store")
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_url")
    found = Live(store, tmp_path)
    yield found
    found.workspace.store.close()


def recorded(live: Live) -> list[dict[str, Any]]:
    return [payload for _, payload in live.events("drift_recorded")]


def checked(live: Live) -> LedgerReport:
    return verify(live.workspace, VerifyRequest())


def edit(live: Live, statement: str) -> None:
    with live.workspace.store.database.adding() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


def die(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_every_recording_says_what_it_found_and_what_it_left(live: Live) -> None:
    live.enable()
    live.push(0, [*lively(), 6.0, 10.0])
    live.probe(16)
    live.probe(17)
    first, second = recorded(live)
    assert (first["tick"], second["tick"]) == (1, 2)
    for table, rows in (("levels", 1), ("episodes", 1)):
        assert second[table]["before"] == first[table]["after"]
        assert second[table]["after"] != second[table]["before"]
        assert second[table]["rows"] == rows
    live.probe(17)
    assert len(recorded(live)) == 2, "nothing became another"
    assert checked(live).issues == ()


def test_closing_an_episode_is_a_recording_too(live: Live) -> None:
    live.push(0, [*lively(), 6.0])
    live.probe(17)
    (episode,) = episodes_of(live.workspace).episodes()
    request = CloseRequest(episode=episode.id, actor="olu", reason="a new normal")
    close_episode(live.workspace, request, day(18))
    before, after = recorded(live)
    assert after["episodes"]["before"] == before["episodes"]["after"]
    assert after["episodes"]["after"] != before["episodes"]["after"]
    assert checked(live).issues == ()


def test_a_probe_that_dies_before_it_tells_leaves_a_store_that_verifies(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.push(0, [*lively(), 6.0, 10.0, 10.0, 10.0])
    live.probe(17)
    with monkeypatch.context() as patched:
        patched.setattr(probe, "act_on", die)
        with pytest.raises(KeyboardInterrupt):
            live.probe(20)
    (episode,) = episodes_of(live.workspace).episodes()
    assert not episode.is_open
    assert checked(live).issues == ()
    live.probe(20)
    assert checked(live).issues == ()


def test_an_episode_that_somebody_closed_in_the_table_is_not_taken_for_one_cut_short(
    live: Live,
) -> None:
    live.push(0, [*lively(), 6.0])
    live.probe(17)
    (episode,) = episodes_of(live.workspace).episodes()
    edit(live, "DELETE FROM episodes")
    over = msgspec.structs.replace(
        episode, closed_at=day(18), closed_because="3 windows below 1.5 sigma", ending="quiet"
    )
    with live.workspace.store.database.adding() as connection:
        recorder = TickRecorder(connection, live.workspace.store.database.dialect)
        recorder.keep_episodes([RecordedEpisode(over)])
    messages = [trouble.message for trouble in checked(live).issues]
    assert any("is closed in the table, open in the ledger" in message for message in messages)
    # The next probe believes the table and tells the ledger; the edit stays visible all the same.
    live.push(17, [10.0])
    live.probe(18)
    messages = [trouble.message for trouble in checked(live).issues]
    assert any("table episodes: was edited between event" in message for message in messages)
