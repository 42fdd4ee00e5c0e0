"""A full disk: all can be read, a rollback finds its reserve, and nothing is half written."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.stores.tiny_disk import fill, make_read_only, tiny_disk
from tests.release.drift.live import ASSET, Live

from gatemark.core.errors import OutageError
from gatemark.ledger.event import EventDraft
from gatemark.ledger.stores.folder import RESERVE
from gatemark.workspace import Workspace

Run = Callable[..., Any]
LOOKS = (
    ("ledger", "verify"),
    ("route", ASSET),
    ("why", f"{ASSET}@1.0.0"),
    ("asset", "show", ASSET),
    ("list",),
    ("store", "info"),
)
DEMOTE = ("demote", f"{ASSET}@1.0.0", "--reason", "wrong labels", "--stop", "--actor", "olu")
GRANT = ("role", "grant", "zoe", "viewer", "--actor", "root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tiny_disk(tmp_path / "disk") as made:
        if made is None:
            pytest.skip("this system lets nobody mount a disk")
        yield made


@pytest.fixture
def store(disk: Path, tmp_path: Path) -> str:
    """A store with a version that is live, closed, on the tiny disk."""
    live = Live(str(disk / "store"), tmp_path)
    live.enable()
    live.workspace.store.close()
    return str(disk / "store")


def leave_a_log(store: str) -> None:
    """A writer is shot, so that its last events are in SQLite's log alone."""
    child = os.fork()
    if child == 0:
        workspace = Workspace(store=store)
        draft = EventDraft("noted", workspace.clock(), "ada", None, {"text": "x" * 999})
        workspace.events.append([draft])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (Path(store) / "gatemark.sqlite3-wal").stat().st_size > 0


@pytest.mark.parametrize("has_log", [False, True])
def test_a_store_on_a_full_disk_can_be_read(
    gatemark: Run, disk: Path, store: str, *, has_log: bool
) -> None:
    if has_log:
        leave_a_log(store)
        (Path(store) / "gatemark.sqlite3-shm").unlink()
    fill(disk)
    for command in LOOKS:
        ran = gatemark(*command, "--store", store)
        assert ran.code == 0, (command, ran.err)


def test_a_store_on_a_read_only_mount_can_be_read(gatemark: Run, disk: Path, store: str) -> None:
    make_read_only(disk)
    for command in LOOKS:
        ran = gatemark(*command, "--store", store)
        assert ran.code == 0, (command, ran.err)
    assert gatemark(*GRANT, "--store", store).code == 2


def test_a_demotion_on_a_full_disk_finds_its_reserve(gatemark: Run, disk: Path, store: str) -> None:
    fill(disk)
    refused = gatemark(*GRANT, "--store", store)
    assert (refused.code, "make room on the disk" in refused.err) == (2, True), refused.err
    demoted = gatemark(*DEMOTE, "--store", store)
    assert (demoted.code, "enabled → demoted" in demoted.out) == (0, True), demoted.err
    assert not (Path(store) / RESERVE).exists()
    assert gatemark("ledger", "verify", "--store", store).code == 0
    assert gatemark("route", ASSET, "--store", store).code == 1


def test_the_reserve_comes_back_with_the_next_promotion(disk: Path, store: str) -> None:
    workspace = Workspace(store=store)
    assert (Path(store) / RESERVE).stat().st_size > 0
    assert (Path(store) / RESERVE).stat().st_mode & 0o777 == 0o600
    assert workspace.release_reserve()
    assert not workspace.release_reserve()
    fill(disk)
    workspace.keep_reserve()
    assert not (Path(store) / RESERVE).exists(), "no room, no reserve, no complaint"
    (disk / "filler").unlink()
    workspace.keep_reserve()
    assert (Path(store) / RESERVE).exists()


@pytest.mark.parametrize("leave", range(0, 400_000, 40_000))
def test_what_does_not_fit_is_not_there_in_halves(
    gatemark: Run, disk: Path, store: str, leave: int
) -> None:
    fill(disk, leave)
    moment = time.monotonic()
    reported = 0
    workspace = Workspace(store=store)
    head = workspace.events.head().seq
    draft = EventDraft("noted", workspace.clock(), "ada", None, {"text": "x" * 30_000})
    while time.monotonic() - moment < 60:
        try:
            reported = workspace.events.append([draft, draft])[-1].seq
        except OutageError:
            break
    workspace.store.close()
    assert gatemark("ledger", "verify", "--store", store).code == 0
    found = Workspace(store=store).events.head().seq
    assert found == (reported or head)
