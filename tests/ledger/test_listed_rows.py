"""Edits of rows that lists and pages show, each found by `gatemark ledger verify`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.release.drift.series import day

from gatemark.core.canonical import digest_bytes
from gatemark.integrity import erase, store_checks, verify
from gatemark.ledger.event import EventDraft
from gatemark.ledger.keys import make_key, sign_checkpoint
from gatemark.ledger.port import Store
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.ledger_rules import RuleCheck

from .listed import (
    FAILED,
    OTHER,
    Place,
    PostgresPlace,
    sqlite_copy,
    workspace_at,
    write_everything,
    write_more,
)
from .samples import ATTACHMENT, EVIDENCE, result

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listed")
    write_everything(str(folder / "store"), folder)
    return folder / "store"


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, new_postgres_url: Callable[[], str]
) -> Iterator[PostgresPlace]:
    url = new_postgres_url()
    write_everything(url, tmp_path_factory.mktemp("listed"))
    place = PostgresPlace(url)
    yield place
    place.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield sqlite_copy(request.getfixturevalue("original"), tmp_path / "store")
        return
    found: PostgresPlace = request.getfixturevalue("shared")
    yield found
    found.restore()


@pytest.fixture
def check(gatemark: Run, place: Place) -> Callable[[], Any]:
    def run() -> Any:
        ran = gatemark("ledger", "verify", "--store", place.address, "--json")
        assert (ran.json["verdict"] == "fail") == (ran.code == 4)
        return ran.json

    return run


def expect(report: Any, *words: str, event: int | None = None) -> None:
    """A trouble whose message has all these words, about this event."""
    messages = [trouble["message"] for trouble in report["issues"]]
    fitting = [
        trouble for trouble in report["issues"] if all(word in trouble["message"] for word in words)
    ]
    assert fitting, f"{words} in none of {messages}"
    if event is not None:
        assert event in {trouble["seq"] for trouble in fitting}
        assert any(f"event {event}:" in trouble["message"] for trouble in fitting)


def seq_of(place: Place, kind: str, number: int = 0) -> int:
    found = place.rows("SELECT seq FROM events WHERE kind = ? ORDER BY seq", kind)
    return int(found[number][0])


def test_a_store_with_everything_verifies(check: Run) -> None:
    report = check()
    assert report["issues"] == []
    assert report["verdict"] == "pass"
    assert not any("unsettled" in caveat for caveat in report["caveats"])
    assert not any("not covered" in caveat for caveat in report["caveats"])


@pytest.mark.parametrize("moment", ["start", "finish"])
def test_a_check_beside_writers_sees_one_state(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Others seal results, push points, sign, erase and vote while the check is under way."""

    class Interrupted(RuleCheck):
        def __init__(self, store: Store) -> None:
            super().__init__(store)
            # The check has begun to read by now, as far as it reads before it walks.
            store.events.head()
            if moment == "start":
                write()

        def finish(self) -> Any:
            if moment == "finish":
                write()
            return super().finish()

    def write() -> None:
        write_more(place.address, tmp_path)
        writer = workspace_at(place, clock=lambda: day(33))
        sign_checkpoint(writer, str(tmp_path / "key"))
        erase(writer, digest_bytes(ATTACHMENT), "asked for")
        erase(writer, str(noted.seq), "asked for")
        writer.store.close()

    now = day(31) + timedelta(hours=1)
    before = workspace_at(place, clock=lambda: now)
    make_key(before, tmp_path / "key")
    before.blobs.put(EVIDENCE)
    before.blobs.put(ATTACHMENT)
    before.results.append(result(with_blobs=True, at=now))
    (noted,) = before.events.append([EventDraft("noted", now, "tester", None, {"text": "a"})])
    size = before.events.head().seq
    checks = [
        msgspec.structs.replace(one, rules=Interrupted) if one.name == "lifecycle" else one
        for one in store_checks()
    ]
    monkeypatch.setattr("gatemark.integrity.store_checks", lambda: checks)
    report = verify(before, VerifyRequest())
    assert (report.verdict, report.issues, report.events) == ("pass", (), size)
    monkeypatch.undo()
    later = verify(before, VerifyRequest())
    assert (later.verdict, later.events > size) == ("pass", True)
    before.store.close()


# Results


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("verdict", "pass"),
        ("title", "an exam that went well"),
        ("finished_at", "2020-01-01T00:00:00+00:00"),
        ("finished_at", "long ago"),
    ],
)
def test_a_column_of_a_result_is_edited(
    check: Run, place: Place, gatemark: Run, column: str, value: str
) -> None:
    shown = gatemark("list", "--store", place.address, "--json").json
    ((result_id,),) = place.rows("SELECT id FROM results WHERE title = ?", FAILED)
    assert place.edit(f"UPDATE results SET {column} = ? WHERE id = ?", value, result_id) == 1
    assert gatemark("list", "--store", place.address, "--json").json == shown
    report = check()
    expect(report, "table results", column, result_id, "event")
    assert {trouble["check"] for trouble in report["issues"]} == {"result"}


def test_a_result_that_was_edited_is_not_listed(check: Run, place: Place, gatemark: Run) -> None:
    if not place.address.startswith("postgresql"):
        edited = "replace(document, ?, ?)"
    else:
        edited = "replace(encode(document, 'escape'), ?, ?)::bytea"
    statement = f"UPDATE results SET document = {edited} WHERE title = ?"
    assert place.edit(statement, '"verdict":"fail"', '"verdict":"pass"', FAILED) == 1
    ran = gatemark("list", "--store", place.address)
    assert ran.code == 4
    ((result_id,),) = place.rows("SELECT id FROM results WHERE title = ?", FAILED)
    assert f"result {result_id}" in ran.err


# Drift points

POINT_EDITS = {
    "value": "UPDATE points SET a = a + 5 WHERE a = 3.0",
    "items": "UPDATE points SET items = 99 WHERE a = 3.0",
    "classes": "UPDATE points SET vector = (SELECT vector FROM points WHERE items = 6)"
    " WHERE items = 10",
    "start": "UPDATE points SET start_s = start_s + 8640000 WHERE a = 3.0",
    "sender": "UPDATE points SET source = 'west' WHERE a = 3.0",
    "revision": "UPDATE points SET revision = 7 WHERE a = 3.0",
    "deleted": "DELETE FROM points WHERE a = 3.0",
    "all deleted": "DELETE FROM points",
    "batch forgotten": "UPDATE points SET batch = 0 WHERE a = 3.0",
    "all batches forgotten": "UPDATE points SET batch = 0",
    "earlier revision": "UPDATE point_revisions SET a = 9.9 WHERE a = 10.5",
    "earlier revision deleted": "DELETE FROM point_revisions WHERE a = 10.5",
    "metric": "UPDATE point_series SET metric = 'other' WHERE metric = 'golden_accuracy'",
    "asset": "UPDATE point_series SET asset = 'other' WHERE asset = 'helper'",
    "form": "UPDATE point_series SET form = 'k' WHERE metric = 'golden_accuracy'",
    "length": "UPDATE point_series SET length_s = 3600 WHERE metric = 'golden_accuracy'",
    "class names": 'UPDATE point_series SET layout = \'["slow","none"]\''
    " WHERE metric = 'tool_error_classes'",
    "bins": "UPDATE point_series SET layout = '[0.0,0.1,0.2,1.0]' WHERE metric = 'confidence_kl'",
}


@pytest.mark.parametrize("name", POINT_EDITS)
def test_points_are_edited(check: Run, place: Place, name: str) -> None:
    numbers = {seq for (seq,) in place.rows("SELECT seq FROM events WHERE kind = 'points_pushed'")}
    assert place.edit(POINT_EDITS[name]) > 0
    report = check()
    expect(report, "table point", "event")
    assert {trouble["seq"] for trouble in report["issues"]} & numbers


@pytest.mark.parametrize("batch", [0, 3, 10_000, -1])
def test_a_point_is_slipped_in(check: Run, place: Place, batch: int) -> None:
    told = seq_of(place, "points_pushed", 1) if batch == 0 else batch
    assert (
        place.edit(
            "INSERT INTO points (series_id, start_s, source, revision, items, a, b, vector, "
            "pushed_at, batch) SELECT series_id, start_s, 'slipped in', 1, 50, 10, 0, vector, "
            "pushed_at, ? FROM points WHERE a = 3.0 ORDER BY start_s LIMIT 1",
            told,
        )
        == 1
    )
    report = check()
    expect(report, "table points", event=told if batch == 0 else None)


def test_a_trouble_of_points_names_the_series_and_the_push(check: Run, place: Place) -> None:
    place.edit("UPDATE points SET a = 10 WHERE a = 3.0")
    number = seq_of(place, "points_pushed", 2)
    expect(check(), "table points", "triage golden_accuracy", event=number)


# Episodes, what was done about them, and what watching remembers


def episode_of(place: Place, asset: str) -> tuple[str, dict[str, Any]]:
    ((identity, document),) = place.rows("SELECT id, document FROM episodes WHERE asset = ?", asset)
    return str(identity), json.loads(bytes(document))


def told_of(place: Place, check: str) -> int:
    """The number of the first drift signal about an episode of an asset."""
    acts = place.rows("SELECT events FROM episode_acts WHERE episode = ? AND act = 'tell'", check)
    return min(number for (text,) in acts for number in json.loads(text))


def test_an_episode_is_deleted(check: Run, place: Place) -> None:
    identity, _ = episode_of(place, "triage")
    number = told_of(place, identity)
    place.edit("DELETE FROM episodes WHERE id = ?", identity)
    place.edit("DELETE FROM episode_acts WHERE episode = ?", identity)
    expect(check(), "table episodes", "triage golden_accuracy", identity[:19], event=number)


@pytest.mark.parametrize(
    ("column", "value"),
    [("level", "WARN"), ("is_open", False), ("asset", OTHER), ("opened_at", "2026-01-01")],
)
def test_a_column_of_an_episode_is_edited(
    check: Run, place: Place, column: str, value: Any
) -> None:
    identity, _ = episode_of(place, "triage")
    place.edit(f"UPDATE episodes SET {column} = ? WHERE id = ?", value, identity)
    expect(check(), "table episodes", column, identity[:19])


@pytest.mark.parametrize(
    "change",
    [
        {"level": "WARN"},
        {"closed_at": "2026-03-20T00:00:00Z", "closed_because": "3 windows below 1.5 sigma"},
        {"metric": "latency_ms"},
        {"baseline_digest": "sha256:" + "0" * 64},
        {"baseline_ids": []},
        {"opened": {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_open_episode_is_edited_in_document_and_columns(
    check: Run, place: Place, change: dict[str, Any]
) -> None:
    identity, document = episode_of(place, "triage")
    number = told_of(place, identity)
    edited = document | change
    place.edit(
        "UPDATE episodes SET document = ?, level = ?, is_open = ? WHERE id = ?",
        json.dumps(edited).encode(),
        edited["level"],
        edited["closed_at"] is None,
        identity,
    )
    report = check()
    expect(report, "table episodes", identity[:19])
    assert min(t["seq"] for t in report["issues"] if t["seq"] is not None) >= number


def test_a_closed_episode_is_opened_again(check: Run, place: Place) -> None:
    identity, document = episode_of(place, OTHER)
    edited = document | {"closed_at": None, "closed_because": None}
    place.edit(
        "UPDATE episodes SET document = ?, is_open = true WHERE id = ?",
        json.dumps(edited).encode(),
        identity,
    )
    expect(check(), "table episodes", f"{OTHER} latency_ms", "closed", "open")


ACT_EDITS = {
    "another event": "UPDATE episode_acts SET events = '[1]' WHERE act = 'tell'",
    "an event that is not there": "UPDATE episode_acts SET events = '[9999]' WHERE act = 'tell'",
    "no event": "UPDATE episode_acts SET events = '[]' WHERE act = 'demote'",
    "another level": "UPDATE episode_acts SET level = 'BREACH' WHERE act = 'close'",
    "not a list": "UPDATE episode_acts SET events = 'x' WHERE act = 'tell'",
}


@pytest.mark.parametrize("name", ACT_EDITS)
def test_an_act_about_an_episode_is_edited(check: Run, place: Place, name: str) -> None:
    assert place.edit(ACT_EDITS[name]) > 0
    expect(check(), "table episode_acts")


@pytest.mark.parametrize("outcome", ["was demoted", "was so already: demote"])
@pytest.mark.parametrize("known", [True, False])
def test_an_act_that_never_was_is_slipped_in(
    check: Run, place: Place, outcome: str, known: bool
) -> None:
    identity = episode_of(place, OTHER)[0] if known else "sha256:" + "0" * 64
    place.edit(
        "INSERT INTO episode_acts (episode, act, level, at, outcome, events) "
        "VALUES (?, 'demote', 'WARN', '2026-03-18T00:00:00+00:00', ?, '[]')",
        identity,
        outcome,
    )
    expect(check(), "table episode_acts", "demote", identity[:19])


LEVEL_EDITS = {
    "level": "UPDATE drift_levels SET level = 'OK' WHERE level <> 'OK'",
    "deleted": "DELETE FROM drift_levels",
}


@pytest.mark.parametrize("name", LEVEL_EDITS)
def test_a_level_that_was_told_is_edited(check: Run, place: Place, name: str) -> None:
    assert place.edit(LEVEL_EDITS[name]) > 0
    last = place.rows("SELECT max(seq) FROM events WHERE kind = 'drift_recorded'")[0][0]
    expect(check(), "table drift_levels", event=last)


def test_a_frozen_baseline_is_edited(check: Run, place: Place) -> None:
    assert place.edit("UPDATE episodes SET baseline = ? WHERE baseline <> ?", b"[]", b"") > 0
    expect(check(), "table episodes", "its baseline does not match the digest in its document")


def test_a_probe_after_an_edit_does_not_hide_it(check: Run, place: Place, gatemark: Run) -> None:
    place.edit("DELETE FROM drift_levels")
    assert gatemark("drift", "probe", "--store", place.address).code == 0
    last = place.rows("SELECT max(seq) FROM events WHERE kind = 'drift_recorded'")[0][0]
    expect(check(), "table drift_levels", "between", event=last)


# Reviews

REVIEW_EDITS = {
    "the rules": ("reviews", "UPDATE reviews SET plan = ? WHERE name = 'letters'"),
    "the commitment": (
        "reviews",
        "UPDATE reviews SET commitment = 'sha256:0' WHERE name = 'letters'",
    ),
    "the key": ("reviews", "UPDATE reviews SET sealed_key = ? WHERE name = 'letters'"),
    "the key of an open one": ("reviews", "UPDATE reviews SET sealed_key = ? WHERE name = 'notes'"),
    "what was left out": ("reviews", "UPDATE reviews SET facts = ? WHERE name = 'letters'"),
    "who made it": ("reviews", "UPDATE reviews SET created_by = 'eve' WHERE name = 'letters'"),
    "when it was made": (
        "reviews",
        "UPDATE reviews SET created_at = '2020-01-01T00:00:00+00:00' WHERE name = 'letters'",
    ),
    "deleted": ("reviews", "DELETE FROM reviews WHERE name = 'letters'"),
    "a pair": (
        "review_pairs",
        "UPDATE review_pairs SET document = ? WHERE review = 'letters' AND number = 2",
    ),
    "a pair of an open one": (
        "review_pairs",
        "UPDATE review_pairs SET document = ? WHERE review = 'notes' AND number = 2",
    ),
    "a pair became gold": (
        "review_pairs",
        "UPDATE review_pairs SET is_gold = true WHERE review = 'letters' AND number = 2",
    ),
    "a pair deleted": (
        "review_pairs",
        "DELETE FROM review_pairs WHERE review = 'letters' AND number = 6",
    ),
    "what was shown": (
        "review_shows",
        "UPDATE review_shows SET number = number % 6 + 1 WHERE review = 'letters'",
    ),
    "a show deleted": (
        "review_shows",
        "DELETE FROM review_shows WHERE review = 'letters' AND ordinal = 3",
    ),
    "a vote": (
        "review_votes",
        "UPDATE review_votes SET answered = 'both_good' WHERE review = 'letters' AND ordinal = 2",
    ),
    "a reason": (
        "review_votes",
        "UPDATE review_votes SET reason = 'so' WHERE review = 'letters' AND ordinal = 2",
    ),
    "a vote deleted": (
        "review_votes",
        "DELETE FROM review_votes WHERE review = 'letters' AND ordinal = 4",
    ),
    "an earlier version deleted": (
        "review_votes",
        "DELETE FROM review_votes WHERE review = 'letters' AND ordinal = 1 AND version = 1",
    ),
    "who closed it": ("review_closings", "UPDATE review_closings SET by = 'eve'"),
    "why it was closed": ("review_closings", "UPDATE review_closings SET note = 'time is up'"),
    "when it was closed": (
        "review_closings",
        "UPDATE review_closings SET at = '2020-01-01T00:00:00+00:00'",
    ),
    "reopened": ("review_closings", "DELETE FROM review_closings"),
}


@pytest.mark.parametrize("name", REVIEW_EDITS)
def test_a_review_is_edited(check: Run, place: Place, name: str) -> None:
    table, statement = REVIEW_EDITS[name]
    fill = {
        "the rules": b'{"name":"letters","candidates":["new"],"baseline":"old","min_decisive":2}',
        "what was left out": b'{"left_out":{"errored":3},"tells":[]}',
        "a pair": b'{"item":"q001","arms":["new","old"],"input":1,"answers":[1,2],"kind":"pair"}',
    }
    values = ()
    if "?" in statement:
        known = fill.get(name.removesuffix(" of an open one"), bytes(32))
        values = (known,)
    statement = statement.replace(" by =", ' "by" =')
    assert place.edit(statement, *values) > 0
    review = "notes" if "open one" in name else "letters"
    kind = "review_unblinded" if table in ("review_votes", "review_closings") else "review_created"
    number = seq_of(place, kind, 1 if review == "notes" else 0)
    report = check()
    expect(report, f"table {table}", f"review {review}", "event")
    assert {t["seq"] for t in report["issues"]} & {number, seq_of(place, "review_unblinded")}


def test_facts_of_a_review_that_no_event_has_are_not_read(
    gatemark: Run, check: Run, place: Place
) -> None:
    before = gatemark("review", "status", "letters", "--store", place.address).out
    facts = b'{"left_out":{},"left_out_items":"10^23","tells":[]}'
    assert place.edit("UPDATE reviews SET facts = ? WHERE name = 'letters'", facts) == 1
    assert check()["issues"] == []
    assert gatemark("review", "status", "letters", "--store", place.address).out == before


@pytest.mark.parametrize(
    ("edit", "look"),
    [
        ("label_items SET number = '[]' WHERE number = 1", "review labels export tone"),
        ("label_items SET label_set = '30' WHERE label_set = 'tone'", "review labels export tone"),
        ("label_acceptances SET number = X'fffe' WHERE number = 1", "review labels export tone"),
        ("label_sets SET name = X'7b7d' WHERE name = 'tone'", "review labels status tone"),
        ("review_shows SET number = '30' WHERE ordinal = 2", "review close letters"),
        ("point_series SET length_s = -4611686018427387904", "drift status"),
        ("point_series SET length_s = 4611686018427387904", "drift status"),
        ("point_series SET phase_s = 4611686018427387904", "drift status"),
        ("point_series SET id = -4611686018427387904 WHERE id = 1", "drift status"),
        ("point_series SET id = 4611686018427387904 WHERE id = 1", "drift status"),
        ("review_pairs SET document = 1e308 WHERE number = 1", "review export letters"),
    ],
)
def test_a_value_of_another_type_or_size_is_no_internal_error(
    gatemark: Run, original: Path, tmp_path: Path, edit: str, look: str
) -> None:
    place = sqlite_copy(original, tmp_path / "store")
    assert place.edit(f"UPDATE {edit}") > 0
    assert gatemark(*look.split(), "--store", place.address).code in (0, 1, 2, 3, 4)
    assert gatemark("ledger", "verify", "--store", place.address).code == 4


def test_a_review_that_nobody_made_is_slipped_in(check: Run, place: Place) -> None:
    place.edit(
        "INSERT INTO reviews (name, plan, commitment, sealed_key, facts, created_by, created_at) "
        "SELECT 'forged', plan, commitment, sealed_key, facts, created_by, created_at "
        "FROM reviews WHERE name = 'letters'"
    )
    expect(check(), "table reviews", "review forged")


def test_votes_of_an_open_review_are_covered(check: Run) -> None:
    assert not [caveat for caveat in check()["caveats"] if "its votes are sealed" in caveat]


# Labels

LABEL_EDITS = {
    "the rules": (
        "label_sets",
        "UPDATE label_sets SET document = ? WHERE name = 'tone'",
        b'{"name":"tone","labels":["good","worse"],"source":"pilot"}',
    ),
    "the set deleted": ("label_sets", "DELETE FROM label_sets WHERE name = 'tone'", None),
    "an item": (
        "label_items",
        "UPDATE label_items SET document = ? WHERE label_set = 'tone' AND number = 1",
        b'{"id":"q000","input":"another","output":"labelled 0"}',
    ),
    "an id": (
        "label_items",
        "UPDATE label_items SET id = 'q777' WHERE label_set = 'tone' AND number = 1",
        None,
    ),
    "an item deleted": (
        "label_items",
        "DELETE FROM label_items WHERE label_set = 'tone' AND number = 1",
        None,
    ),
    "a label": (
        "label_acceptances",
        "UPDATE label_acceptances SET label = 'bad' WHERE number = 1",
        None,
    ),
    "an earlier label": (
        "label_acceptances",
        "UPDATE label_acceptances SET label = 'good' WHERE number = 2 AND version = 1",
        None,
    ),
    "who gave it": (
        "label_acceptances",
        "UPDATE label_acceptances SET reviewers = '[\"eve\"]' WHERE number = 1",
        None,
    ),
    "who accepted it": (
        "label_acceptances",
        "UPDATE label_acceptances SET \"by\" = 'eve' WHERE number = 1",
        None,
    ),
    "when it was accepted": (
        "label_acceptances",
        "UPDATE label_acceptances SET at = '2020-01-01T00:00:00Z' WHERE number = 1",
        None,
    ),
    "an acceptance deleted": (
        "label_acceptances",
        "DELETE FROM label_acceptances WHERE number = 1",
        None,
    ),
    "an acceptance slipped in": (
        "label_acceptances",
        'INSERT INTO label_acceptances (label_set, number, version, label, reviewers, "by", at) '
        'SELECT label_set, 3, 1, label, reviewers, "by", at FROM label_acceptances '
        "WHERE number = 1",
        None,
    ),
}


@pytest.mark.parametrize("name", LABEL_EDITS)
def test_accepted_labels_are_edited(check: Run, place: Place, name: str) -> None:
    table, statement, value = LABEL_EDITS[name]
    assert place.edit(statement, *(() if value is None else (value,))) > 0
    numbers = {n for (n,) in place.rows("SELECT seq FROM events WHERE kind = 'labels_accepted'")}
    report = check()
    expect(report, f"table {table}", "label set tone")
    told = {t["seq"] for t in report["issues"]}
    assert told & numbers or name == "an acceptance slipped in"


# Rows of types that nobody writes: SQLite keeps anything in any column.

MISFITS = [
    ("points", "UPDATE points SET a = 'x' WHERE a = 3.0"),
    ("points", "UPDATE points SET vector = 'text' WHERE a = 3.0"),
    ("points", "UPDATE points SET batch = 'x' WHERE a = 3.0"),
    ("points", "UPDATE points SET batch = -4 WHERE a = 3.0"),
    ("points", "UPDATE points SET items = 'many' WHERE a = 3.0"),
    ("points", "UPDATE points SET source = X'00ff' WHERE a = 3.0"),
    ("points", "UPDATE point_series SET layout = '{'"),
    ("points", "UPDATE point_series SET asset = X'00ff' WHERE asset = 'helper'"),
    ("points", "UPDATE point_series SET length_s = 'x'"),
    ("drift_levels", "UPDATE drift_levels SET level = X'00'"),
    ("episodes", "UPDATE episodes SET baseline = 'x'"),
    ("episodes", "UPDATE episodes SET document = 'x'"),
    ("episodes", "UPDATE episodes SET document = '[]'"),
    ("episodes", "UPDATE episodes SET opened_at = 4"),
    ("episode_acts", "UPDATE episode_acts SET events = X'00'"),
    ("reviews", "UPDATE reviews SET plan = '{}'"),
    ("reviews", "UPDATE reviews SET sealed_key = 'x'"),
    ("reviews", "UPDATE reviews SET facts = '7'"),
    ("review_pairs", "UPDATE review_pairs SET document = '[1]'"),
    ("review_pairs", "UPDATE review_pairs SET number = 'x' WHERE number = 2"),
    ("review_shows", "UPDATE review_shows SET ordinal = 'x' WHERE ordinal = 2"),
    ("review_shows", "UPDATE review_shows SET number = 'x' WHERE ordinal = 2"),
    ("review_shows", "UPDATE review_shows SET reviewer = X'00' WHERE ordinal = 2"),
    ("review_votes", "UPDATE review_votes SET ordinal = 'x' WHERE ordinal = 2"),
    ("review_votes", "UPDATE review_votes SET answered = X'00' WHERE ordinal = 2"),
    ("label_sets", "UPDATE label_sets SET document = '[]'"),
    ("label_items", "UPDATE label_items SET document = 'x'"),
    ("label_acceptances", "UPDATE label_acceptances SET version = 'x' WHERE number = 1"),
    ("label_acceptances", "UPDATE label_acceptances SET reviewers = 7 WHERE number = 1"),
]


@pytest.mark.parametrize(("table", "statement"), MISFITS)
def test_a_row_of_another_type_is_found(
    original: Path, tmp_path: Path, gatemark: Run, table: str, statement: str
) -> None:
    place = sqlite_copy(original, tmp_path / "store")
    assert place.edit(statement) > 0
    ran = gatemark("ledger", "verify", "--store", place.address, "--json")
    assert ran.code == 4
    expect(ran.json, f"table {table}")
