"""``gatemark store upgrade`` to the layout of the next release: a backup, one transaction."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gatemark as package
from gatemark.ledger.stores import DATABASE
from gatemark.ledger.stores.database import NEWEST

from .filled_stores import NOTES, SEALED, layout_found, make_filled_store, rows_of, store_rows
from .next_release import FAILS, HANGS, LOSES_ROWS, NEXT, NextRelease, next_release

Run = Callable[..., Any]
EVENTS = len(SEALED) + NOTES + 1


def backups_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{DATABASE}.backup-*"))


@pytest.fixture
def later(tmp_path_factory: pytest.TempPathFactory) -> NextRelease:
    return next_release(tmp_path_factory)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "store")


def test_a_store_is_upgraded_and_its_backup_has_every_row(
    later: NextRelease, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    make_filled_store(str(folder))
    before = store_rows(str(folder))
    ran = later("store", "upgrade", "--store", folder)
    assert (ran.code, ran.err) == (0, "")
    (backup,) = backups_in(folder)
    told, done, checked = ran.out.splitlines()
    assert told == f"backup in {backup}"
    change = f"upgraded {folder / DATABASE} from layout {NEWEST} to {NEXT}"
    assert done == f"{change} ({NEXT} later)"
    assert checked.startswith(f"checked the chain of {EVENTS} events; ")
    assert backup.name.startswith(f"{DATABASE}.backup-{NEWEST}-2")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert rows_of(backup) == before
    after = store_rows(str(folder))
    for table, rows in before.items():
        known = rows[0] if rows else {}
        assert [{name: row[name] for name in known} for row in after[table]] == rows, table
    assert layout_found(str(folder)) == NEXT
    assert later("ledger", "verify", "--store", folder).code == 0

    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ran = later("store", "upgrade", "--store", folder)
    said = f"{folder / DATABASE}: has the newest layout, {NEXT}; nothing to do\n"
    assert (ran.code, ran.out) == (0, said)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


def test_this_build_has_nothing_to_upgrade(gatemark: Run, address: str) -> None:
    make_filled_store(address)
    before = store_rows(address)
    ran = gatemark("store", "upgrade", "--store", address)
    assert (ran.code, f"has the newest layout, {NEWEST}; nothing to do" in ran.out) == (0, True)
    assert (layout_found(address), store_rows(address)) == (NEWEST, before)


def test_a_store_in_postgresql_is_upgraded_with_an_archive_that_can_be_restored(
    gatemark: Run, later: NextRelease, tmp_path: Path, postgres_url: str
) -> None:
    make_filled_store(postgres_url)
    before = store_rows(postgres_url)
    ran = later("store", "upgrade", "--store", postgres_url)
    assert ran.code == 2
    assert "name a file for the backup with --backup FILE.tar.zst or use --no-backup" in ran.err
    ran = later("store", "upgrade", "--backup", tmp_path / "b.sqlite3", "--store", postgres_url)
    assert (ran.code, "the name of a backup must end in .tar.zst" in ran.err) == (2, True)
    assert layout_found(postgres_url) == NEWEST
    archive = tmp_path / "before.tar.zst"
    ran = later("store", "upgrade", "--backup", archive, "--json", "--store", postgres_url)
    assert ran.code == 0, ran.err
    assert (ran.json["from_layout"], ran.json["to_layout"]) == (NEWEST, NEXT)
    assert (ran.json["backup"], ran.json["is_done"]) == (str(archive), True)
    assert layout_found(postgres_url) == NEXT
    assert later("ledger", "verify", "--store", postgres_url).code == 0
    restored = tmp_path / "restored"
    assert gatemark("store", "restore", archive, "--store", restored).code == 0
    again = store_rows(str(restored))
    assert layout_found(str(restored)) == NEWEST
    for table in before.keys() - {"blobs", "blob_pieces"}:
        assert again[table] == before[table], table


def test_a_dry_run_changes_nothing(later: NextRelease, address: str, tmp_path: Path) -> None:
    make_filled_store(address)
    before = store_rows(address)
    archive = tmp_path / "b.tar.zst"
    ran = later("store", "upgrade", "--dry-run", "--backup", archive, "--store", address)
    assert ran.code == 0
    assert ran.out.startswith("would upgrade ")
    assert f"from layout {NEWEST} to {NEXT} ({NEXT} later)" in ran.out
    assert ran.out.endswith(f" with a backup in {archive}; nothing was changed\n")
    assert not archive.exists()
    assert (layout_found(address), store_rows(address)) == (NEWEST, before)


def test_without_a_backup_only_when_asked(later: NextRelease, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    make_filled_store(str(folder))
    both = later("store", "upgrade", "--no-backup", "--backup", "x", "--store", folder)
    assert (both.code, "not both" in both.err) == (2, True)
    ran = later("store", "upgrade", "--no-backup", "--json", "--store", folder)
    assert (ran.code, ran.json["backup"], ran.json["is_done"]) == (0, None, True)
    assert not backups_in(folder)
    assert layout_found(str(folder)) == NEXT


@pytest.mark.parametrize("name", ["copy.sqlite3", "copy.tar.zst"])
def test_the_backup_goes_where_it_is_wanted_and_never_over_a_file(
    gatemark: Run, later: NextRelease, tmp_path: Path, name: str
) -> None:
    folder, wanted = tmp_path / "store", tmp_path / "elsewhere" / name
    make_filled_store(str(folder))
    before = store_rows(str(folder))
    wanted.parent.mkdir()
    wanted.write_text("mine")
    ran = later("store", "upgrade", "--backup", wanted, "--store", folder)
    assert (ran.code, ran.err) == (
        2,
        f"gatemark: {wanted}: already exists and is never overwritten\n",
    )
    assert (wanted.read_text(), layout_found(str(folder))) == ("mine", NEWEST)
    wanted.unlink()
    assert later("store", "upgrade", "--backup", wanted, "--store", folder).code == 0
    assert [path.name for path in wanted.parent.iterdir()] == [name]
    assert not backups_in(folder)
    if name == "copy.sqlite3":
        assert rows_of(wanted) == before
    else:
        restored = tmp_path / "restored"
        assert gatemark("store", "restore", wanted, "--store", restored).code == 0
        assert store_rows(str(restored)) == before


def test_a_backup_that_cannot_be_written_stops_the_upgrade(
    later: NextRelease, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    make_filled_store(str(folder))
    (tmp_path / "file").write_text("")
    ran = later("store", "upgrade", "--backup", tmp_path / "file" / "b", "--store", folder)
    assert (ran.code, "cannot be written" in ran.err) == (2, True)
    assert layout_found(str(folder)) == NEWEST


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, later: NextRelease, address: str
) -> None:
    make_filled_store(address)
    before = store_rows(address)
    failing = next_release(tmp_path_factory, FAILS)
    ran = failing("store", "upgrade", "--no-backup", "--store", address)
    assert (ran.code, "the power went" in ran.err) == (4, True)
    assert (layout_found(address), store_rows(address)) == (NEWEST, before)
    assert later("store", "upgrade", "--no-backup", "--store", address).code == 0


def test_a_migration_that_loses_rows_of_the_ledger_is_not_committed(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = str(tmp_path / "store")
    make_filled_store(folder)
    before = store_rows(folder)
    careless = next_release(tmp_path_factory, LOSES_ROWS)
    ran = careless("store", "upgrade", "--store", folder)
    assert (ran.code, "the upgrade would lose rows of results" in ran.err) == (4, True)
    assert (layout_found(folder), store_rows(folder)) == (NEWEST, before)


@pytest.mark.parametrize("edited", [4, EVENTS])
def test_a_ledger_that_was_edited_before_is_upgraded_and_told_of(
    later: NextRelease, tmp_path: Path, edited: int
) -> None:
    folder = tmp_path / "store"
    make_filled_store(str(folder))
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("DROP TRIGGER events_no_update")
    connection.execute("UPDATE events SET actor = 'nobody' WHERE seq = ?", (edited,))
    connection.commit()
    connection.close()
    ran = later("store", "upgrade", "--store", folder)
    assert (ran.code, layout_found(str(folder))) == (4, NEXT)
    assert f"event {edited} does not verify: " in ran.err
    assert "upgraded " in ran.out
    assert "checked the chain" not in ran.out
    found = later("ledger", "verify", "--json", "--store", folder).json
    assert found["first_bad_seq"] == edited


def test_an_upgrade_that_is_killed_leaves_the_store_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, later: NextRelease, address: str, tmp_path: Path
) -> None:
    make_filled_store(address)
    before = store_rows(address)
    archive = tmp_path / "b.tar.zst"
    words = ("store", "upgrade", "--backup", archive, "--store", address)
    process = next_release(tmp_path_factory, HANGS).start(*words, is_heard=True)
    assert process.next_line() == "in the middle\n"
    process.kill()
    assert process.wait(20) == -signal.SIGKILL
    process.finish()
    assert (layout_found(address), store_rows(address)) == (NEWEST, before)
    assert archive.exists(), "the backup was there before anything changed"
    assert later("store", "upgrade", "--no-backup", "--store", address).code == 0
    assert later("ledger", "verify", "--store", address).code == 0


TOGETHER = """
import os, sys, time
from gatemark.cli.main import main
from gatemark.ledger import store

real = store.upgrade_database

def wait_and_upgrade(*arguments):
    # Both have seen the old layout.
    folder = os.environ["GATEMARK_TEST_BARRIER"]
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.01)
    return real(*arguments)

store.upgrade_database = wait_and_upgrade
sys.exit(main(sys.argv[1:]))
"""


def test_of_two_upgrades_at_once_one_does_it_and_the_other_says_so(
    later: NextRelease, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_filled_store(address)
    barrier = tmp_path / "barrier"
    barrier.mkdir()
    monkeypatch.setenv("GATEMARK_TEST_BARRIER", str(barrier))
    started = [
        later.start(
            *("store", "upgrade", "--json", "--backup", tmp_path / f"{number}.tar.zst"),
            *("--store", address),
            code=TOGETHER,
        )
        for number in range(2)
    ]
    ended = [one.finish() for one in started]
    assert [one.returncode for one in ended] == [0, 0], ended
    idle, busy = sorted((json.loads(one.stdout) for one in ended), key=lambda one: one["is_done"])
    assert (idle["is_done"], idle["is_done_elsewhere"], idle["backup"]) == (False, True, None)
    assert (busy["is_done"], busy["is_done_elsewhere"]) == (True, False)
    assert [str(path) for path in tmp_path.glob("*.tar.zst")] == [busy["backup"]]
    assert layout_found(address) == NEXT


def test_the_next_release_uses_a_store_of_this_one_until_it_is_upgraded(
    gatemark: Run, later: NextRelease, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    make_filled_store(str(folder))
    place = ("--store", folder)
    before = (folder / DATABASE).read_bytes()
    shown = later("store", "info", *place)
    assert f"layout   {NEWEST}, usable as it is; this build makes {NEXT}: " in shown.out
    for command in (("list",), ("ledger", "verify"), ("ledger", "log")):
        assert later(*command, *place).code == 0
    assert (folder / DATABASE).read_bytes() == before
    written = later("ledger", "resync-clock", "--reason", "to write something", *place)
    assert written.code == 0, written.err
    assert layout_found(str(folder)) == NEWEST
    assert gatemark("ledger", "verify", *place).code == 0

    done = later("store", "upgrade", *place)
    assert done.code == 0, done.err
    assert f"from layout {NEWEST} to {NEXT} ({NEXT} later)" in done.out
    assert later("ledger", "verify", *place).code == 0
    ran = gatemark("list", *place)
    assert ran.code == 3
    assert f"has layout {NEXT}, which this build ({package.__version__}, " in ran.err
    for command in ("upgrade", "backup"):
        arguments = [tmp_path / "b.tar.zst"] if command == "backup" else []
        assert gatemark("store", command, *arguments, *place).code == 3
    ran = gatemark("store", "info", "--json", *place)
    assert (ran.code, ran.json["state"], ran.json["layout"]) == (0, "too_new", NEXT)

    archive = tmp_path / "next.tar.zst"
    assert later("store", "backup", archive, *place).code == 0
    ran = gatemark("store", "restore", archive, "--store", tmp_path / "restored")
    assert (ran.code, f"{archive}: has layout {NEXT}, which this build" in ran.err) == (3, True)
    assert not (tmp_path / "restored").exists()

    (backup,) = backups_in(folder)
    shutil.copy(backup, folder / DATABASE)
    assert gatemark("ledger", "verify", *place).code == 0
