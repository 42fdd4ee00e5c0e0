"""What the ledger tells of pushed points: batches and their digests."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.integrity import verify
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.drift.derive import DeriveRequest, derive_points
from gatemark.release.drift.push import push_points
from gatemark.release.drift.stores import points
from gatemark.server.sent_files import write_records
from gatemark.workspace import Workspace

from .live import ASSET, Live, lively, point
from .series import day

Run = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "store")


@pytest.fixture
def live(store: str, tmp_path: Path) -> Iterator[Live]:
    found = Live(store, tmp_path)
    yield found
    found.workspace.store.close()


def rows(live: Live, query: str) -> list[Any]:
    with live.workspace.store.database.reading() as connection:
        return list(connection.execute(sa.text(query)).all())


def edit(store: str, statement: str) -> None:
    workspace = Workspace(store=store)
    with workspace.store.database.adding() as connection:
        connection.execute(sa.text(statement))
    workspace.store.close()


def checked(live: Live) -> LedgerReport:
    return verify(live.workspace, VerifyRequest())


def pushes(live: Live) -> list[tuple[int, dict[str, Any]]]:
    return live.events("points_pushed")


# What a digest covers, written down a second time from its description.


def packed(row: Any) -> bytes:
    texts = [row.asset.encode(), row.metric.encode(), row.form.encode()]
    parts = json.loads(row.layout)
    if row.form == "categories":
        parts = parts[: len(row.vector) // 8]
    seen = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            seen.update(b"t" + struct.pack("<I", len(part.encode())) + part.encode())
        else:
            seen.update(b"n" + struct.pack("<d", part))
    source, vector = row.source.encode(), bytes(row.vector)
    return b"".join(
        [
            struct.pack("<III", *map(len, texts)),
            struct.pack("<qq", row.length_s, row.phase_s),
            seen.digest(),
            *texts,
            struct.pack("<qqqq", row.start_s, row.revision, row.items_count, row.pushed_at),
            struct.pack("<dd", row.a or 0.0, row.b),
            struct.pack("<II", len(source), len(vector)),
            source,
            vector,
        ]
    )


def digest_of(live: Live, batch: str) -> tuple[int, str]:
    found = []
    for table in ("points", "point_revisions"):
        found += rows(
            live,
            "SELECT asset, metric, form, length_s, phase_s, layout, start_s, source, revision, "
            f"items AS items_count, a, b, vector, pushed_at FROM {table} "
            f"JOIN point_series ON point_series.id = series_id WHERE batch {batch}",
        )

    def key(row: Any) -> tuple[Any, ...]:
        texts = (row.asset.encode(), row.metric.encode())
        return (*texts, row.start_s, row.source.encode(), row.revision)

    data = b"".join(packed(row) for row in sorted(found, key=key))
    return len(found), "sha256:" + hashlib.sha256(b"gatemark.points/1\n" + data).hexdigest()


def every_form() -> list[dict[str, Any]]:
    bare = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    bins = {"items": [3, 4], "confidence_sum": [1.0, 3.5], "correct": [1, 4]}
    return [
        point(0, -0.0, metric="z"),
        point(1, 2.5, metric="z", source="west"),
        point(1, 2.5, metric="z", source="östlich"),
        point(1, 4.5, metric="Z"),
        bare | {"metric": "a", "sum": 4, "sum_squares": 8, "n": 3},
        bare | {"metric": "b", "k": 3, "n": 9},
        bare | {"metric": "c", "histogram": [1, 2, 3]},
        bare | {"metric": "d", "calibration": bins},
        bare | {"metric": "é", "asset": "Ünïcode", "categories": {"ß": 2, "y": 5}},
    ]


def test_a_push_has_an_event_with_the_digest_of_its_rows(live: Live) -> None:
    assert live.push_lines(every_form(), day(3)).added == 9
    ((seq, said),) = pushes(live)
    assert said == {
        "format": "gatemark.event.points_pushed/1",
        "rows": 9,
        "digest": digest_of(live, f"= {seq}")[1],
        "pushed_at": "2026-03-04T00:00:00Z",
        "asset_count": 2,
        "assets": [ASSET, "Ünïcode"],
    }
    assert {row[0] for row in rows(live, "SELECT batch FROM points")} == {seq}


def test_classes_that_come_later_do_not_change_what_earlier_rows_say(live: Live) -> None:
    bare = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    live.push_lines([bare | {"categories": {"x": 2}}], day(1))
    later = {k: v for k, v in point(1, 0).items() if k not in ("value", "n")}
    live.push_lines([later | {"categories": {"x": 2, "new": 3}}], day(2))
    for seq, said in pushes(live):
        assert digest_of(live, f"= {seq}") == (1, said["digest"])
    assert checked(live).issues == ()


def test_a_push_of_nothing_new_has_no_event(live: Live) -> None:
    live.push(0, lively())
    head = live.workspace.events.head()
    assert live.push(0, lively()).repeated == 16
    assert live.workspace.events.head() == head


def test_a_corrected_point_keeps_the_batch_of_its_earlier_revision(live: Live) -> None:
    live.push(0, lively())
    live.push_lines([point(3, 1.5), point(3, 2.5), point(3, 2.5), point(20, 1.0)], day(21))
    (first, whole), (second, later) = pushes(live)
    found = rows(live, "SELECT revision, batch, a FROM point_revisions ORDER BY revision")
    assert [tuple(row) for row in found] == [(1, first, 10.0), (2, second, 1.5)]
    assert digest_of(live, f"= {first}") == (16, whole["digest"])
    assert digest_of(live, f"= {second}") == (3, later["digest"])
    assert checked(live).issues == ()


def test_a_large_push_is_told_in_several_events(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "BATCH", 5)
    live.push(0, lively())
    live.push_lines([point(at, 5.0) for at in range(9)], day(16))
    told = pushes(live)
    assert [said["rows"] for _, said in told] == [5, 5, 5, 1, 5, 4]
    assert [seq for seq, _ in told] == list(range(told[0][0], told[0][0] + 6))
    for seq, said in told:
        assert digest_of(live, f"= {seq}") == (said["rows"], said["digest"])
    assert checked(live).issues == ()


def test_a_push_that_fails_has_no_event(live: Live) -> None:
    live.push(0, lively())
    head = live.workspace.events.head()
    with pytest.raises(BadInputError):
        live.push_lines([point(17, 1.0), point(18, 1.0) | {"n": 0}], day(20))
    assert live.workspace.events.head() == head


def test_points_that_are_derived_or_handed_in_are_told_too(live: Live) -> None:
    live.enable()
    sent = Workspace(store=live.workspace.store_setting, clock=lambda: day(2), actor="eve")
    with write_records([point(0, 1.0)]) as path:
        push_points(sent, [path], ReadingChoices(), now=day(2))
    derive_points(live.workspace, DeriveRequest(results=True), ReadingChoices(), now=day(3))
    actors = [event.actor for event, _ in live.workspace.events.events(kind="points_pushed")]
    assert actors[0] == "eve"
    derived = rows(live, "SELECT count(*) FROM points WHERE source LIKE 'result-%'")[0][0]
    assert len(actors) == 1 + bool(derived)
    assert not rows(live, "SELECT 1 FROM points WHERE batch IS NULL")
    sent.store.close()


def test_a_clock_that_is_behind_keeps_no_points_out(live: Live) -> None:
    live.push(0, lively())
    live.now = day(30)
    live.push(16, [10.0])
    live.now = day(20)
    assert live.push(17, [10.0]).added == 1
    assert checked(live).issues == ()


# Stores from before


def test_points_without_a_push_are_found(live: Live, store: str) -> None:
    live.push(0, [1.0])
    for table in ("points", "point_series"):
        assert rows(live, f"SELECT count(*) FROM {table}") == [(1,)]
    edit(store, "UPDATE points SET batch = 999")
    report = checked(live)
    assert report.exit_code == 4
    assert "name event 999, which is not a push" in report.issues[-1].message


def test_points_of_a_ledger_without_a_push_are_found(tmp_path: Path) -> None:
    """Rows that are copied into a store whose ledger never told of points."""
    honest, forged = (Live(str(tmp_path / name), tmp_path) for name in ("honest", "forged"))
    honest.push(0, [1.0])
    with forged.workspace.store.database.adding() as connection:
        connection.execute(sa.text(f"ATTACH '{tmp_path}/honest/gatemark.sqlite3' AS honest"))
        for table in ("point_series", "points"):
            connection.execute(sa.text(f"INSERT INTO {table} SELECT * FROM honest.{table}"))
    report = checked(forged)
    assert report.exit_code == 4
    assert "which is not a push" in report.issues[0].message
    for one in (honest, forged):
        one.workspace.store.close()
