"""What the ledger tells of pushed points: batches, their digests, and stores from before them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gatemark.accounts.journey import Identity
from gatemark.core.errors import BadInputError
from gatemark.drift.derive import DeriveRequest, derive_points
from gatemark.drift.ledger import cover_existing_points
from gatemark.drift.open_stores import points_of
from gatemark.drift.stores import points
from gatemark.evidence.source import ReadingChoices
from gatemark.integrity import verify
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.journey import VerifyRequest
from gatemark.web.areas.ingest import hand_in_points
from gatemark.workspace import Workspace

from .layouts import POINTS, layout, upgrade, write_layout_0006
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
        "adopted": False,
    }
    assert {row[0] for row in rows(live, "SELECT batch FROM points")} == {seq}


def test_classes_that_come_later_do_not_change_what_earlier_rows_say(live: Live) -> None:
    bare = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    live.push_lines([bare | {"categories": {"x": 2}}], day(1))
    later = {k: v for k, v in point(1, 0).items() if k not in ("value", "n")}
    live.push_lines([later | {"categories": {"x": 2, "new": 3}}], day(2))
    for seq, said in pushes(live):
        assert digest_of(live, f"= {seq}") == (1, said["digest"])
    assert checked(live).troubles == ()


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
    assert checked(live).troubles == ()


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
    assert checked(live).troubles == ()


def test_a_push_that_fails_has_no_event(live: Live) -> None:
    live.push(0, lively())
    head = live.workspace.events.head()
    with pytest.raises(BadInputError):
        live.push_lines([point(17, 1.0), point(18, 1.0) | {"n": 0}], day(20))
    assert live.workspace.events.head() == head


def test_points_that_are_derived_or_handed_in_are_told_too(live: Live) -> None:
    live.enable()
    hand_in = Workspace(store=live.workspace.store_setting, clock=lambda: day(2), actor="server")
    person = Identity(person="eve", roles=("evaluator",), way="token", authentication="token t1")
    hand_in_points(hand_in, person, [point(0, 1.0)])
    derive_points(live.workspace, DeriveRequest(results=True), ReadingChoices(), now=day(3))
    actors = [event.actor for event, _ in live.workspace.events.events(kind="points_pushed")]
    assert actors[0] == "eve"
    derived = rows(live, "SELECT count(*) FROM points WHERE source LIKE 'result-%'")[0][0]
    assert len(actors) == 1 + bool(derived)
    assert not rows(live, "SELECT 1 FROM points WHERE batch IS NULL")
    hand_in.store.close()


def test_a_clock_that_is_behind_keeps_no_points_out(live: Live) -> None:
    live.push(0, lively())
    live.now = day(30)
    live.push(16, [10.0])
    live.now = day(20)
    assert live.push(17, [10.0]).added == 1
    assert checked(live).troubles == ()


# Stores from before


@pytest.fixture
def old(store: str) -> str:
    """A store of layout 0006."""
    write_layout_0006(store)
    return store


def test_points_are_not_pushed_into_layout_0006(old: str, gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text(json.dumps(point(0, 1.0)) + "\n")
    ran = gatemark("drift", "push", path, "--store", old)
    assert ran.code == 2
    assert ran.out == ""
    (line,) = [line for line in ran.err.splitlines() if line.startswith("gatemark:")]
    expected = 'has layout 0006; drift points need layout 0007: run "gatemark store upgrade"'
    assert line.endswith(f": {expected}")
    assert layout(old) == "0006"
    workspace = Workspace(store=old)
    assert points_of(workspace).row_count() == POINTS + 1
    assert [series.asset for series in points_of(workspace).series()] == ["old"]
    assert workspace.events.head().seq == 0
    workspace.store.close()


def test_a_store_of_layout_0006_can_be_looked_at_and_checked(
    old: str, gatemark: Run, tmp_path: Path
) -> None:
    page = tmp_path / "drift.html"
    for command in (
        ("list",),
        ("ledger", "log"),
        ("drift", "status", "--now", "2026-03-18T00:00:00Z"),
        ("drift", "report", "old", "--now", "2026-03-18T00:00:00Z", "-o", page),
    ):
        assert gatemark(*command, "--store", old).code == 0, command
    report = gatemark("ledger", "verify", "--store", old, "--json")
    assert report.code == 0
    assert (
        f"{POINTS + 1} points from before layout 0007 are not covered by the ledger"
        in (report.json["caveats"])
    )
    assert layout(old) == "0006"


def test_points_from_before_are_covered_when_asked(old: str, tmp_path: Path) -> None:
    live = Live(old, tmp_path)
    assert cover_existing_points(live.workspace) is None, "the layout has no place for it"
    upgrade(old)
    caveat = f"{POINTS + 1} points from before layout 0007 are not covered by the ledger"
    assert caveat in checked(live).caveats
    event = cover_existing_points(live.workspace)
    assert event is not None
    ((seq, said),) = pushes(live)
    assert (seq, said["rows"], said["adopted"]) == (event.seq, POINTS + 1, True)
    assert said["digest"] == digest_of(live, "IS NULL")[1]
    assert cover_existing_points(live.workspace) is None, "once is enough"
    live.push_lines([point(3, 99.0, asset="old", metric="latency_ms", n=7)], day(20))
    report = checked(live)
    assert report.troubles == ()
    assert caveat not in report.caveats
    live.workspace.store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE points SET a = 11 WHERE a = 12",
        "DELETE FROM points WHERE a = 12",
        "UPDATE points SET batch = 1 WHERE a = 12",
        "INSERT INTO points (series_id, start_s, source, revision, items, a, b, vector, pushed_at)"
        " SELECT series_id, start_s, 'x', 1, 1, 10, 0, vector, pushed_at FROM points WHERE a = 12",
    ],
)
def test_covered_points_cannot_be_edited_unseen(old: str, tmp_path: Path, statement: str) -> None:
    upgrade(old)
    live = Live(old, tmp_path)
    event = cover_existing_points(live.workspace)
    assert event is not None
    edit(old, statement)
    found = checked(live)
    assert event.seq in {trouble.seq for trouble in found.troubles}
    live.workspace.store.close()


def test_the_first_push_covers_points_from_before(old: str, tmp_path: Path) -> None:
    upgrade(old)
    live = Live(old, tmp_path)
    live.push(0, lively())
    assert [said["adopted"] for _, said in pushes(live)] == [True, False]
    assert checked(live).troubles == ()
    edit(old, "UPDATE points SET a = 11 WHERE a = 12 AND batch IS NULL")
    assert checked(live).exit_code == 4
    live.workspace.store.close()
