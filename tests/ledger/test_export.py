from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from gatemark.core.errors import IntegrityError
from gatemark.core.result import Blob, seal
from gatemark.ledger.keys import make_key, read_public_key
from gatemark.ledger.signing.dsse import IN_TOTO, open_envelope, read_envelope, sign_envelope
from gatemark.ledger.signing.note import SigningKey, VerifierKey
from gatemark.ledger.signing.statements import result_statement
from gatemark.workspace import Workspace

from .governed import FAILED, FIRST, ONE
from .honest import Clock, write_history
from .samples import MOMENT

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("origin")
    clock = Clock()
    workspace = Workspace(store=str(place / "store"), clock=clock, actor="root")
    make_key(workspace, place / "k")
    write_history(workspace, clock)
    workspace.store.close()
    return place


@pytest.fixture
def exported(gatemark: Run, origin: Path, tmp_path: Path) -> Path:
    ran = gatemark(
        *("ledger", "export", tmp_path / "out", "--store", origin / "store", "--json"),
        *("--signing-key", origin / "k"),
    )
    assert ran.code == 0, ran.err
    assert (ran.json["results"], ran.json["decisions"], ran.json["blobs"]) == (4, 19, 2)
    return tmp_path / "out"


def other_key(path: Path) -> SSlibKey:
    key = read_public_key(str(path))
    return SSlibKey(key.label, "ed25519", "ed25519", {"public": key.public.hex()})


def test_an_export_verifies_without_its_store(
    gatemark: Run, exported: Path, origin: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(exported, moved)
    ran = gatemark(
        *("ledger", "verify", moved, "--key", origin / "k.pub", "--json"),
        *("--store", tmp_path / "no such store"),
    )
    assert (ran.code, ran.json["verdict"], ran.json["decisions"]) == (0, "pass", 16)
    assert ran.json["checkpoints"] == 1
    assert ran.json["caveats"] == []


def test_every_line_of_an_export_is_a_valid_record(gatemark: Run, exported: Path) -> None:
    ran = gatemark("validate", exported / "events.jsonl")
    assert (ran.code, "valid gatemark.event/1" in ran.out) == (0, True)


def test_the_chain_can_be_checked_by_hand(exported: Path) -> None:
    previous = "sha256:" + "0" * 64
    for line in (exported / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        payload = {"payload": event.pop("payload"), "salt": event.pop("salt")}
        named = "sha256:" + hashlib.sha256(rfc8785.dumps(payload)).hexdigest()
        assert event["payload_digest"] == named
        digest = event.pop("digest")
        assert event["prev"] == previous
        assert digest == "sha256:" + hashlib.sha256(rfc8785.dumps(event)).hexdigest()
        previous = digest


def test_decisions_are_envelopes_that_another_library_accepts(exported: Path, origin: Path) -> None:
    files = sorted((exported / "decisions").iterdir())
    assert len(files) == 19
    subjects = set()
    for file in files:
        envelope = OtherEnvelope.from_dict(json.loads(file.read_bytes()))
        envelope.verify([other_key(origin / "k.pub")], 1)
        assert envelope.payload_type == IN_TOTO
        statement = json.loads(envelope.payload)
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        assert statement["predicate"]["event"]["seq"] == int(file.name.split(".")[0])
        subjects.add(statement["subject"][0]["name"])
        stranger = SSlibKey("x", "ed25519", "ed25519", {"public": "11" * 32})
        with pytest.raises(VerificationError):
            envelope.verify([stranger], 1)
    assert {"triage@1", "triage@2"} <= subjects


def test_envelopes_of_another_library_are_accepted() -> None:
    signer = CryptoSigner(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    envelope = OtherEnvelope(b'{"a":1}', IN_TOTO, {})
    envelope.sign(signer)
    read = read_envelope(json.dumps(envelope.to_dict()).encode(), "e")
    public = bytes.fromhex(signer.public_key.keyval["public"])
    key = VerifierKey("any name", public)
    assert open_envelope(read, [key], "e") == b'{"a":1}'
    with pytest.raises(IntegrityError, match="not signed by a key of this ledger"):
        open_envelope(read, [SigningKey("k", bytes(32)).verifier], "e")


def test_an_envelope_is_bound_to_its_type() -> None:
    key = SigningKey("k", bytes(32))
    envelope = sign_envelope(b"{}", key, payload_type="text/plain")
    with pytest.raises(IntegrityError, match="expected application"):
        open_envelope(envelope, [key.verifier], "e")


def test_results_are_statements_with_the_test_result_predicate(exported: Path) -> None:
    name = FIRST.id.removeprefix("sha256:")
    statement = json.loads((exported / "results" / f"{name}.intoto.json").read_bytes())
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["subject"] == [
        {"name": "triage/candidate", "digest": {"sha256": ONE.removeprefix("sha256:")}}
    ]
    predicate = statement["predicate"]
    assert predicate["result"] == "PASSED"
    assert (predicate["passedTests"], predicate["failedTests"]) == (["r"], [])
    assert predicate["configuration"][0]["name"] == "pack pack v1"
    assert predicate["gatemark"]["result_id"] == FIRST.id
    failed = json.loads(result_statement(FAILED))["predicate"]
    assert (failed["result"], failed["failedTests"]) == ("FAILED", ["r"])


def flip(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def line_seq(exported: Path, mark: str) -> int:
    lines = (exported / "events.jsonl").read_text().splitlines()
    return next(n for n, line in enumerate(lines, start=1) if mark in line)


def attack_line(exported: Path) -> int | None:
    flip(exported / "events.jsonl", b'"actor":"bob"', b'"actor":"rob"')
    return line_seq(exported, '"actor":"rob"')


def attack_payload(exported: Path) -> int | None:
    flip(exported / "events.jsonl", b"on leave until June", b"on leave until July")
    return line_seq(exported, "until July")


def attack_missing_line(exported: Path) -> int | None:
    lines = (exported / "events.jsonl").read_bytes().splitlines(keepends=True)
    (exported / "events.jsonl").write_bytes(b"".join(lines[:4] + lines[5:]))
    return 5


def attack_garbage(exported: Path) -> int | None:
    lines = (exported / "events.jsonl").read_bytes().splitlines(keepends=True)
    (exported / "events.jsonl").write_bytes(b"".join([*lines[:6], b"{]\n", *lines[7:]]))
    return 7


def attack_truncated(exported: Path) -> int | None:
    lines = (exported / "events.jsonl").read_bytes().splitlines(keepends=True)
    (exported / "events.jsonl").write_bytes(b"".join(lines[:10]))
    return 11


def attack_result(exported: Path) -> int | None:
    name = FAILED.id.removeprefix("sha256:")
    flip(exported / "results" / f"{name}.json", b'"verdict":"fail"', b'"verdict":"pass"')
    lines = (exported / "events.jsonl").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f'"result_id":"{FAILED.id}"' in line)


def attack_statement(exported: Path) -> int | None:
    name = FAILED.id.removeprefix("sha256:")
    flip(exported / "results" / f"{name}.intoto.json", b"FAILED", b"PASSED")
    return None


def attack_envelope(exported: Path) -> int | None:
    file = min((exported / "decisions").iterdir(), key=lambda p: int(p.name.split(".")[0]))
    envelope = json.loads(file.read_bytes())
    envelope["payload"] = envelope["payload"].replace("A", "B", 1)
    file.write_text(json.dumps(envelope))
    return int(file.name.split(".")[0])


def attack_missing_envelope(exported: Path) -> int | None:
    file = max((exported / "decisions").iterdir(), key=lambda p: int(p.name.split(".")[0]))
    file.unlink()
    return int(file.name.split(".")[0])


def attack_strange_envelope(exported: Path) -> int | None:
    file = next((exported / "decisions").iterdir())
    shutil.copy(file, exported / "decisions" / "999.dsse.json")
    return None


def attack_blob(exported: Path) -> int | None:
    blob = next(path for path in (exported / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"other")
    return line_seq(exported, FIRST.id)


def attack_checkpoint(exported: Path) -> int | None:
    (file,) = (exported / "checkpoints").iterdir()
    text = file.read_text()
    root = text.split("\n")[2]
    file.write_text(text.replace(root, ("A" if root[0] != "A" else "B") + root[1:]))
    return int(text.split("\n")[1])


@pytest.mark.parametrize(
    "attack",
    [
        attack_line,
        attack_payload,
        attack_missing_line,
        attack_garbage,
        attack_truncated,
        attack_result,
        attack_statement,
        attack_envelope,
        attack_missing_envelope,
        attack_strange_envelope,
        attack_blob,
        attack_checkpoint,
    ],
)
def test_an_attack_on_an_export_is_found(
    gatemark: Run, exported: Path, origin: Path, attack: Callable[[Path], int | None]
) -> None:
    expected = attack(exported)
    ran = gatemark("ledger", "verify", exported, "--key", origin / "k.pub", "--json")
    assert (ran.code, ran.json["first_bad_seq"]) == (4, expected), ran.json["issues"]


def test_an_export_never_goes_over_something_else(
    gatemark: Run, origin: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    flags = ("--store", origin / "store", "--signing-key", origin / "k")
    ran = gatemark("ledger", "export", tmp_path / "out", *flags)
    assert (ran.code, "already exists" in ran.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_decisions_do_not_leave_unsigned(gatemark: Run, origin: Path, tmp_path: Path) -> None:
    ran = gatemark("ledger", "export", tmp_path / "out", "--store", origin / "store")
    assert (ran.code, "name the key with --signing-key" in ran.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_what_is_no_export_is_refused(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("ledger", "verify", tmp_path)
    assert (ran.code, "not an exported ledger" in ran.err) == (2, True)


def test_a_result_cannot_make_an_export_write_elsewhere(gatemark: Run, tmp_path: Path) -> None:
    workspace = Workspace(store=str(tmp_path / "store"), clock=lambda: MOMENT)
    fields = {name: getattr(FIRST, name) for name in FIRST.__struct_fields__}
    del fields["id"], fields["stamp"], fields["schema"]
    blobs = (Blob("x", "sha256:../../../outside", "text/plain"),)
    workspace.results.append(seal(**{**fields, "blobs": blobs, "evidence": ()}))
    workspace.store.close()
    flags = ("--store", tmp_path / "store")
    ran = gatemark("ledger", "export", tmp_path / "deep" / "er" / "out", *flags)
    assert (ran.code, "which is not a digest" in ran.err) == (4, True)
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith("outside")]
    ran = gatemark("ledger", "verify", *flags, "--rescore", "--json")
    assert (ran.code, ran.json["first_bad_seq"]) == (4, 1)
