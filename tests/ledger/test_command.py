from __future__ import annotations

import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gatemark.ledger.event import EventDraft
from gatemark.workspace import Workspace

Run = Callable[..., Any]


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    workspace = Workspace(store=str(tmp_path / "store"), actor="alice")
    workspace.events.append(
        [EventDraft("noted", now(), "alice", "triage", {"text": f"note {n}"}) for n in range(6)]
    )
    workspace.store.close()
    return tmp_path / "store"


@pytest.fixture
def ledger(gatemark: Run, store: Path) -> Run:
    return lambda verb, *arguments: gatemark("ledger", verb, *arguments, "--store", store)


@pytest.fixture
def key(ledger: Run, tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "ledger.key"
    assert ledger("keygen", path).code == 0
    return path


def public(path: Path) -> Path:
    return path.with_name(path.name + ".pub")


def test_a_private_key_is_for_its_owner_alone_and_never_printed(
    ledger: Run, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.key"
    ran = ledger("keygen", path, "--json")
    secret = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.startswith("PRIVATE+KEY+gatemark/ledger/")
    assert secret.split("+", 4)[4] not in ran.out + ran.err
    assert ran.json["key"] == public(path).read_text().strip()
    told = ledger("log", "--kind", "key_added", "--json").json
    assert [event["seq"] for event in told] == [7]
    assert secret.split("+", 4)[4] not in json.dumps(told)


def test_a_key_is_never_overwritten_and_comes_once(ledger: Run, key: Path, tmp_path: Path) -> None:
    before = key.read_bytes()
    assert ledger("keygen", key).code == 1
    ran = ledger("keygen", tmp_path / "second.key")
    assert (ran.code, "the ledger already has a key" in ran.err) == (1, True)
    assert key.read_bytes() == before
    assert not (tmp_path / "second.key").exists()
    (tmp_path / "taken").write_text("mine")
    ran = ledger("rotate", tmp_path / "taken", "--signing-key", key)
    assert (ran.code, "is never overwritten" in ran.err) == (2, True)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_key_for_an_empty_store_names_the_ledger_first(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("ledger", "keygen", tmp_path / "k", "--store", tmp_path / "new")
    assert ran.code == 0
    kinds = gatemark("ledger", "log", "--store", tmp_path / "new").out
    assert [line.split()[3] for line in kinds.splitlines()] == ["ledger_opened", "key_added"]


def test_a_private_key_that_others_can_read_is_refused(ledger: Run, key: Path) -> None:
    key.chmod(0o644)
    ran = ledger("checkpoint", "--signing-key", key)
    assert (ran.code, "other users can read this private key" in ran.err) == (2, True)


@pytest.mark.parametrize("content", ["", "garbage", "PRIVATE+KEY+a+b+c", "x" * 5000])
def test_what_is_no_private_key_is_refused(
    ledger: Run, key: Path, tmp_path: Path, content: str
) -> None:
    other = tmp_path / "other.key"
    other.write_text(content)
    other.chmod(0o600)
    ran = ledger("checkpoint", "--signing-key", other)
    assert ran.code == 2
    assert ran.err.startswith(f"gatemark: {other}: ")
    assert ledger("checkpoint", "--signing-key", tmp_path / "nowhere").code == 2


def test_a_checkpoint_is_kept_and_shows_what_came_later_to_be_a_continuation(
    ledger: Run, store: Path, key: Path, tmp_path: Path
) -> None:
    note = tmp_path / "checkpoint.txt"
    assert ledger("checkpoint", "--signing-key", key, "-o", note).code == 0
    assert note.read_text().split("\n")[1] == "7"
    Workspace(store=str(store)).events.append([EventDraft("noted", now(), "a", None, {})])
    printed = ledger("checkpoint", "--signing-key", key).out
    assert printed.split("\n")[1] == "8"
    ran = ledger("verify", "--key", public(key), "--since", note, "--json")
    assert (ran.code, ran.json["verdict"], ran.json["checkpoints"]) == (0, "pass", 3)
    assert ran.json["caveats"] == []


def test_verify_says_what_it_could_not_judge(ledger: Run, key: Path) -> None:
    ran = ledger("verify")
    assert (ran.code, "note: no checkpoint was checked" in ran.out) == (0, True)
    ran = ledger("verify", "--key", public(key))
    assert (ran.code, "could not be judged: the ledger has no checkpoint" in ran.out) == (3, True)


def test_trust_follows_a_rotation_and_not_a_lost_key(
    ledger: Run, key: Path, tmp_path: Path
) -> None:
    second, third = tmp_path / "second.key", tmp_path / "third.key"
    assert ledger("checkpoint", "--signing-key", key).code == 0
    assert ledger("rotate", second, "--signing-key", key).code == 0
    ran = ledger("checkpoint", "--signing-key", key)
    assert (ran.code, "is not the key of this ledger" in ran.err) == (1, True)
    assert ledger("checkpoint", "--signing-key", second).code == 0
    assert ledger("verify", "--key", public(key)).code == 0
    assert ledger("verify", "--key", public(second)).code == 4
    assert ledger("verify", "--key", public(second), "--key", public(key)).code == 0
    assert ledger("rotate", third, "--lost", "stolen").code == 0
    assert ledger("checkpoint", "--signing-key", third).code == 0
    ran = ledger("verify", "--key", public(key), "--json")
    assert (ran.code, ran.json["first_bad_seq"]) == (4, 9)
    ran = ledger("verify", "--key", public(key), "--key", public(third), "--json")
    assert ran.code == 0
    assert any(
        "replaced without a signature of the old one (stolen)" in c for c in ran.json["caveats"]
    )


def test_rotation_needs_the_old_key_or_a_reason(ledger: Run, key: Path, tmp_path: Path) -> None:
    assert ledger("rotate", tmp_path / "n").code == 2
    for unsaid in (" ", "\u200b\u2800"):
        assert ledger("rotate", tmp_path / "n", "--lost", unsaid).code == 2
    assert ledger("rotate", tmp_path / "n", "--signing-key", key, "--lost", "x").code == 2
    assert not (tmp_path / "n").exists()


def test_a_proof_stands_alone(gatemark: Run, ledger: Run, key: Path, tmp_path: Path) -> None:
    assert ledger("prove", 3).code == 2
    assert ledger("checkpoint", "--signing-key", key).code == 0
    ran = ledger("prove", 3)
    assert ran.json["event"]["seq"] == 3
    assert ran.json["proof"].startswith("c2sp.org/tlog-proof@v1\nindex 2\n")
    proof = tmp_path / "proof.json"
    proof.write_text(ran.out)
    check = ("ledger", "prove", "--check", proof)
    ran = gatemark(*check, "--key", public(key))
    assert (ran.code, ran.out) == (0, "event 3 (noted) is in the signed ledger\n")
    assert gatemark(*check).code == 2
    forged = proof.read_text().replace('"actor": "alice"', '"actor": "mallory"')
    proof.write_text(forged)
    ran = gatemark(*check, "--key", public(key))
    assert (ran.code, "is not in the signed tree" in ran.err) == (4, True)
    assert ledger("prove", 99).code == 2
    assert ledger("prove").code == 2


def test_growth_is_proved_by_two_checkpoints_alone(
    gatemark: Run, ledger: Run, store: Path, key: Path, tmp_path: Path
) -> None:
    early, late, proof = (tmp_path / name for name in ("early.txt", "late.txt", "growth.json"))
    assert ledger("checkpoint", "--signing-key", key, "-o", early).code == 0
    Workspace(store=str(store)).events.append([EventDraft("noted", now(), "a", None, {})] * 6)
    assert ledger("checkpoint", "--signing-key", key, "-o", late).code == 0
    proof.write_text(ledger("prove", "--since", early).out)
    check = ("ledger", "prove", "--check", proof, "--key", public(key))
    ran = gatemark(*check)
    assert (ran.code, ran.out) == (0, "the ledger of 13 events began as the one of 7 events\n")
    said = json.loads(proof.read_text())
    for forged in (
        {**said, "hashes": said["hashes"][:-1]},
        {**said, "hashes": [said["hashes"][-1], *said["hashes"][1:]]},
        {**said, "later": said["earlier"]},
        {**said, "earlier": said["earlier"].replace("\n7\n", "\n6\n")},
    ):
        proof.write_text(json.dumps(forged))
        assert gatemark(*check).code == 4
    proof.write_text(json.dumps({**said, "hashes": ["!"]}))
    assert gatemark(*check).code == 2
    proof.write_text("{}")
    assert gatemark(*check).code == 2
    assert ledger("prove", "--since", late, "--checkpoint", early).code == 2
    assert ledger("prove", 3, "--since", early).code == 2


def test_an_erased_payload_is_gone_and_the_ledger_still_verifies(
    ledger: Run, store: Path, key: Path, tmp_path: Path
) -> None:
    note = tmp_path / "checkpoint.txt"
    assert ledger("checkpoint", "--signing-key", key, "-o", note).code == 0
    ran = ledger("erase", 2, "--reason", "asked for")
    assert (ran.code, ran.out) == (0, "erased 2; recorded in event 8\n")
    assert b"note 1" not in _all_bytes(store)
    assert b"note 0" in _all_bytes(store)
    ran = ledger("verify", "--key", public(key), "--since", note, "--json")
    assert (ran.code, ran.json["payloads_erased"]) == (0, 1)
    assert "(erased)" in ledger("log").out.splitlines()[1]


def _all_bytes(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("what", "code"), [("7", 1), ("99", 2), ("x", 2), ("sha256:" + "0" * 64, 2), ("-1", 2)]
)
def test_what_cannot_be_erased_is_refused(
    gatemark: Run, store: Path, key: Path, what: str, code: int
) -> None:
    flags = ("--store", store)
    assert gatemark("ledger", "erase", *flags, "--reason", "because", "--", what).code == code
    assert gatemark("ledger", "erase", *flags, "--reason", " ", "1").code == 2
    assert gatemark("ledger", "verify", *flags).code == 0


def test_a_payload_is_erased_once(ledger: Run) -> None:
    assert ledger("erase", 2, "--reason", "asked for").code == 0
    ran = ledger("erase", 2, "--reason", "asked again")
    assert (ran.code, ran.out) == (0, "erased 2; recorded in event 7\n")
    assert len(ledger("log").out.splitlines()) == 7


def test_the_log_can_be_narrowed(ledger: Run) -> None:
    assert len(ledger("log", "--after", 4, "--json").json) == 2
    assert len(ledger("log", "--limit", 3).out.splitlines()) == 3
    assert ledger("log", "--subject", "nobody").out == ""


def test_a_clock_that_was_ahead_can_be_set_back_for_all_to_see(ledger: Run, store: Path) -> None:
    events = Workspace(store=str(store)).events
    events.append([EventDraft("noted", now() + timedelta(days=400), "a", None, {})])
    assert ledger("erase", 1, "--reason", "x").code == 1
    for unsaid in (" ", "\u200b\u2800"):
        assert ledger("resync-clock", "--reason", unsaid).code == 2
    ran = ledger("resync-clock", "--reason", "host b was ahead")
    assert ran.code == 0
    assert ledger("erase", 1, "--reason", "x").code == 0
    assert ledger("verify").code == 0
    assert "clock_set_back" in ledger("log").out


def test_looking_makes_no_store(gatemark: Run, tmp_path: Path) -> None:
    for verb in (
        ("verify",),
        ("log",),
        ("export", tmp_path / "e"),
        ("erase", "1", "--reason", "x"),
    ):
        ran = gatemark("ledger", *verb, "--store", tmp_path / "new")
        assert (ran.code, "there is no store at" in ran.err) == (2, True)
    assert not list(tmp_path.iterdir())


def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    opinion = {"label": "VALID"}
    rows = [{"qid": f"Q{n}", "scholar": opinion, "auditor": opinion} for n in range(50)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_everything_works_on_postgresql_too(
    gatemark: Run, postgres_url: str, tmp_path: Path
) -> None:
    flags = ("--store", postgres_url)
    ran = gatemark("list", *flags)
    assert (ran.code, "there is no store at postgresql://" in ran.err) == (2, True)
    ran = gatemark("score", "agreement", "--pairs", pairs(tmp_path), "--seal", *flags, "-j", 1)
    assert ran.code == 0
    assert len(gatemark("list", *flags, "--json").json) == 1
    assert gatemark("ledger", "keygen", tmp_path / "k", *flags).code == 0
    assert gatemark("ledger", "checkpoint", "--signing-key", tmp_path / "k", *flags).code == 0
    ran = gatemark("ledger", "verify", "--rescore", "--key", tmp_path / "k.pub", *flags, "--json")
    assert (ran.code, ran.json["results"], ran.json["blobs"]) == (0, 1, 4)
    out = tmp_path / "out"
    ran = gatemark("ledger", "export", out, "--signing-key", tmp_path / "k", *flags)
    assert ran.code == 0
    assert gatemark("ledger", "verify", out, "--rescore", "--key", tmp_path / "k.pub").code == 0
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE events DISABLE TRIGGER ALL")
        connection.execute("UPDATE events SET actor = 'mallory' WHERE seq = 1")
    ran = gatemark("ledger", "verify", *flags, "--json")
    assert (ran.code, ran.json["first_bad_seq"]) == (4, 1)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:secret@127.0.0.1:1/nowhere",
        "postgresql://user:secret@127.0.0.1:notaport/x",
        "mysql://user:secret@host/db",
    ],
)
def test_an_address_that_does_not_answer_is_told_without_its_secret(
    gatemark: Run, address: str
) -> None:
    ran = gatemark("ledger", "verify", "--store", address)
    assert ran.code == 2
    assert "secret" not in ran.err


def test_a_ledger_is_anchored_by_what_its_reader_holds(
    ledger: Run, key: Path, tmp_path: Path
) -> None:
    note, public = tmp_path / "note.txt", f"{key}.pub"
    unanchored = ledger("verify")
    assert (unanchored.code, unanchored.out[:17]) == (0, "PASS, unanchored ")
    refused = ledger("verify", "--require-checkpoint", "--json")
    assert (refused.code, refused.json["verdict"]) == (3, "inconclusive")
    assert "--since" in refused.json["unjudged"][0]
    ledger("checkpoint", "--signing-key", key, "-o", note)
    # Whoever can rewrite the ledger can also sign it anew with a key of their own.
    assert ledger("verify", "--require-checkpoint").code == 3
    for held in (("--since", note), ("--key", public)):
        ran = ledger("verify", "--require-checkpoint", *held)
        assert (ran.code, ran.out[:6]) == (0, "PASS  "), ran
        assert ledger("verify", *held, "--json").json["is_anchored"]
    assert not ledger("verify", "--json").json["is_anchored"]
