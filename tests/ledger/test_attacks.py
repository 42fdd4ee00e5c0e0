"""Attacks on a copied store, each found by `gatemark ledger verify` at the right event."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gatemark as this_build
from gatemark.core.canonical import DIGEST_PREFIX, digest, digest_bytes
from gatemark.core.errors import IntegrityError, InvalidValueError, OtherRulesError
from gatemark.core.result import Result
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import LIFECYCLE_RULES
from gatemark.ledger.keys import make_key, sign_checkpoint
from gatemark.ledger.merkle import node_count
from gatemark.release.lifecycle.commands import AddVersion
from gatemark.workspace import Workspace

from .governed import (
    ASSET,
    FAILED,
    FIRST,
    MOMENT,
    ONE,
    SECOND,
    TWO,
    Governed,
)
from .honest import POLICY, Clock, Honest, enable_second, first_version, roll_back, second_version
from .samples import ATTACHMENT, EVIDENCE, result
from .tamper import GONE, Tamperer, reseal, tampering

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
    note = Checkpoint(_origin(place), size, root_at(workspace.events, size)).sign(key)
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
    assert verify_ledger(workspace.store).issues == ()
    assert check() == (4, evaluating.seq)
    ran = gatemark("ledger", "verify", "--store", place / "store")
    for words in (
        "olga must be author, evaluator or system to take a version to evaluating",
        "olga must be evaluator or system to take a version to eligible",
        "mallory must be approver or security_approver to approve, but is without a role",
        "sign_off: 0 of 1 approvals",
    ):
        assert words in ran.out


OTHER = LIFECYCLE_RULES.current + 1
NOT_AGAIN = f"recorded under lifecycle rules {OTHER}, not decided again"


def by_rules(rules: object) -> dict[str, object]:
    """What a forger writes as ``decided_by``."""
    channel = {"way": "command_line", "authentication": "none"}
    return {"policy_digest": POLICY.digest, "rules": rules, "channel": channel}


def forge_promotion(place: Path, rules: object) -> int:
    """A version that was rolled back is enabled again, by rules that a forger chooses."""
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    told = {"asset": ASSET, "environment": "production", "policy_digest": POLICY.digest}
    return book.move(
        "2", "rolled_back", "enabled", [SECOND], decided_by=by_rules(rules), **told
    ).seq


def test_attack_a_promotion_by_rules_of_the_future_is_not_verified(
    gatemark: Run, check: Run, place: Path
) -> None:
    seq = forge_promotion(place, OTHER)
    assert check() == (3, None)
    ran = gatemark("ledger", "verify", "--store", place / "store")
    assert f"could not be judged: event {seq}: {NOT_AGAIN}" in ran.out


def test_attack_nothing_is_decided_on_top_of_rules_of_the_future(
    gatemark: Run, place: Path
) -> None:
    forge_promotion(place, OTHER)
    workspace = Workspace(store=str(place / "store"))
    before = workspace.existing_store().events.head()
    store = ("--store", place / "store")
    for words in (
        ("promote", f"{ASSET}@2", "--to", "retired", "--actor", "olga"),
        ("approve", f"{ASSET}@2", "--to", "enabled", "--note", "read it", "--actor", "bob"),
        ("asset", "resume", f"{ASSET}@1", "--actor", "olga"),
        ("asset", "add", f"{ASSET}@3", "--digest", FIRST.id, "--actor", "alice"),
        ("release", f"{ASSET}@2", "--dry-run"),
    ):
        ran = gatemark(*words, *store)
        assert (ran.code, NOT_AGAIN in ran.err) == (3, True), ran.err
    assert workspace.events.head() == before


def test_attack_a_version_enabled_by_rules_of_the_future_does_not_serve(
    gatemark: Run, place: Path
) -> None:
    seq = forge_promotion(place, OTHER)
    store = ("--store", place / "store")
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, found.json["primary"]["version"]) == (3, "1")
    assert f"2 is left out: event {seq} is {NOT_AGAIN}" in found.json["warnings"][0]
    assert [one["target"]["version"] for one in found.json["shadow"]] == []
    for words in (("route", ASSET), ("why", f"{ASSET}@2"), ("asset", "show", ASSET)):
        ran = gatemark(*words, *store)
        assert (ran.code, f"event {seq}: {NOT_AGAIN}" in ran.out + ran.err) == (3, True), ran.out


@pytest.mark.parametrize(
    ("words", "live"),
    [
        (("rollback", ASSET), "1"),
        (("rollback", f"{ASSET}@2", "--to", "1"), "1"),
        (("demote", f"{ASSET}@2", "--reason", "nobody here can decide it"), "1"),
        # What serves is 1, so that is what is demoted, whatever the forger says is enabled.
        (("demote", ASSET, "--reason", "nobody here can decide it", "--stop"), None),
        (("asset", "pause", f"{ASSET}@1"), "1"),
    ],
)
def test_what_takes_away_goes_on_after_rules_of_the_future(
    gatemark: Run, check: Run, place: Path, words: tuple[str, ...], live: str | None
) -> None:
    seq = forge_promotion(place, OTHER)
    store = ("--store", place / "store")
    done = gatemark(*words, "--actor", "olga", *store)
    assert done.code == 0, done.err
    assert f"NOT DECIDED: event {seq}: {NOT_AGAIN}" in done.err
    assert check() == (3, None)
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, (found.json["primary"] or {}).get("version")) == (3, live)
    assert found.json["undecided"] == [f"event {seq}: {NOT_AGAIN}: this build has rules 1"]


def test_attack_no_version_by_rules_of_the_future_is_returned_to(
    gatemark: Run, check: Run, place: Path
) -> None:
    """A forger fills the list of versions to return to; none of them takes a place in it."""
    forge_promotion(place, OTHER)
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    told = {"asset": ASSET, "environment": "production", "policy_digest": POLICY.digest}
    forged = {"decided_by": by_rules(OTHER), **told}
    for name in ("1", "2", "1"):
        book.move(name, "superseded", "enabled", [SECOND], **forged)
    store = ("--store", place / "store")
    live = f"{ASSET}@1"
    assert gatemark("rollback", live, "--actor", "olga", *store).code == 1
    done = gatemark("rollback", live, "--actor", "olga", "--stop", *store, "--json")
    assert done.code == 0, done.err
    assert [event["fact"]["after"] for event in done.json["events"]] == ["rolled_back"]
    assert check() == (3, None)
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, found.json["primary"]) == (3, None)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("transition", {"before": "superseded", "after": "shadow", "cause": "demote"}),
        ("transition", {"before": "enabled", "after": "enabled", "cause": "rollback"}),
        ("transition", {"before": "enabled", "after": "enabled", "cause": "demote"}),
        ("pause", {"reason": None}),
        ("break_glass_reviewed", {"incident": "i-1"}),
    ],
)
def test_attack_an_event_by_rules_of_the_future_calls_itself_harmless(
    gatemark: Run, place: Path, kind: str, payload: dict[str, Any]
) -> None:
    """What counts is whether the version gains by it, not what the event is called."""
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    more = {"candidate_digest": TWO, "policy_digest": POLICY.digest, "result_ids": [SECOND.id]}
    said = {"asset": ASSET, "environment": "production", "version": "2"}
    said |= more | payload if kind == "transition" else payload
    seq = book.add(kind, "mallory", decided_by=by_rules(OTHER), **said).seq
    card = gatemark("asset", "show", ASSET, "--store", place / "store", "--json")
    assert card.code == 3
    assert {one["version"]: one["is_undecided"] for one in card.json["versions"]}["2"]
    found = gatemark("route", ASSET, "--store", place / "store", "--json")
    assert (found.code, found.json["primary"]["version"]) == (3, "1")
    assert str(seq) in found.json["undecided"][0]
    assert found.json["shadow"] == []


def test_attack_a_version_gets_other_pins_by_rules_of_the_future(
    gatemark: Run, place: Path
) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    said = {"asset": ASSET, "kind": "prompt", "version": "1", "digest": ONE, "author": "mallory"}
    pins = {"model": "a-model-of-mallory"}
    store = ("--store", place / "store")
    before = gatemark("route", ASSET, *store, "--json").json["primary"]
    book.add("asset_registered", "mallory", decided_by=by_rules(OTHER), pins=pins, **said)
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, found.json["primary"]) == (3, before)
    assert before["version"] == "1"


@pytest.mark.parametrize("roles", [["admin", "operator", "approver"], []])
def test_attack_roles_by_rules_of_the_future_give_and_take_no_right(
    gatemark: Run, place: Path, roles: list[str]
) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    person = "mallory" if roles else "olga"
    said = {"actor": person, "roles": roles, "decided_by": by_rules(OTHER)}
    book.add("roles_granted", "mallory", "*", **said)
    store = ("--store", place / "store")
    ran = gatemark("demote", ASSET, "--stop", "--reason", "x", "--actor", "mallory", *store)
    assert (ran.code, "mallory must be" in ran.err) == (1, True), ran.err
    ran = gatemark("role", "list", *store, "--json")
    assert "mallory" not in ran.out
    ran = gatemark("demote", ASSET, "--stop", "--reason", "x", "--actor", "olga", *store)
    assert ran.code == 0, ran.err


def test_attack_a_policy_by_rules_of_the_future_is_not_in_force(gatemark: Run, place: Path) -> None:
    policy = msgspec.to_builtins(msgspec.structs.replace(POLICY, rollback_window=0))
    said = {"policy": policy, "policy_digest": digest(policy), "decided_by": by_rules(OTHER)}
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    book.add("policy_changed", "mallory", "*", **said)
    store = ("--store", place / "store")
    ran = gatemark("policy", "show", *store)
    assert digest(policy) not in ran.out
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, found.json["primary"]["version"]) == (3, "1")


@pytest.mark.parametrize("cause", ["promote", "rollback"])
def test_attack_a_version_that_was_never_added_does_not_serve(
    gatemark: Run, place: Path, cause: str
) -> None:
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    told = {"asset": ASSET, "environment": "production", "policy_digest": POLICY.digest}
    decided = by_rules(LIFECYCLE_RULES.current)
    book.move("9", "superseded", "enabled", [SECOND], cause=cause, decided_by=decided, **told)
    found = gatemark("route", ASSET, "--store", place / "store", "--json")
    assert (found.code, found.json["primary"]["version"]) == (0, "1")
    assert found.json["warnings"][0] == "9 is left out: it was never added"
    # Nor does it stand in for what serves.
    words = ("demote", ASSET, "--stop", "--reason", "x", "--actor", "olga")
    done = gatemark(*words, "--store", place / "store")
    assert (done.code, f"{ASSET}@1: enabled → demoted" in done.out) == (0, True), done.err


def test_attack_rules_of_the_future_excuse_no_later_decision_of_the_asset(
    check: Run, place: Path
) -> None:
    seq = forge_promotion(place, OTHER)
    later = forge_promotion(place, LIFECYCLE_RULES.current)
    assert later == seq + 1
    assert check() == (4, later)


def test_attack_rules_of_the_future_excuse_no_forgery_elsewhere(check: Run, place: Path) -> None:
    forge_promotion(place, OTHER)
    book = Governed(Workspace(store=str(place / "store"), clock=lambda: MOMENT).store)
    granted = book.add(
        "roles_granted",
        "mallory",
        "*",
        actor="mallory",
        roles=["admin"],
        decided_by=by_rules(LIFECYCLE_RULES.current),
    )
    assert check() == (4, granted.seq)


@pytest.mark.parametrize("rules", [0, -1, 1.5, "1", True, None, [1], 2**70])
def test_attack_a_promotion_by_rules_that_never_were_is_found(
    check: Run, place: Path, rules: object
) -> None:
    if rules == 2**70:
        with pytest.raises(InvalidValueError):
            forge_promotion(place, rules)
        return
    seq = forge_promotion(place, rules)
    assert check() == (4, seq)


def gone(payload: dict[str, Any]) -> None:
    del payload["decided_by"]


FLAWS = {
    "rules that never were": lambda payload: payload["decided_by"].update(rules=0),
    "nothing that decided it": gone,
    "a stage that is none": lambda payload: payload.update(after="nonsense"),
    "rules of the future": lambda payload: payload["decided_by"].update(rules=OTHER),
}


def forge_like_the_last(place: Path, kind: str, subject: str, flaw: Any, **said: Any) -> int:
    """Append an event that is a copy of the last of its kind, but for a flaw."""
    store = Workspace(store=str(place / "store"), clock=lambda: MOMENT).store
    _, last = list(store.events.events(kind=kind, subject=subject))[-1]
    payload = msgspec.json.decode(msgspec.json.encode({**(last or {}), **said}))
    flaw(payload)
    draft = EventDraft(kind, Governed(store).next_minute(), "mallory", subject, payload)
    (event,) = store.events.append([draft])
    return event.seq


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=FLAWS)
def test_attack_a_flawed_event_blocks_nothing_that_takes_away(
    gatemark: Run, check: Run, place: Path, flaw: Any
) -> None:
    said = {"version": "2", "before": "rolled_back", "after": "enabled", "cause": "promote"}
    seq = forge_like_the_last(place, "transition", ASSET, flaw, **said)
    store = ("--store", place / "store")
    assert check()[0] in (3, 4)
    found = gatemark("route", ASSET, *store, "--json")
    assert (found.code, found.json["primary"]["version"]) == (3, "1")
    assert f"event {seq}" in found.json["undecided"][0]
    for words in (
        ("asset", "pause", f"{ASSET}@1", "--actor", "olga"),
        ("demote", ASSET, "--stop", "--reason", "x", "--actor", "olga"),
    ):
        done = gatemark(*words, *store)
        assert (done.code, f"NOT DECIDED: event {seq}" in done.err) == (0, True), done.err
    assert gatemark("route", ASSET, *store, "--json").json["primary"] is None
    add = ("asset", "add", f"{ASSET}@3", "--digest", FIRST.id, "--actor", "alice")
    assert gatemark(*add, *store).code in (3, 4)


@pytest.mark.parametrize("roles", [["admin"], "x"])
def test_attack_a_flawed_grant_blocks_nothing_that_takes_away(
    gatemark: Run, place: Path, roles: Any
) -> None:
    forge_like_the_last(
        place,
        "roles_granted",
        "*",
        lambda payload: payload["decided_by"].update(rules=0),
        actor="mallory",
        roles=roles,
    )
    store = ("--store", place / "store")
    refused = gatemark("demote", ASSET, "--stop", "--reason", "x", "--actor", "mallory", *store)
    assert (refused.code, "mallory must be" in refused.err) == (1, True), refused.err
    done = gatemark("demote", ASSET, "--stop", "--reason", "x", "--actor", "olga", *store)
    assert (done.code, "NOT DECIDED: event" in done.err) == (0, True), done.err
    granted = gatemark("role", "grant", "zoe", "viewer", "--actor", "root", *store)
    assert granted.code == 4, granted.err


@pytest.mark.parametrize("flaw", list(FLAWS.values())[:2], ids=list(FLAWS)[:2])
def test_attack_a_flawed_demotion_still_counts(gatemark: Run, place: Path, flaw: Any) -> None:
    """Who makes a demotion undecidable does not bring the version back."""
    said = {"version": "1", "before": "enabled", "after": "demoted", "cause": "demote"}
    forge_like_the_last(place, "transition", ASSET, flaw, **said)
    found = gatemark("route", ASSET, "--store", place / "store", "--json")
    assert (found.code, found.json["primary"]) == (3, None)


def decisions(who: Tamperer) -> list[int]:
    found = who.connection.execute("SELECT seq, data FROM payloads ORDER BY seq")
    return [seq for seq, data in found if b'"decided_by"' in data]


def rename_rules(who: Tamperer, seqs: list[int]) -> None:
    """A perfect forger names other rules in some decisions; all that follows is made to fit."""
    for seq in seqs:
        payload = msgspec.json.decode(who.row(seq).payload)["payload"]
        payload["decided_by"]["rules"] = OTHER
        who.say(seq, payload)
    who.rechain(seqs[0])
    who.rebuild_tree()
    who.run("DELETE FROM checkpoints")


@pytest.mark.parametrize("number", [0, 3, 12, 20, -4])
def test_attack_the_rules_of_one_decision_are_renamed(check: Run, place: Path, number: int) -> None:
    with tampering(place / "store") as who:
        known = decisions(who)
        rename_rules(who, [known[number]])
    code, first = check()
    assert code == 4
    assert first is not None
    assert first > known[number]


@pytest.mark.parametrize("number", [0, 3, 12, 20, -2])
def test_attack_the_rules_of_every_later_decision_are_renamed(
    check: Run, place: Path, number: int
) -> None:
    with tampering(place / "store") as who:
        rename_rules(who, decisions(who)[number:])
    assert check() == (3, None)
    assert check("--since", place / "late.txt")[0] == 4


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
        size, Checkpoint(_origin(place), size, root_at(workspace.events, size)).sign(key)
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


def add_and_cite(place: Path, made: Result) -> None:
    """Put a result into the store, and let the lifecycle rest version 3 on it."""
    clock = Clock()
    clock.now = MOMENT + timedelta(days=30)
    workspace = Workspace(store=str(place / "store"), actor="root", clock=clock)
    workspace.results.append(made)
    book = Honest(workspace, clock)
    assert made.candidate is not None
    try:
        book.do(
            AddVersion(
                actor="alice",
                asset=ASSET,
                kind="prompt",
                version="3",
                digest=made.candidate.digest,
            )
        )
        book.promote("3", "evaluating", actor="alice")
        book.promote("3", "eligible", made, actor="eve")
    finally:
        workspace.store.close()


def third(**members: object) -> Result:
    """A passing result on version 3, with members as a forger wants them."""
    at = MOMENT + timedelta(days=30)
    candidate = digest_bytes(b"version 3")
    made = result("third", candidate=candidate, at=at, answered_at=at, with_blobs=True)
    return reseal(made, **members)


def test_an_honest_result_can_be_cited(check: Run, place: Path) -> None:
    add_and_cite(place, third())
    assert check() == (0, None)


@pytest.mark.parametrize(
    "rules", [GONE, {}, {"pack": 0}, {"pack": True}, {"pack": "1"}, {"pack": 2}, {"pack": 99}]
)
def test_a_result_with_a_forged_version_of_rules_is_found_and_not_cited(
    check: Run, place: Path, rules: object
) -> None:
    runtime = {**third().runtime, "gatemark": this_build.__version__}
    with pytest.raises(IntegrityError):
        add_and_cite(place, third(rules=rules, runtime=runtime))
    assert check() == (4, seq_of(place, "result_sealed", -1))


def test_a_result_of_a_future_build_is_recorded_and_not_cited(
    check: Run, gatemark: Run, place: Path
) -> None:
    runtime = {**third().runtime, "gatemark": "99.0.0"}
    with pytest.raises(OtherRulesError, match="recorded under pack rules 2"):
        add_and_cite(place, third(rules={"pack": 2}, runtime=runtime))
    assert check() == (3, None)
    ran = gatemark("ledger", "verify", "--store", place / "store")
    assert "recorded under pack rules 2, not decided again" in ran.out


def test_changed_bytes_of_a_result_of_a_future_build_are_found(check: Run, place: Path) -> None:
    runtime = {**third().runtime, "gatemark": "99.0.0"}
    with pytest.raises(OtherRulesError):
        add_and_cite(place, third(rules={"pack": 2}, runtime=runtime))
    with tampering(place / "store") as who:
        changed = "replace(CAST(document AS TEXT), '\"third\"', '\"thirt\"')"
        who.run(f"UPDATE results SET document = {changed} WHERE title = 'third'")
    assert check() == (4, seq_of(place, "result_sealed", -1))
