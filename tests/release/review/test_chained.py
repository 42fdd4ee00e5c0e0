"""Votes and labels are in the chain from the moment they are given, not only at the end."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gatemark.core.errors import IntegrityError, UsageError
from gatemark.integrity import verify
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.review.close import CloseReview, close_review, review_outcome
from gatemark.release.review.events import LABEL_GIVEN, VOTE_CAST
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import (
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
)
from gatemark.workspace import Workspace

from .arms import KEY, make_review, prefers, vote_all, write_arm

VOTE_EDITS = {
    "turned": "UPDATE review_votes SET answered = 'both_bad' WHERE ordinal = 2",
    "another reason": "UPDATE review_votes SET reason = 'so they say' WHERE ordinal = 2",
    "another time": "UPDATE review_votes SET at = '2020-01-01T00:00:00+00:00' WHERE ordinal = 2",
    "gone": "DELETE FROM review_votes WHERE ordinal = 4",
    "one more": "INSERT INTO review_votes SELECT review, reviewer, ordinal, 2, 'both_bad', reason, "
    "at FROM review_votes WHERE ordinal = 3",
}
LABEL_EDITS = {
    "turned": "UPDATE label_marks SET label = 'bad' WHERE number = 1",
    "in another name": "UPDATE label_marks SET reviewer = 'eve' WHERE number = 1",
    "gone": "DELETE FROM label_marks WHERE number = 1",
    "one more": "INSERT INTO label_marks SELECT label_set, number, 'eve', 1, 'bad', note, at "
    "FROM label_marks WHERE number = 1",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(store=str(tmp_path / "store"), actor="ada", jobs=1)


def edit(workspace: Workspace, statement: str) -> None:
    assert workspace.folder is not None
    with sqlite3.connect(workspace.folder / "gatemark.sqlite3") as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in found.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(statement).rowcount > 0


def messages(workspace: Workspace) -> list[str]:
    return [one.message for one in verify(workspace, VerifyRequest()).issues]


def open_votes(workspace: Workspace, folder: Path) -> None:
    make_review(workspace, folder, count=6, min_decisive=1)
    vote_all(workspace, "bob", prefers("new"))


def test_each_vote_has_an_event_in_its_reviewers_name(workspace: Workspace, tmp_path: Path) -> None:
    open_votes(workspace, tmp_path)
    told = list(workspace.events.events(kind=VOTE_CAST, subject="review:letters"))
    assert {event.actor for event, _ in told} == {"bob"}
    assert [payload["number"] for _, payload in told if payload] == [1, 2, 3, 4, 5, 6]
    assert not any("answered" in (payload or {}) for _, payload in told)
    report = verify(workspace, VerifyRequest())
    assert report.issues == ()
    assert not [caveat for caveat in report.caveats if "letters" in caveat]


@pytest.mark.parametrize("name", VOTE_EDITS)
def test_an_edited_vote_of_an_open_review_is_found(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    open_votes(workspace, tmp_path)
    edit(workspace, VOTE_EDITS[name])
    assert any("review letters: vote bob's" in message for message in messages(workspace))


@pytest.mark.parametrize("name", VOTE_EDITS)
def test_an_edited_vote_never_reaches_a_verdict(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    open_votes(workspace, tmp_path)
    edit(workspace, VOTE_EDITS[name])
    with pytest.raises(IntegrityError, match="review letters does not verify: bob's"):
        close_review(workspace, CloseReview(review="letters", early="now"))


def open_labels(workspace: Workspace, folder: Path) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    act(workspace, GrantRoles(actor="ada", person="olga", roles=("pack_owner",)))
    plan = LabelPlan(name="tone", labels=("good", "bad"), source="pilot")
    create_labels(workspace.acting_as("olga"), plan, write_arm(folder, "new", 3))
    for item in ("q000", "q001", "q002"):
        give_label(workspace, GiveLabel(labels="tone", actor="bob", item=item, label="good"))


@pytest.mark.parametrize("name", LABEL_EDITS)
def test_an_edited_label_is_found_and_never_accepted(
    workspace: Workspace, tmp_path: Path, name: str
) -> None:
    open_labels(workspace, tmp_path)
    assert len(list(workspace.events.events(kind=LABEL_GIVEN))) == 3
    assert messages(workspace) == []
    edit(workspace, LABEL_EDITS[name])
    assert any("label set tone: label" in message for message in messages(workspace))
    with pytest.raises(IntegrityError, match="label set tone does not verify"):
        accept_labels(workspace.acting_as("olga"), AcceptLabels(labels="tone"))


def test_items_that_wait_for_labels_cannot_be_exchanged(
    workspace: Workspace, tmp_path: Path
) -> None:
    open_labels(workspace, tmp_path)
    edit(workspace, "UPDATE label_items SET document = replace(document, 'new 0', 'new 9')")
    assert any("its items differ" in message for message in messages(workspace))


def test_the_key_of_a_review_is_not_in_the_database(workspace: Workspace, tmp_path: Path) -> None:
    open_votes(workspace, tmp_path)
    assert workspace.folder is not None
    (sealed,) = rows(workspace, "SELECT sealed_key FROM reviews")[0]
    assert KEY not in sealed
    workspace.store.forget()
    assert KEY not in (workspace.folder / "gatemark.sqlite3").read_bytes()
    assert workspace.review_key_file.stat().st_mode & 0o777 == 0o600


def rows(workspace: Workspace, query: str) -> list[tuple[bytes, ...]]:
    assert workspace.folder is not None
    with sqlite3.connect(workspace.folder / "gatemark.sqlite3") as connection:
        return connection.execute(query).fetchall()


def test_without_the_file_an_open_review_waits_and_a_closed_one_is_read(
    workspace: Workspace, tmp_path: Path
) -> None:
    open_votes(workspace, tmp_path)
    away = workspace.review_key_file.rename(tmp_path / "away")
    report = verify(workspace, VerifyRequest())
    assert report.issues == ()
    assert [caveat for caveat in report.caveats if "letters: " in caveat]
    with pytest.raises(UsageError, match=r"review\.key is missing; copy it"):
        close_review(workspace, CloseReview(review="letters"))
    away.rename(workspace.review_key_file)
    outcome = close_review(workspace, CloseReview(review="letters"))
    workspace.review_key_file.unlink()
    assert review_outcome(workspace, "letters").key == outcome.key == KEY.hex()
    assert messages(workspace) == []


def test_another_key_file_or_row_does_not_open_a_review(
    workspace: Workspace, tmp_path: Path
) -> None:
    open_votes(workspace, tmp_path)
    workspace.review_key_file.write_text("00" * 32, encoding="ascii")
    with pytest.raises(IntegrityError, match="does not open the key"):
        close_review(workspace, CloseReview(review="letters"))
    assert any("its key differs" in message for message in messages(workspace))


def test_a_key_in_clear_does_not_open_a_review(workspace: Workspace, tmp_path: Path) -> None:
    open_votes(workspace, tmp_path)
    edit(workspace, f"UPDATE reviews SET sealed_key = X'{KEY.hex()}'")
    with pytest.raises(IntegrityError, match="the key in its row is not encrypted"):
        close_review(workspace, CloseReview(review="letters"))
    assert any("its key differs" in message for message in messages(workspace))


def test_a_label_set_without_an_event_is_found(workspace: Workspace, tmp_path: Path) -> None:
    open_labels(workspace, tmp_path)
    for table in ("label_sets", "label_items", "label_marks"):
        name = "name" if table == "label_sets" else "label_set"
        columns = [row[1] for row in rows(workspace, f"PRAGMA table_info({table})")]
        values = ", ".join("'forged'" if column == name else f'"{column}"' for column in columns)
        edit(workspace, f"INSERT INTO {table} SELECT {values} FROM {table}")
    assert any(
        "label set forged: it has no event in the ledger" in message
        for message in messages(workspace)
    )
    with pytest.raises(IntegrityError, match="label set forged does not verify"):
        accept_labels(workspace.acting_as("olga"), AcceptLabels(labels="forged"))
