"""Episodes, acts and levels in a database; only one tick writes at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa

from gatemark.core.errors import ConflictError
from gatemark.core.levels import Level
from gatemark.core.stored import read_stored
from gatemark.ledger.database import Database
from gatemark.ledger.stored_rows import readable_rows
from gatemark.release.drift.episode_check import CLOSED, NOTIFIED, ActRow, EpisodeRow
from gatemark.release.drift.events import DriftRecorded, JudgedUntil, TableChange
from gatemark.release.drift.judging.cohort_state import (
    BaselineWindow,
    EpisodesBefore,
    PastEpisode,
    RecordedEpisode,
    SeriesName,
)
from gatemark.release.drift.signal import Episode
from gatemark.release.drift.stores.batches import name_binary_collation
from gatemark.release.drift.stores.rows import stream
from gatemark.release.drift.stores.tables import ACTS, EPISODES, LEVELS, SERIES, TICKS
from gatemark.release.drift.table_digest import EPISODES as EPISODES_TAG
from gatemark.release.drift.table_digest import LEVELS as LEVELS_TAG
from gatemark.release.drift.table_digest import WatchState, table_state

DRIFT: Final = "drift"
BATCH: Final = 5_000
_read_baseline: Final = msgspec.json.Decoder(tuple[BaselineWindow, ...]).decode

TellRecorded = Callable[[sa.Connection, DriftRecorded], object]
"""Appends the event of a recording in the given transaction."""


class LastTick(NamedTuple):
    """The number of ticks so far, and the time of the last one.

    No event covers the time: show it, but decide by ``JudgedUntil``.
    """

    number: int
    at: datetime | None


class EpisodeAction(msgspec.Struct, frozen=True):
    """An action on an episode; each is taken once."""

    episode: str
    act: str
    level: Level
    at: datetime
    outcome: str
    events: tuple[int, ...] = ()


class LevelRow(NamedTuple):
    """The level that a series had under a detector at the last tick."""

    series_id: int
    detector: str
    level: Level


class TickRecorder:
    """The open transaction of one tick."""

    def __init__(self, connection: sa.Connection, dialect: str) -> None:
        self._connection = connection
        self._mark = "?" if dialect == "sqlite" else "%s"
        self._found: WatchState | None = None

    def change(self, tick: int, judged: JudgedUntil, *, is_news: bool) -> DriftRecorded | None:
        """Return how the tables changed, or None if there is nothing to record."""
        found = self._found
        if found is None and not is_news:
            return None
        left = watch_state(self._connection)
        if left == found and not is_news:
            return None
        pairs = zip(left if found is None else found, left, strict=True)
        levels, episodes = (
            TableChange(rows=after.rows, before=before.digest, after=after.digest)
            for before, after in pairs
        )
        return DriftRecorded(tick=tick, levels=levels, episodes=episodes, judged=judged)

    def keep_levels(self, rows: Iterable[LevelRow]) -> None:
        """Insert or replace levels, in chunks."""
        waiting = iter(rows)
        while some := list(islice(waiting, BATCH)):
            self._upsert(LEVELS.name, LevelRow._fields, ("series_id", "detector"), some)

    def keep_episodes(self, recorded: Iterable[RecordedEpisode]) -> None:
        """Insert or replace episodes."""
        rows = [
            (
                episode.id,
                episode.asset,
                episode.level,
                episode.is_open,
                episode.opened.start.isoformat(),
                msgspec.json.encode(episode),
                msgspec.json.encode(baseline) if baseline else b"",
            )
            for episode, baseline in recorded
        ]
        columns = ("id", "asset", "level", "is_open", "opened_at", "document", "baseline")
        self._upsert(EPISODES.name, columns, ("id",), rows)

    def _upsert(
        self,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],
        rows: Sequence[tuple[object, ...]],
    ) -> None:
        if not rows:
            return
        if self._found is None:
            # Read the state first: an edit since the last recording must not be recorded as ours.
            self._found = watch_state(self._connection)
        marks = ", ".join([self._mark] * len(columns))
        changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        self._connection.exec_driver_sql(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) "  # noqa: S608
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}",
            list(rows),
        )


class SqlEpisodes:
    """Episodes, acts and levels in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def last_tick(self) -> LastTick:
        """Return the last tick."""
        query = sa.select(TICKS.c.number, TICKS.c.at).where(TICKS.c.name == DRIFT)
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return LastTick(0, None)
        with readable_rows("drift_ticks"):
            return LastTick(int(row[0]), datetime.fromisoformat(row[1]))

    @contextmanager
    def recording(
        self,
        seen: LastTick,
        now: datetime,
        judged: JudgedUntil,
        tell: TellRecorded,
        *,
        is_news: bool = False,
    ) -> Iterator[TickRecorder]:
        """Open the transaction of one tick; raise ConflictError if another tick came first.

        ``tell`` is called in the same transaction when anything changed, or ``is_news`` says that
        windows were judged.
        """
        with self._database.writing() as connection:
            here = TICKS.c.name == DRIFT
            found = connection.execute(sa.select(TICKS.c.number).where(here)).scalar()
            if (found or 0) != seen.number:
                raise ConflictError("another probe wrote first; nothing was recorded")
            values = {"number": seen.number + 1, "at": now.isoformat()}
            if found is None:
                connection.execute(sa.insert(TICKS).values(name=DRIFT, **values))
            else:
                connection.execute(sa.update(TICKS).where(here).values(**values))
            recorder = TickRecorder(connection, self._database.dialect)
            yield recorder
            change = recorder.change(seen.number + 1, judged, is_news=is_news)
            if change is not None:
                tell(connection, change)

    def state(self) -> WatchState:
        """Return the current state of the tables."""
        with self._database.streaming() as connection:
            return watch_state(connection)

    def episode_rows(self) -> Iterator[EpisodeRow]:
        """Yield every episode as stored."""
        with self._database.streaming() as connection:
            for row in _read_episode_rows(connection):
                yield EpisodeRow(*row)

    def act_rows(self) -> Iterator[ActRow]:
        """Yield every act as stored."""
        query = sa.select(*(ACTS.c[name] for name in ActRow._fields))
        query = query.order_by(ACTS.c.episode, ACTS.c.at, ACTS.c.act)
        with self._database.streaming() as connection:
            for some in stream(connection, query):
                for row in some:
                    yield ActRow(*row)

    def levels(self, series_ids: Sequence[int] | None = None) -> Mapping[tuple[int, str], Level]:
        """Return the levels at the last tick by series and detector."""
        query = sa.select(*(LEVELS.c[name] for name in LevelRow._fields))
        if series_ids is not None:
            query = query.where(LEVELS.c.series_id.in_(list(series_ids)))
        with self._database.streaming() as connection, readable_rows("drift_levels"):
            return {
                (number, detector): level
                for rows in stream(connection, query)
                for number, detector, level in rows
            }

    def recorded(self, asset: str | None = None) -> EpisodesBefore:
        """Return the episodes that the next tick starts from."""
        query = sa.select(EPISODES.c.is_open, EPISODES.c.document, EPISODES.c.baseline)
        query = query.order_by(EPISODES.c.opened_at, EPISODES.c.id)
        if asset is not None:
            query = query.where(EPISODES.c.asset == asset)
        is_open: dict[SeriesName, RecordedEpisode] = {}
        past: dict[SeriesName, list[PastEpisode]] = defaultdict(list)
        with self._database.streaming() as connection, readable_rows("episodes"):
            for rows in stream(connection, query):
                for here, document, baseline in rows:
                    if here:
                        one = RecordedEpisode(
                            read_stored(document, Episode),
                            _read_baseline(baseline) if baseline else (),
                        )
                        is_open[_name_series(one.episode)] = one
                    else:
                        over = read_stored(document, PastEpisode)
                        past[_name_series(over)].append(over)
        return EpisodesBefore(is_open, past)

    def episodes(self, asset: str | None = None, *, only_open: bool = False) -> list[Episode]:
        """Return the episodes, oldest first."""
        query = sa.select(EPISODES.c.document).order_by(EPISODES.c.opened_at, EPISODES.c.id)
        if asset is not None:
            query = query.where(EPISODES.c.asset == asset)
        if only_open:
            query = query.where(EPISODES.c.is_open.is_(True))
        with self._database.reading() as connection:
            documents = connection.execute(query).scalars().all()
        with readable_rows("episodes"):
            return [read_stored(document, Episode) for document in documents]

    def unnotified(self) -> list[Episode]:
        """Return the closed episodes that are still open in the ledger."""

        def did(act: str) -> sa.ColumnElement[bool]:
            same = sa.and_(ACTS.c.episode == EPISODES.c.id, ACTS.c.act == act)
            return sa.exists().where(same)

        query = (
            sa.select(EPISODES.c.document)
            .where(EPISODES.c.is_open.is_(False), did(NOTIFIED), ~did(CLOSED))
            .order_by(EPISODES.c.opened_at, EPISODES.c.id)
        )
        with self._database.reading() as connection:
            documents = connection.execute(query).scalars().all()
        with readable_rows("episodes"):
            return [read_stored(document, Episode) for document in documents]

    def acts(self, episodes: Sequence[str] | None = None) -> list[EpisodeAction]:
        """Return the acts, oldest first."""
        query = sa.select(ACTS).order_by(ACTS.c.at, ACTS.c.act)
        if episodes is not None:
            query = query.where(ACTS.c.episode.in_(list(episodes)))
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        with readable_rows("episode_acts"):
            return [
                EpisodeAction(
                    episode=row.episode,
                    act=row.act,
                    level=row.level,
                    at=datetime.fromisoformat(row.at),
                    outcome=row.outcome,
                    events=msgspec.json.decode(row.events, type=tuple[int, ...]),
                )
                for row in rows
            ]

    def note_act(self, act: EpisodeAction) -> bool:
        """Store an act; return False if it was stored before."""
        row = {
            "episode": act.episode,
            "act": act.act,
            "level": act.level,
            "at": act.at.isoformat(),
            "outcome": act.outcome,
            "events": msgspec.json.encode(act.events).decode(),
        }
        same = sa.and_(
            ACTS.c.episode == act.episode, ACTS.c.act == act.act, ACTS.c.level == act.level
        )
        with self._database.writing() as connection:
            if connection.execute(sa.select(ACTS.c.at).where(same)).first() is not None:
                return False
            connection.execute(sa.insert(ACTS).values(row))
            return True


def _name_series(episode: Episode | PastEpisode) -> SeriesName:
    return episode.asset, episode.metric, episode.detector


def watch_state(connection: sa.Connection) -> WatchState:
    """Return the digests of all levels and all episodes."""
    return WatchState(
        levels=table_state(LEVELS_TAG, _read_level_rows(connection)),
        episodes=table_state(EPISODES_TAG, _read_episode_rows(connection)),
    )


def _read_level_rows(connection: sa.Connection) -> Iterator[Sequence[object]]:
    """Yield levels by series name: series numbers differ between stores."""
    order = name_binary_collation(connection)
    names = (SERIES.c.asset, SERIES.c.metric, LEVELS.c.detector)
    query = (
        sa.select(*names, LEVELS.c.level)
        .join_from(SERIES, LEVELS, LEVELS.c.series_id == SERIES.c.id)
        .order_by(*(sa.collate(name, order) for name in names))
    )
    for some in stream(connection, query):
        yield from some


def _read_episode_rows(connection: sa.Connection) -> Iterator[Sequence[Any]]:
    columns = (EPISODES.c[name] for name in EpisodeRow._fields)
    query = sa.select(*columns).order_by(
        sa.collate(EPISODES.c.id, name_binary_collation(connection))
    )
    for some in stream(connection, query):
        yield from some
