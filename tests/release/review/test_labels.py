from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.errors import IntegrityError, InvalidValueError, RefusedError, UsageError
from gatemark.evidence.rows import read_dataset
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.review.events import LABELS_ACCEPTED
from gatemark.release.review.labelling import LabelPlan
from gatemark.release.review.labels import (
    AcceptLabels,
    GiveLabel,
    accept_labels,
    create_labels,
    give_label,
    label_status,
    next_sample,
    read_accepted_rows,
)
from gatemark.workspace import Workspace

from .arms import write_arm

As = Callable[[str], Workspace]


@pytest.fixture
def acting(tmp_path: Path) -> As:
    """The same store through the eyes of different people; olga owns packs."""

    def workspace(actor: str) -> Workspace:
        return Workspace(store=str(tmp_path / "store"), actor=actor, jobs=1)

    act(workspace("root"), GrantRoles(actor="root", person="root", roles=("admin",)))
    act(workspace("root"), GrantRoles(actor="root", person="olga", roles=("pack_owner",)))
    return workspace


def make_set(workspace: Workspace, folder: Path, count: int = 3, **plan: Any) -> None:
    settled = LabelPlan(name="tone", labels=("good", "bad"), source="pilot", **plan)
    assert create_labels(workspace, settled, write_arm(folder, "new", count)) == count


def give(workspace: Workspace, reviewer: str, item: str, label: str) -> int:
    return give_label(workspace, GiveLabel(labels="tone", actor=reviewer, item=item, label=label))


def accept(workspace: Workspace, **chosen: str) -> Any:
    return accept_labels(workspace, AcceptLabels(labels="tone", chosen=chosen))


def test_accepted_labels_become_a_data_set(acting: As, tmp_path: Path) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path)
    while (sample := next_sample(olga, "tone", "bob")) is not None:
        give(olga, "bob", sample.id, "good" if sample.id != "q001" else "bad")
    found = accept(olga)
    assert (found.accepted_count, found.open) == (3, {})
    path = tmp_path / "labels.jsonl"
    path.write_bytes(read_accepted_rows(olga, "tone"))
    rows = read_dataset(str(path), "labels").rows
    assert [row.extra["label"] for row in rows] == ["good", "bad", "good"]
    assert rows[0].extra["output"] == "new 0"
    assert rows[0].extra["label_reviewers"] == ["bob"]
    assert rows[0].extra["label_source"] == "pilot"
    (event,) = [payload for event, payload in olga.events.events() if event.kind == LABELS_ACCEPTED]
    assert event is not None
    assert olga.blobs.get(event["dataset_digest"]) == path.read_bytes()


def test_a_golden_set_gets_targets(acting: As, tmp_path: Path) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path, count=1, field="target")
    give(olga, "bob", "q000", "good")
    accept(olga)
    row = json.loads(read_accepted_rows(olga, "tone"))
    assert row["target"] == "good"
    assert "output" not in row


@pytest.mark.parametrize("person", ["bob", "root"])
def test_only_a_pack_owner_accepts(acting: As, tmp_path: Path, person: str) -> None:
    workspace = acting(person)
    make_set(acting("olga"), tmp_path)
    give(workspace, "cyd", "q000", "good")
    with pytest.raises(RefusedError, match="must be pack_owner to accept labels"):
        accept(workspace)
    with pytest.raises(RefusedError, match="no label of tone is accepted"):
        read_accepted_rows(workspace, "tone")


def test_owners_do_not_accept_what_only_they_said(acting: As, tmp_path: Path) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path, count=1)
    give(olga, "olga", "q000", "good")
    assert accept(olga).open == {
        "q000": "only olga gave this label; another reviewer must give it too"
    }
    give(olga, "bob", "q000", "good")
    assert accept(olga).accepted_count == 1


def test_what_people_disagree_on_waits_for_a_choice(acting: As, tmp_path: Path) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path, count=2, labels_per_item=2)
    give(olga, "bob", "q000", "good")
    assert label_status(olga, "tone").open["q000"] == "1 of 2 labels"
    give(olga, "cyd", "q000", "bad")
    assert accept(olga).open == {
        "q000": "no majority: bad and good",
        "q001": "0 of 2 labels",
    }
    assert accept(olga, q000="bad").accepted_count == 1
    assert json.loads(read_accepted_rows(olga, "tone"))["label_reviewers"] == ["cyd"]
    with pytest.raises(UsageError, match="lacks item 'q9'"):
        accept(olga, q9="bad")
    with pytest.raises(InvalidValueError, match="not a label of tone"):
        accept(olga, q001="meh")


def test_a_changed_label_is_a_new_version_and_must_be_accepted_anew(
    acting: As, tmp_path: Path
) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path, count=1)
    assert [give(olga, "bob", "q000", label) for label in ("good", "good", "bad")] == [1, 1, 2]
    accept(olga)
    assert accept(olga).accepted_count == 0
    give(olga, "bob", "q000", "good")
    before = json.loads(read_accepted_rows(olga, "tone"))
    assert (before["label"], before["label_version"]) == ("bad", 1)
    accept(olga)
    after = json.loads(read_accepted_rows(olga, "tone"))
    assert (after["label"], after["label_version"]) == ("good", 2)


def test_rows_that_the_ledger_does_not_know_are_not_exported(acting: As, tmp_path: Path) -> None:
    olga = acting("olga")
    make_set(olga, tmp_path, count=1)
    give(olga, "bob", "q000", "good")
    accept(olga)
    with olga.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER label_acceptances_no_update")
        connection.exec_driver_sql("UPDATE label_acceptances SET label = 'bad'")
    with pytest.raises(IntegrityError, match="differs from what the ledger says"):
        read_accepted_rows(olga, "tone")


@pytest.mark.parametrize(
    ("item", "label", "problem"),
    [
        ("q9", "good", "lacks item 'q9'"),
        ("q000", "fine", "'fine' is not a label"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    acting: As, tmp_path: Path, item: str, label: str, problem: str
) -> None:
    workspace = acting("bob")
    make_set(workspace, tmp_path)
    with pytest.raises(UsageError, match=problem):
        give(workspace, "bob", item, label)


def test_named_reviewers_only(acting: As, tmp_path: Path) -> None:
    workspace = acting("bob")
    make_set(workspace, tmp_path, reviewers=("bob",))
    with pytest.raises(RefusedError, match="eve is not a reviewer"):
        next_sample(workspace, "tone", "eve")
