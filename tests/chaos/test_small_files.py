"""Keys, checkpoints, proofs, schemas and secrets: a pipe or an endless file is refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.guarded import guarded
from tests.chaos.stores import keep

from gatemark.cli.main import main
from gatemark.core.errors import BadInputError
from gatemark.ledger.keys import make_key
from gatemark.plugins.runlog.concepts.stoplists import read_stoplists
from gatemark.workspace import Workspace

COMMANDS = {
    "--key": ("ledger", "verify", "--key", "{}"),
    "--since": ("ledger", "verify", "--since", "{}"),
    "--check": ("ledger", "prove", "--check", "{}", "--key", "k.pub"),
    "--signing-key": ("ledger", "checkpoint", "--signing-key", "{}"),
    "--public-key": (
        *("ledger", "rotate", "n", "--lost", "x", "--new-signer-command", "true"),
        *("--public-key", "{}"),
    ),
    "--schema": ("validate", __file__, "--schema", "{}.json"),
    "--file": ("asset", "add", "a@1.0.0", "--kind", "prompt", "--file", "{}", "--actor", "ann"),
    "pairs": ("shadow", "push", "a@1.0.0", "{}", "--actor", "ann"),
    "--tls-cert": ("serve", "--port", "0", "--tls-cert", "{}", "--tls-key", "{}"),
    "MAP": ("calibration", "apply", "{}", __file__, "-o", "{}.out"),
    "BACKUP": ("store", "restore", "{}"),
    "--from": ("init", "{}.new", "--from", "inspect", "{}"),
    "--oidc": ("serve", "--port", "0", "--oidc", "{}.oidc.yaml"),
}
NO_STORE = {"--check", "--schema", "MAP", "--from"}
OIDC = "gatemark_oidc: 1\nissuer: http://127.0.0.1:9\nclient_id: g\nclient_secret_file: "


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


BOMBS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "endless": endless, "hole": hole}
EVIDENCE = (("agreement", "--pairs"), ("advisory",), ("preference",))


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("option", COMMANDS)
def test_what_is_not_a_file_is_refused(tmp_path: Path, option: str, bomb: str) -> None:
    store = str(tmp_path / "store")
    make_key(Workspace(store=store, actor="ada"), tmp_path / "good.key")
    for name in ("bomb", "bomb.json"):
        BOMBS[bomb](tmp_path / name)
    (tmp_path / "bomb.oidc.yaml").write_text(OIDC + str(tmp_path / "bomb"))
    told = [one.replace("{}", str(tmp_path / "bomb")) for one in COMMANDS[option]]
    if option not in NO_STORE:
        told += ["--store", store]
    ended = guarded(lambda: int(main(told)), 30)
    # A backup that is a file, but not one of ours, does not verify.
    wanted = 4 if (option, bomb) == ("BACKUP", "hole") else 2
    assert (ended.code, ended.is_over) == (wanted, False), ended.said


@pytest.mark.parametrize("told", EVIDENCE, ids=lambda told: told[0])
def test_evidence_that_is_a_hole_is_refused(tmp_path: Path, told: tuple[str, ...]) -> None:
    hole(tmp_path / "hole.jsonl")
    line = ["score", *told, str(tmp_path / "hole.jsonl")]
    ended = guarded(lambda: int(main(line)), 30)
    assert (ended.code, ended.is_over) == (2, False), ended.said


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_stoplist_that_is_not_a_file_is_refused(tmp_path: Path, bomb: str) -> None:
    def read() -> int:
        try:
            read_stoplists(str(tmp_path))
        except BadInputError as error:
            known = ("expected a regular file", "holds more than")
            return 2 if any(one in str(error) for one in known) else 9
        return 0

    BOMBS[bomb](tmp_path / "stop_entities.txt")
    assert guarded(read, 30).code == 2


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("place", ["blobs", "checkpoints", "decisions", "results"])
def test_what_is_not_a_file_in_an_export_does_not_verify(
    tmp_path: Path, place: str, bomb: str
) -> None:
    kept = keep(tmp_path)
    victim = min(path for path in (kept.export / place).rglob("*") if path.is_file())
    victim.unlink()
    BOMBS[bomb](victim)
    ended = guarded(lambda: int(main(["ledger", "verify", str(kept.export)])), 30)
    assert (ended.code, ended.is_over) == (4, False), ended.said


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_blob_that_is_not_a_file_does_not_verify(tmp_path: Path, bomb: str) -> None:
    kept = keep(tmp_path)
    victim = min(path for path in (kept.store / "blobs").rglob("*") if path.is_file())
    victim.unlink()
    BOMBS[bomb](victim)
    ended = guarded(lambda: int(main(["ledger", "verify", "--store", str(kept.store)])), 30)
    assert (ended.code, ended.is_over) == (4, False), ended.said
