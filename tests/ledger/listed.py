"""A store with a row in everything that lists and pages show, and somebody who edits its rows."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import psycopg
from tests.release.drift.live import ASSET, Live, lively, point
from tests.release.drift.series import day
from tests.release.lifecycle.sealed import result
from tests.release.review.arms import prefers, vote_all, write_arm

from gatemark.core.canonical import digest
from gatemark.release.review.close import CloseReview, close_review
from gatemark.release.review.create import CreateReview, VoteRequest, cast_vote, create_review
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import (
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
)
from gatemark.workspace import Workspace

OTHER = "helper"
"""An asset whose one episode is over."""
FAILED = "an exam that failed"


def write_everything(store: str, folder: Path) -> None:
    """Results, points in every form with a correction, episodes, reviews and labels."""
    live = Live(store, folder)
    live.enable()
    live.workspace.results.append(
        result(ASSET, digest("1.0.0"), live.now, title=FAILED, verdict="fail")
    )
    _write_drift(live)
    live.now = day(31)
    _write_reviews(live, folder)
    _write_labels(live, folder)
    live.workspace.store.close()


def write_more(store: str, folder: Path) -> None:
    """Something new in each table that is compared with events."""
    live = Live(store, folder)
    live.now = day(32)
    live.push(18, [10.0, 10.0])
    live.probe(32)
    workspace = live.workspace.acting_as("olu")
    files = {arm: write_arm(folder, arm, 2) for arm in ("new", "old")}
    arms: dict[str, Any] = {"candidates": ("new",), "baseline": "old", "files": files}
    create_review(workspace, CreateReview(name="later", min_decisive=1, **arms))
    close_review(workspace, CloseReview(review="notes", early="time is up"))
    give_label(workspace, GiveLabel(labels="tone", actor="bob", item="q002", label="bad"))
    accept_labels(workspace, AcceptLabels(labels="tone"))
    live.workspace.store.close()


def _write_drift(live: Live) -> None:
    values = enumerate([*lively(), 6.0, 10.0, 10.0, 10.0])
    live.push_lines(
        [point(at, value, asset=OTHER, metric="latency_ms") for at, value in values], day(20)
    )
    live.push(0, lively())
    forms = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    counts = forms | {"metric": "tool_error_classes", "categories": {"none": 9, "slow": 1}}
    bins = forms | {"metric": "confidence_kl", "histogram": [1, 2, 3]}
    live.push_lines([point(3, 10.25), point(16, 3.0), point(17, 3.0), counts, bins], day(18))
    live.push_lines([point(3, 10.5), point(3, 10.75)], day(18))
    for days in (17, 18, 20):
        live.probe(days)


def _write_reviews(live: Live, folder: Path) -> None:
    workspace = live.workspace.acting_as("olu")
    files = {arm: write_arm(folder, arm, 6) for arm in ("new", "old")}
    for name in ("letters", "notes"):
        arms: dict[str, Any] = {"candidates": ("new",), "baseline": "old", "files": files}
        live.now += timedelta(minutes=1)
        create_review(workspace, CreateReview(name=name, min_decisive=1, note="a pilot", **arms))
    live.now += timedelta(minutes=1)
    seen = vote_all(workspace, "bob", prefers("new"))
    for answered in ("both_bad", "a"):
        vote = VoteRequest(
            review="letters", actor="bob", token=seen[0].token, answered=answered, reason="hm"
        )
        cast_vote(workspace, vote)
    live.now += timedelta(minutes=1)
    close_review(workspace, CloseReview(review="letters"))


def _write_labels(live: Live, folder: Path) -> None:
    workspace = live.workspace.acting_as("olu")
    path = write_arm(folder, "labelled", 3)
    for name in ("tone", "unsettled"):
        create_labels(workspace, LabelPlan(name=name, labels=("good", "bad"), source="pilot"), path)
    for item, label in (("q000", "good"), ("q001", "bad")):
        give_label(workspace, GiveLabel(labels="tone", actor="bob", item=item, label=label))
    for label in ("bad", "good"):
        give_label(workspace, GiveLabel(labels="tone", actor="bob", item="q001", label=label))
        live.now += timedelta(minutes=1)
        accept_labels(workspace, AcceptLabels(labels="tone"))


class Place(Protocol):
    """A store that can be opened by its address and edited behind its back."""

    @property
    def address(self) -> str: ...

    def edit(self, statement: str, *values: Any) -> int:
        """Run a statement with every guard taken away; gives how many rows it touched."""
        ...

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]: ...


class SqlitePlace:
    """A copy of a store in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def address(self) -> str:
        return str(self.folder)

    def edit(self, statement: str, *values: Any) -> int:
        with _sqlite(self.folder) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in found.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            return connection.execute(statement, values).rowcount

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with _sqlite(self.folder) as connection:
            return connection.execute(query, values).fetchall()


@contextmanager
def _sqlite(folder: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(folder / "gatemark.sqlite3")
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


class PostgresPlace:
    """A store in a schema of its own; what is edited is put back by ``restore``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = psycopg.connect(address, autocommit=True)
        listed = self._connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        self._tables = [name for (name,) in listed.fetchall()]
        for table in self._tables:
            self._connection.execute(f"CREATE TABLE kept_{table} AS TABLE {table}")
        self._is_guarded = True

    def edit(self, statement: str, *values: Any) -> int:
        self._unguard()
        with self._connection.cursor() as cursor:
            cursor.execute(_marks(statement), values)
            return cursor.rowcount

    def _unguard(self) -> None:
        for table in self._tables if self._is_guarded else ():
            self._connection.execute(f"GRANT ALL ON {table} TO CURRENT_USER")
            self._connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        self._is_guarded = False

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_marks(query), values).fetchall()

    def restore(self) -> None:
        """Put every row back."""
        self._unguard()
        for table in self._tables:
            self._connection.execute(f"DELETE FROM {table}")
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")

    def close(self) -> None:
        self._connection.close()


def _marks(statement: str) -> str:
    return re.sub(r"\?", "%s", statement.replace("%", "%%"))


def sqlite_copy(original: Path, folder: Path) -> SqlitePlace:
    shutil.copytree(original, folder)
    return SqlitePlace(folder)


def workspace_at(place: Place, **more: Any) -> Workspace:
    return Workspace(store=place.address, **more)
