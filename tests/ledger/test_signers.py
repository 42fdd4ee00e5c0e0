"""Keys that a passphrase or a command guards, and checkpoints that are signed unasked."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatemark.core.errors import BadInputError, UsageError
from gatemark.integrity import verify
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import KEY_ADDED, KEY_ROTATED, KeyRotated, as_payload
from gatemark.ledger.keys import (
    NewKey,
    command_signer,
    keep_anchored,
    keyring_of,
    ledger_origin,
    make_key,
    rotate_key,
    sign_checkpoint,
)
from gatemark.ledger.signing.command_signer import CommandSigner
from gatemark.ledger.signing.note import VerifierKey, read_checkpoint, sign_note
from gatemark.ledger.verify import VerifyRequest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy, GrantRoles
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.server import serving
from gatemark.workspace import Workspace

Run = Callable[..., Any]
SECRET = bytes(range(32))
TOKEN = """\
import base64, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
signature = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).sign(sys.stdin.buffer.read())
sys.stdout.buffer.write({printed})
"""
PRINTED = {"bytes": "signature", "base64": "base64.b64encode(signature) + b'\\n'"}


class Clock:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def workspace(tmp_path: Path, clock: Clock) -> Workspace:
    return Workspace(store=str(tmp_path / "store"), actor="ada", clock=clock)


def script(folder: Path, text: str) -> str:
    path = folder / "token.py"
    path.write_text(text, encoding="utf-8")
    return f"{sys.executable} {path}"


def public() -> bytes:
    key = Ed25519PrivateKey.from_private_bytes(SECRET).public_key()
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


@pytest.mark.parametrize("printed", PRINTED)
def test_a_command_signs_and_no_private_key_is_written(
    workspace: Workspace, tmp_path: Path, printed: str
) -> None:
    command = script(tmp_path, TOKEN.format(printed=PRINTED[printed]))
    new = NewKey(path=tmp_path / "token.key", command=command, public=public())
    made = make_key(workspace, new)
    assert sorted(path.name for path in tmp_path.glob("token.key*")) == ["token.key.pub"]
    note = sign_checkpoint(workspace, command_signer(workspace, command))
    checkpoint, signed = read_checkpoint(note)
    assert signed.signed_by(keyring_of(workspace.events).keys_for(checkpoint.size)) is not None
    request = VerifyRequest(keys=(made.key,), require_checkpoint=True)
    assert verify(workspace, request).exit_code == 0


def test_a_key_in_a_file_is_rotated_to_a_command_and_back(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_key(workspace, tmp_path / "old.key")
    command = script(tmp_path, TOKEN.format(printed="signature"))
    token = NewKey(path=tmp_path / "token.key", command=command, public=public())
    rotate_key(workspace, str(tmp_path / "old.key"), token)
    rotate_key(workspace, command_signer(workspace, command), tmp_path / "new.key")
    sign_checkpoint(workspace, str(tmp_path / "new.key"))
    assert verify(workspace, VerifyRequest()).issues == ()


BAD = {
    "prints nothing": ("pass", "did not print"),
    "prints too much": ("while True: print('x' * 999)", "more than 4096 bytes"),
    "signs something else": (
        "import sys; sys.stdout.buffer.write(bytes(64))",
        "did not print an Ed25519 signature",
    ),
    "fails": ("import sys; sys.exit(7)", "ended with status 7"),
    "hangs": ("import time; time.sleep(600)", "took longer than 2 s"),
    "is silent but runs on": ("import os, time; os.close(1); time.sleep(600)", "did not print"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_command_that_does_not_sign_leaves_no_key(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    text, message = BAD[how]
    monkeypatch.setattr("gatemark.ledger.signing.command_signer.SECONDS", 2)
    new = NewKey(path=tmp_path / "k", command=script(tmp_path, text), public=public())
    with pytest.raises(BadInputError, match=message):
        make_key(workspace, new)
    assert list(tmp_path.glob("k*")) == []
    assert keyring_of(workspace.events).active is None


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInputError, match="no-such-program: No such file"):
        CommandSigner(VerifierKey("n", public()), "no-such-program").sign(b"x")
    with pytest.raises(UsageError, match="No closing quotation"):
        CommandSigner(VerifierKey("n", public()), "'")


def test_a_passphrase_guards_the_private_key(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, words = tmp_path / "k", tmp_path / "words"
    words.write_text("correct horse\n", encoding="utf-8")
    make_key(workspace, NewKey(path=path, passphrase=b"correct horse"))
    assert "ENCRYPTED PRIVATE KEY" in path.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="GATEMARK_KEY_PASSPHRASE_FILE"):
        sign_checkpoint(workspace, str(path))
    monkeypatch.setenv("GATEMARK_KEY_PASSPHRASE_FILE", str(words))
    sign_checkpoint(workspace, str(path))
    words.write_text("wrong\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="wrong passphrase"):
        sign_checkpoint(workspace, str(path))


def sizes(workspace: Workspace) -> list[int]:
    return [size for size, _ in workspace.events.checkpoints()]


def test_the_first_use_makes_a_key_and_a_checkpoint(workspace: Workspace) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    assert keep_anchored(workspace, workspace.signing_key_file) is None
    assert workspace.signing_key_file.stat().st_mode & 0o777 == 0o600
    assert sizes(workspace) == [workspace.events.head().seq]
    report = verify(workspace, VerifyRequest())
    assert (report.exit_code, report.issues) == (0, ())


def test_daily_signs_what_has_waited_for_a_day(workspace: Workspace, clock: Clock) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    path = workspace.signing_key_file
    keep_anchored(workspace, path, is_daily=True)
    first = sizes(workspace)
    clock.now += timedelta(hours=1)
    act(workspace, GrantRoles(actor="ada", person="bob", roles=("author",)))
    keep_anchored(workspace, path, is_daily=True)
    assert sizes(workspace) == first
    clock.now += timedelta(hours=24)
    keep_anchored(workspace, path, is_daily=True)
    keep_anchored(workspace, path, is_daily=True)
    assert sizes(workspace) == [*first, workspace.events.head().seq]


def test_who_has_another_key_signs_alone(workspace: Workspace, tmp_path: Path) -> None:
    make_key(workspace, tmp_path / "mine.key")
    assert keep_anchored(workspace, workspace.signing_key_file) is None
    assert sizes(workspace) == []
    assert not workspace.signing_key_file.exists()


def test_keygen_takes_over_from_the_key_that_was_made_unasked(
    gatemark: Run, workspace: Workspace, tmp_path: Path
) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    keep_anchored(workspace, workspace.signing_key_file)
    store = str(tmp_path / "store")
    assert gatemark("ledger", "keygen", str(tmp_path / "mine.key"), "--store", store).code == 0
    kinds = [event.kind for event, _ in workspace.events.events()]
    assert [kind for kind in kinds if kind.startswith("key_")] == [KEY_ADDED, KEY_ROTATED]
    again = gatemark("ledger", "keygen", str(tmp_path / "other.key"), "--store", store)
    assert (again.code, "already has a key" in again.err) == (1, True)


def test_a_trouble_with_the_key_is_told_and_stops_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    keep_anchored(workspace, workspace.signing_key_file)
    workspace.signing_key_file.chmod(0o644)
    told = keep_anchored(workspace, workspace.signing_key_file)
    assert told is not None
    assert "other users can read" in told


def test_a_key_whose_event_was_lost_to_a_kill_is_announced_later(workspace: Workspace) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    path = workspace.signing_key_file
    # A process that is killed between the file and its event leaves the private key alone.
    NewKey(path=path).write("gatemark")
    NewKey(path=path).public_path.unlink()
    private = path.read_bytes()
    assert keep_anchored(workspace, path) is None
    assert sizes(workspace) == [workspace.events.head().seq]
    assert path.read_bytes() == private
    public = NewKey(path=path).public_path.read_text().strip()
    assert str(keyring_of(workspace.events).active) == public
    assert verify(workspace, VerifyRequest()).issues == ()


def test_a_rotation_that_the_old_key_did_not_sign_is_found(
    workspace: Workspace, tmp_path: Path
) -> None:
    make_key(workspace, tmp_path / "old.key")
    old = keyring_of(workspace.events).active
    new = NewKey(path=tmp_path / "new.key").write("mallory")
    text = f"gatemark.key-rotation/1\n{ledger_origin(workspace.events)}\n{old}\n{new.verifier}\n"
    said = KeyRotated(str(old), str(new.verifier), sign_note(text, new))
    draft = EventDraft(KEY_ROTATED, workspace.clock(), "mallory", None, as_payload(said))
    workspace.events.append([draft])
    (trouble,) = verify(workspace, VerifyRequest()).issues
    assert (trouble.check, "is not signed by" in trouble.message) == ("key", True)


def test_a_public_key_file_is_never_overwritten(workspace: Workspace, tmp_path: Path) -> None:
    kept = tmp_path / "mine.key.pub"
    kept.write_text("somebody's", encoding="utf-8")
    with pytest.raises(BadInputError, match="already exists"):
        make_key(workspace, tmp_path / "mine.key")
    assert kept.read_text(encoding="utf-8") == "somebody's"
    assert not (tmp_path / "mine.key").exists()


def test_a_server_signs_when_it_starts(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    monkeypatch.setattr("gatemark.server.serving.Workspace", lambda **_: workspace)
    stopped = threading.Event()
    stopped.set()
    serving._sign_daily("", stopped)
    assert sizes(workspace) == [workspace.events.head().seq]


def test_verify_names_the_event_that_began_the_one_person_mode(workspace: Workspace) -> None:
    act(workspace, GrantRoles(actor="ada", person="ada", roles=("admin",)))
    alone = ReleasePolicy(name="alone", one_person=True)
    (event,) = act(workspace, AdoptPolicy(actor="ada", policy=alone)).events
    caveats = verify(workspace, VerifyRequest()).caveats
    assert [
        one for one in caveats if one.startswith(f"event {event.seq}: from here on in one-person")
    ]
