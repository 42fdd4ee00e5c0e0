"""Attacks on a copied store, each found by `gatemark ledger verify` at the right event."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.result import Result
from gatemark.ledger.checks.verify import verify_ledger
from gatemark.ledger.keys import make_key, sign_checkpoint
from gatemark.ledger.merkle import node_count
from gatemark.workspace import Workspace

from .governed import (
    ASSET,
    FAILED,
    FIRST,
    MOMENT,
    SECOND,
    TWO,
    Governed,
)
from .honest import POLICY, Clock, Honest, enable_second, first_version, roll_back, second_version
from .samples import ATTACHMENT, EVIDENCE, result
from .tamper import Tamperer, tampering

Run = Callable[..., Any]
FIRST_CHECKPOINT = 16


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a whole history, its key, and checkpoints at event 16 and at the end."""
    place = tmp_path_factory.mktemp("original")
    clock = Clock()
    workspace = Workspace(store=str(place / "store"), actor="root", clock=clock)
    make_key(workspace, place / "ledger.key")
    book = Honest(workspace, clock)
    first_version(book)
    second_version(book)
    assert workspace.events.head().seq > FIRST_CHECKPOINT
    (place / "early.txt").write_text(sign_checkpoint(workspace, str(place / "ledger.key")))
    enable_second(book)
    roll_back(book)
    (place / "late.txt").write_text(sign_checkpoint(workspace, str(place / "ledger.key")))
    workspace.store.close()
    return place


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    return copy


@pytest.fixture
def check(gatemark: Run, place: Path) -> Callable[..., Any]:
    """Verify the copy; gives exit code and first bad number."""

    def run(*arguments: object) -> tuple[int, int | None]:
        ran = gatemark("ledger", "verify", "--store", place / "store", "--json", *arguments)
        report = ran.json
        assert (report["verdict"] == "fail") == (ran.code == 4)
        return ran.code, report["first_bad_seq"]

    return run


def early_size(place: Path) -> int:
    return int((place / "early.txt").read_text().split("\n")[1])


def seq_of(place: Path, kind: str, number: int = 0) -> int:
    with sqlite3.connect(place / "store" / "gatemark.sqlite3") as connection:
        query = "SELECT seq FROM events WHERE kind = ? ORDER BY seq"
        found = connection.execute(query, (kind,)).fetchall()
    connection.close()
    return int(found[number][0])


def test_nothing_is_found_in_an_untouched_copy(check: Run, place: Path) -> None:
    key, since = place / "ledger.key.pub", place / "early.txt"
    assert check("--key", key, "--since", since) == (0, None)


@pytest.mark.parametrize("column", ["actor", "subject", "kind", "at", "prev", "digest"])
@pytest.mark.parametrize("seq", [1, 2, 9, 15])
def test_attack_an_event_is_edited(check: Run, place: Path, column: str, seq: int) -> None:
    values = {"at": "2026-05-04T12:00:01Z", "prev": b"\x01" * 32, "digest": b"\x02" * 32}
    with tampering(place / "store") as who:
        who.run(f"UPDATE events SET {column} = ? WHERE seq = ?", values.get(column, "other"), seq)
    assert check() == (4, seq)


@pytest.mark.parametrize("seq", [2, 9, 14])
def test_attack_an_event_is_edited_and_given_a_digest_that_fits(
    check: Run, place: Path, seq: int
) -> None:
    with tampering(place / "store") as who:
        who.put(who.row(seq)._replace(actor="mallory"))
    assert check() == (4, seq)


def test_attack_an_event_is_cut_off_from_its_predecessor(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.put(who.row(11)._replace(prev=b"\x07" * 32))
    assert check() == (4, 11)


@pytest.mark.parametrize("seq", [1, 6, 15])
def test_attack_an_event_is_deleted(check: Run, place: Path, seq: int) -> None:
    with tampering(place / "store") as who:
        who.run("DELETE FROM events WHERE seq = ?", seq)
    assert check() == (4, seq)


def test_attack_an_event_is_deleted_and_the_rest_moved_up(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        last = who.size()
        for table in ("events", "payloads"):
            who.run(f"DELETE FROM {table} WHERE seq = 8")
            who.run(f"UPDATE {table} SET seq = -seq WHERE seq > 8")
            who.run(f"UPDATE {table} SET seq = -seq - 1 WHERE seq < 0")
        assert who.size() == last - 1
    assert check() == (4, 8)


def test_attack_two_events_change_places(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        for table in ("events", "payloads"):
            for before, after in ((6, -1), (7, 6), (-1, 7)):
                who.run(f"UPDATE {table} SET seq = ? WHERE seq = ?", after, before)
    assert check() == (4, 6)


def test_attack_two_events_change_places_and_the_chain_is_mended(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        for before, after in ((13, -1), (14, 13), (-1, 14)):
            who.run("UPDATE events SET seq = ? WHERE seq = ?", after, before)
        who.rechain(13)
    assert check() == (4, 13)


def cut(who: Tamperer, keep: int, *, tidy: bool) -> None:
    who.run("DELETE FROM events WHERE seq > ?", keep)
    if tidy:
        who.run("DELETE FROM payloads WHERE seq > ?", keep)
        who.run("DELETE FROM nodes WHERE number > ?", node_count(keep))


@pytest.mark.parametrize("tidy", [False, True])
def test_attack_the_end_is_cut_off(check: Run, place: Path, tidy: bool) -> None:
    with tampering(place / "store") as who:
        keep = who.size() - 3
        cut(who, keep, tidy=tidy)
    assert check() == (4, keep + 1)


def test_attack_the_end_is_cut_off_with_every_trace_in_the_store(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        keep = who.size() - 2
        cut(who, keep, tidy=True)
        who.run("DELETE FROM checkpoints WHERE size > ?", keep)
    assert check() == (0, None)
    assert check("--since", place / "late.txt") == (4, keep + 1)


def test_attack_the_end_is_cut_off_in_the_middle_of_an_act(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        keep = who.size() - 3
        cut(who, keep, tidy=True)
        who.run("DELETE FROM checkpoints WHERE size > ?", keep)
    assert check() == (4, keep + 1)


def rewrite(who: Tamperer, seq: int) -> None:
    """A perfect forger: another event, and all that follows made to fit it."""
    who.run("UPDATE events SET actor = 'mallory' WHERE seq = ?", seq)
    who.rechain(seq)
    who.rebuild_tree()


def test_attack_history_is_rewritten_throughout(check: Run, place: Path) -> None:
    size = early_size(place)
    with tampering(place / "store") as who:
        rewrite(who, size + 1)
    assert check() == (4, size + 1)


def test_attack_history_is_rewritten_and_its_checkpoints_removed(check: Run, place: Path) -> None:
    size = early_size(place)
    with tampering(place / "store") as who:
        rewrite(who, size + 1)
        who.run("DELETE FROM checkpoints")
    assert check()[0] == 0
    assert check("--since", place / "early.txt")[0] == 0
    assert check("--since", place / "late.txt") == (4, 1)
    both = ("--since", place / "early.txt", "--since", place / "late.txt")
    assert check(*both) == (4, size + 1)


def test_attack_history_is_rewritten_but_not_the_tree(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("UPDATE events SET actor = 'mallory' WHERE seq = 13")
        who.rechain(13)
        who.run("DELETE FROM checkpoints")
    assert check() == (4, 13)


def test_attack_a_forger_signs_with_a_key_of_his_own(
    check: Run, place: Path, tmp_path: Path
) -> None:
    size = early_size(place)
    with tampering(place / "store") as who:
        who.run("DELETE FROM checkpoints")
    other = Workspace(store=str(tmp_path / "other"), clock=lambda: MOMENT)
    make_key(other, tmp_path / "forged.key", name=_origin(place))
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    from gatemark.ledger.keys import read_private_key
    from gatemark.ledger.proof import root_at
    from gatemark.ledger.signing.note import Checkpoint

    key = read_private_key(str(tmp_path / "forged.key"))
    note = Checkpoint(_origin(place), size, root_at(workspace.events, size)).signed(key)
    workspace.events.add_checkpoint(size, note)
    assert check("--key", place / "ledger.key.pub") == (4, size)


def _origin(place: Path) -> str:
    return (place / "early.txt").read_text().split("\n")[0]


def test_attack_a_payload_is_edited(check: Run, place: Path) -> None:
    seq = seq_of(place, "approval")
    edit = "UPDATE payloads SET data = replace(data, '\"approve\"', '\"reject\"') WHERE seq = ?"
    with tampering(place / "store") as who:
        who.run(edit, seq)
    assert check() == (4, seq)


def test_attack_a_payload_is_replaced_with_a_digest_that_fits(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.say(8, {"decision": "approve"})
    assert check() == (4, 8)


def test_attack_a_payload_says_a_key_twice(check: Run, place: Path) -> None:
    seq = seq_of(place, "noted")
    data = b'{"payload":{"text":"a","text":"b"},"salt":"' + b"0" * 32 + b'"}'
    with tampering(place / "store") as who:
        who.run("UPDATE payloads SET data = ? WHERE seq = ?", data, seq)
        raw = bytes.fromhex(digest_bytes(data).removeprefix(DIGEST_PREFIX))
        who.run("UPDATE events SET payload_digest = ? WHERE seq = ?", raw, seq)
        who.rechain(seq)
        who.rebuild_tree()
        who.run("DELETE FROM checkpoints")
    assert check() == (4, seq)


def test_attack_a_payload_is_removed_without_a_tombstone(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("DELETE FROM payloads WHERE seq = 9")
    assert check() == (4, 9)


def test_attack_a_tombstone_excuses_a_payload_that_decisions_rest_on(
    check: Run, place: Path
) -> None:
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    seq = seq_of(place, "approval")
    row = workspace.events.rows_at([seq])[seq]
    named = DIGEST_PREFIX + row.payload_digest.hex()
    Governed(workspace.store).add(
        "payload_erased", "mallory", seq=seq, payload_digest=named, reason="no reason"
    )
    with tampering(place / "store") as who:
        who.run("DELETE FROM payloads WHERE seq = ?", seq)
    assert check() == (4, seq)


def test_attack_an_erased_payload_is_put_back(gatemark: Run, check: Run, place: Path) -> None:
    seq = seq_of(place, "noted")
    with tampering(place / "store") as who:
        data = who.row(seq).payload
    connection = sqlite3.connect(place / "store" / "gatemark.sqlite3")
    ran = gatemark("ledger", "erase", seq, "--reason", "asked for", "--store", place / "store")
    assert ran.code == 0
    assert check() == (0, None)
    connection.execute("INSERT INTO payloads (seq, data) VALUES (?, ?)", (seq, data))
    connection.commit()
    connection.close()
    assert check() == (4, seq)


def test_attack_a_node_of_the_tree_is_edited(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        # Inner nodes 1 to 4 are complete with event 6, 7 nodes with event 8.
        who.run("UPDATE nodes SET hash = ? WHERE number = 4", b"\x05" * 32)
    assert check() == (4, 6)


def test_attack_a_node_of_the_tree_is_removed(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("DELETE FROM nodes WHERE number = 7")
    assert check() == (4, 8)


def test_attack_an_event_is_slipped_in_behind_the_end(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        last = who.size()
        for seq in (last + 1, last + 2):
            before = who.row(seq - 1)
            who.put(who.row(9)._replace(seq=seq, prev=before.digest, at=before.at))
            who.run("INSERT INTO payloads SELECT ?, data FROM payloads WHERE seq = 9", seq)
    code, first = check()
    assert code == 4
    assert first in (last + 1, last + 2)


def test_attack_an_event_is_dated_back(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("UPDATE events SET at = '2026-05-04T12:00:00Z' WHERE seq = 12")
        who.rechain(12)
        who.rebuild_tree()
        who.run("DELETE FROM checkpoints")
    assert check() == (4, 12)


def flip(who: Tamperer, sealed: Result) -> None:
    who.run(
        'UPDATE results SET document = replace(document, \'"verdict":"fail"\', '
        "'\"verdict\":\"pass\"'), verdict = 'pass' WHERE id = ?",
        sealed.id,
    )


def test_attack_the_verdict_of_a_result_is_flipped(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        flip(who, FAILED)
    assert check() == (4, seq_of(place, "result_sealed", 1))


def test_attack_a_result_is_removed(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("DELETE FROM results WHERE id = ?", SECOND.id)
    assert check() == (4, seq_of(place, "result_sealed", 2))


def test_attack_a_result_is_slipped_in_without_an_event(check: Run, place: Path) -> None:
    from gatemark.core.canonical import canonical_bytes

    forged = result("forged", candidate=TWO)
    with tampering(place / "store") as who:
        who.run(
            "INSERT INTO results (id, title, verdict, finished_at, document) "
            "VALUES (?, 'forged', 'pass', '2026', ?)",
            forged.id,
            canonical_bytes(forged),
        )
    assert check() == (4, None)


def test_attack_a_result_is_replaced_by_one_with_another_occasion(check: Run, place: Path) -> None:
    from gatemark.core.canonical import canonical_bytes

    later = MOMENT + timedelta(days=30)
    other = result("first", candidate=FIRST.candidate.digest, with_blobs=True, at=later)
    assert other.id == FIRST.id
    with tampering(place / "store") as who:
        who.run("UPDATE results SET document = ? WHERE id = ?", canonical_bytes(other), FIRST.id)
    assert check() == (4, seq_of(place, "result_sealed", 0))


@pytest.mark.parametrize("data", [EVIDENCE, ATTACHMENT])
@pytest.mark.parametrize("act", ["edited", "removed"])
def test_attack_a_blob_is_edited_or_removed(check: Run, place: Path, data: bytes, act: str) -> None:
    name = digest_bytes(data).removeprefix(DIGEST_PREFIX)
    blob = place / "store" / "blobs" / name[:2] / name
    if act == "removed":
        blob.unlink()
    else:
        blob.write_bytes(data.upper())
    assert check() == (4, seq_of(place, "result_sealed", 0))


def test_attack_a_checkpoint_of_another_ledger_is_shown(
    check: Run, place: Path, tmp_path: Path
) -> None:
    other = Workspace(store=str(tmp_path / "other"), clock=lambda: MOMENT)
    make_key(other, tmp_path / "other.key")
    (tmp_path / "other.txt").write_text(sign_checkpoint(other, str(tmp_path / "other.key")))
    assert check("--since", tmp_path / "other.txt") == (4, 1)


def test_attack_the_wrong_key_is_shown(check: Run, place: Path, tmp_path: Path) -> None:
    other = Workspace(store=str(tmp_path / "other"), clock=lambda: MOMENT)
    made = make_key(other, tmp_path / "other.key")
    assert check("--key", made.key) == (4, early_size(place))


def test_attack_a_signature_is_edited(check: Run, place: Path) -> None:
    note = (place / "early.txt").read_text()
    at = note.index("= ") if "= " in note else len(note) - 20
    forged = note[:at] + ("A" if note[at] != "A" else "B") + note[at + 1 :]
    with tampering(place / "store") as who:
        who.run("UPDATE checkpoints SET note = ? WHERE note = ?", forged, note)
    assert check() == (4, early_size(place))


def test_attack_a_checkpoint_is_kept_under_another_size(check: Run, place: Path) -> None:
    with tampering(place / "store") as who:
        who.run("UPDATE checkpoints SET size = 7 WHERE size = ?", early_size(place))
    assert check() == (4, 7)


def test_attack_a_key_is_added_beside_the_first(check: Run, place: Path) -> None:
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    book = Governed(workspace.store)
    payload = next(payload for _, payload in workspace.events.events(kind="key_added"))
    event = book.add("key_added", "mallory", None, **payload)
    assert check() == (4, event.seq)


def test_attack_a_promotion_is_written_past_the_lifecycle(check: Run, place: Path) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    event = book.move("2", "rolled_back", "enabled", [SECOND])
    assert check() == (4, event.seq)


def test_attack_a_self_approval_is_written_past_the_lifecycle(check: Run, place: Path) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    event = book.approve(TWO, "enabled", [SECOND], actor="alice")
    assert check() == (4, event.seq)


def test_attack_a_whole_promotion_is_appended_by_someone_without_a_role(
    gatemark: Run, check: Run, place: Path
) -> None:
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    book = Governed(workspace.store)
    told = {"asset": ASSET, "environment": "production"}
    policy = POLICY.digest
    # Version 2 was rolled back; its old results and a friend's vote are to bring it back.
    step = {"policy_digest": policy, **told}
    evaluating = book.move("2", "rolled_back", "evaluating", **step)
    book.move("2", "evaluating", "eligible", [SECOND], **step)
    book.move("2", "eligible", "shadow", [SECOND], **step)
    vote = book.approve(TWO, "canary_1", [SECOND], actor="mallory", version="2", **step)
    book.move("2", "shadow", "canary_1", [SECOND], approvals=[vote.seq], **step)
    assert verify_ledger(workspace.store).troubles == ()
    assert check() == (4, evaluating.seq)
    ran = gatemark("ledger", "verify", "--store", place / "store")
    for words in (
        "olga must be author, evaluator or system to take a version to evaluating",
        "olga must be evaluator or system to take a version to eligible",
        "mallory must be approver or security_approver to approve, but is without a role",
        "sign_off: 0 of 1 approvals",
    ):
        assert words in ran.out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE nodes SET hash = zeroblob(32) WHERE number = (SELECT max(number) FROM nodes)",
        "UPDATE nodes SET hash = zeroblob(32)",
        "UPDATE events SET actor = 'mallory' WHERE seq = (SELECT max(seq) - 1 FROM events)",
        "DELETE FROM events WHERE seq = (SELECT max(seq) - 1 FROM events)",
        "DELETE FROM events WHERE seq > 20",
        "UPDATE payloads SET data = x'00' WHERE seq = (SELECT max(seq) FROM events)",
        "DELETE FROM nodes",
    ],
)
def test_what_does_not_verify_is_not_signed(gatemark: Run, place: Path, statement: str) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    for number in range(5):
        book.add("noted", "carol", number=number)
    book.store.close()
    flags = ("--store", place / "store", "--signing-key", place / "ledger.key")
    with tampering(place / "store") as who:
        who.run(statement)
    assert gatemark("ledger", "checkpoint", *flags).code == 4


def test_a_checkpoint_that_somebody_else_put_there_is_not_built_upon(
    gatemark: Run, place: Path, tmp_path: Path
) -> None:
    from gatemark.ledger.keys import read_private_key
    from gatemark.ledger.proof import root_at
    from gatemark.ledger.signing.note import Checkpoint

    other = Workspace(store=str(tmp_path / "other"), clock=lambda: MOMENT)
    make_key(other, tmp_path / "forged.key", name=_origin(place))
    with tampering(place / "store") as who:
        rewrite(who, 7)
        who.run("DELETE FROM checkpoints")
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    size = workspace.events.head().seq
    key = read_private_key(str(tmp_path / "forged.key"))
    workspace.events.add_checkpoint(
        size, Checkpoint(_origin(place), size, root_at(workspace.events, size)).signed(key)
    )
    workspace.store.close()
    flags = ("--store", place / "store", "--signing-key", place / "ledger.key")
    ran = gatemark("ledger", "checkpoint", *flags)
    assert (ran.code, "is not signed by the ledger's key" in ran.err) == (4, True)


def test_events_that_no_checkpoint_covers_are_mentioned(gatemark: Run, place: Path) -> None:
    workspace = Workspace(store=str(place / "store"), clock=lambda: MOMENT)
    size = workspace.events.head().seq
    seen = []
    for _ in range(3):
        ran = gatemark("ledger", "verify", "--store", place / "store", "--json")
        seen.append([caveat for caveat in ran.json["caveats"] if "covers" in caveat])
        Governed(workspace.store).add("noted", "carol")
    assert seen[0] == []
    assert f"no checkpoint covers event {size + 1} yet" in seen[1][0]
    assert f"no checkpoint covers events {size + 1} and later yet" in seen[2][0]


def test_the_database_says_which_guards_are_gone(gatemark: Run, place: Path) -> None:
    with tampering(place / "store"):
        pass
    ran = gatemark("ledger", "verify", "--store", place / "store", "--json")
    assert ran.code == 0
    assert any("no longer prevents" in caveat for caveat in ran.json["caveats"])


def test_the_subject_of_the_history_is_the_asset(place: Path) -> None:
    workspace = Workspace(store=str(place / "store"))
    assert {event.subject for event, _ in workspace.events.events(subject=ASSET)} == {ASSET}


def test_a_history_that_was_rewritten_before_the_last_checkpoint_is_not_signed(
    gatemark: Run, place: Path
) -> None:
    """Every digest and the tree fit; only what was signed before tells."""
    with tampering(place / "store") as who:
        rewrite(who, early_size(place))
    flags = ("--store", place / "store", "--signing-key", place / "ledger.key")
    assert gatemark("ledger", "checkpoint", *flags).code == 4
