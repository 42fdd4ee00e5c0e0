"""Keys, checkpoints, proofs and stoplists: a pipe or an endless file is refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.guarded import guarded

from gatemark.cli.main import main
from gatemark.core.errors import BadInputError
from gatemark.exams.runlog.concepts.stoplists import read_stoplists
from gatemark.ledger.keys import make_key
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
}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


BOMBS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "endless": endless}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("option", COMMANDS)
def test_what_is_not_a_file_is_refused(tmp_path: Path, option: str, bomb: str) -> None:
    store = str(tmp_path / "store")
    make_key(Workspace(store=store, actor="ada"), tmp_path / "good.key")
    BOMBS[bomb](tmp_path / "bomb")
    told = [one.replace("{}", str(tmp_path / "bomb")) for one in COMMANDS[option]]
    if "prove" not in told:
        told += ["--store", store]
    ended = guarded(lambda: int(main(told)), 30)
    assert (ended.code, ended.is_over) == (2, False), ended.said


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_stoplist_that_is_not_a_file_is_refused(tmp_path: Path, bomb: str) -> None:
    def read() -> int:
        try:
            read_stoplists(str(tmp_path))
        except BadInputError as error:
            return 2 if "expected a regular file" in str(error) else 9
        return 0

    BOMBS[bomb](tmp_path / "stop_entities.txt")
    assert guarded(read, 30).code == 2
