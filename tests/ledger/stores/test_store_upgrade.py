"""``gatemark store upgrade`` from every layout: a backup, one transaction, nothing lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.package_copy import copy_package

import gatemark as package
from gatemark.core.errors import IntegrityError
from gatemark.integrity import upgrade_store
from gatemark.ledger import store as flow
from gatemark.ledger.store import StoreUpgrade, UpgradeRequest
from gatemark.ledger.stores import DATABASE, sql
from gatemark.ledger.stores.database import LAYOUTS, NEWEST, steps_after
from gatemark.workspace import Workspace

from .old_layouts import NOTES, SEALED, layout_found, make_old_store, rows_of, store_rows

Run = Callable[..., Any]
OLD = LAYOUTS[:-1]
EVENTS = len(SEALED) + NOTES + 1


def backups_in(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{DATABASE}.backup-*"))


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "store")


@pytest.mark.parametrize("layout", OLD)
def test_a_store_of_any_layout_is_upgraded_and_its_backup_has_every_row(
    gatemark: Run, tmp_path: Path, layout: str
) -> None:
    folder = tmp_path / "store"
    make_old_store(str(folder), layout)
    before = store_rows(str(folder))
    ran = gatemark("store", "upgrade", "--store", folder)
    assert (ran.code, ran.err) == (0, "")
    (backup,) = backups_in(folder)
    told, done, *_, checked = ran.out.splitlines()
    assert told == f"backup in {backup}"
    change = f"upgraded {folder / DATABASE} from layout {layout} to {NEWEST}"
    assert done == f"{change} ({', '.join(steps_after(layout))})"
    events = Workspace(store=str(folder)).existing_store().events.head().seq
    assert events >= (len(SEALED) if layout == "0001" else EVENTS)
    assert checked.startswith(f"checked the chain of {events} events; ")
    assert backup.name.startswith(f"{DATABASE}.backup-{layout}-2")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert rows_of(backup) == before
    after = store_rows(str(folder))
    for table, rows in before.items():
        known = rows[0] if rows else {}
        found = [{name: row[name] for name in known} for row in after[table]]
        assert all(row in found for row in rows), table
        assert len(found) == len(rows) or table in {"events", "payloads", "nodes"}, table
    assert layout_found(str(folder)) == NEWEST
    assert gatemark("ledger", "verify", "--store", folder).code == 0
    assert [line.title for line in Workspace(store=str(folder)).results.lines(9)] == ["c", "b", "a"]

    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ran = gatemark("store", "upgrade", "--store", folder)
    said = f"{folder / DATABASE}: has the newest layout, {NEWEST}; nothing to do\n"
    assert (ran.code, ran.out) == (0, said)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("layout", OLD)
@pytest.mark.slow
def test_a_store_in_postgresql_is_upgraded_with_an_archive_that_can_be_restored(
    gatemark: Run, tmp_path: Path, postgres_url: str, layout: str
) -> None:
    make_old_store(postgres_url, layout)
    before = store_rows(postgres_url)
    ran = gatemark("store", "upgrade", "--store", postgres_url)
    assert ran.code == 2
    assert "name a file for the backup with --backup FILE.tar.zst or use --no-backup" in ran.err
    ran = gatemark("store", "upgrade", "--backup", tmp_path / "b.sqlite3", "--store", postgres_url)
    assert (ran.code, "the name of a backup must end in .tar.zst" in ran.err) == (2, True)
    assert layout_found(postgres_url) == layout
    archive = tmp_path / "before.tar.zst"
    ran = gatemark("store", "upgrade", "--backup", archive, "--json", "--store", postgres_url)
    assert ran.code == 0, ran.err
    assert (ran.json["from_layout"], ran.json["to_layout"]) == (layout, NEWEST)
    assert (ran.json["backup"], ran.json["is_done"]) == (str(archive), True)
    assert layout_found(postgres_url) == NEWEST
    if layout == "0001":
        # The first layout was never in PostgreSQL with blobs, which its results want.
        return
    assert gatemark("ledger", "verify", "--store", postgres_url).code == 0
    restored = tmp_path / "restored"
    assert gatemark("store", "restore", archive, "--store", restored).code == 0
    again = store_rows(str(restored))
    assert layout_found(str(restored)) == layout
    for table in before.keys() - {"blobs", "blob_pieces"}:
        assert again[table] == before[table], table


def test_a_dry_run_changes_nothing(gatemark: Run, address: str, tmp_path: Path) -> None:
    make_old_store(address, "0004")
    before = store_rows(address)
    archive = tmp_path / "b.tar.zst"
    ran = gatemark("store", "upgrade", "--dry-run", "--backup", archive, "--store", address)
    assert ran.code == 0
    assert ran.out.startswith("would upgrade ")
    assert f"from layout 0004 to {NEWEST} (0005 reviews, 0006 providers" in ran.out
    assert ran.out.endswith(f" with a backup in {archive}; nothing was changed\n")
    assert not archive.exists()
    assert (layout_found(address), store_rows(address)) == ("0004", before)


def test_without_a_backup_only_when_asked(gatemark: Run, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    make_old_store(str(folder), "0005")
    both = gatemark("store", "upgrade", "--no-backup", "--backup", "x", "--store", folder)
    assert (both.code, "not both" in both.err) == (2, True)
    ran = gatemark("store", "upgrade", "--no-backup", "--json", "--store", folder)
    assert (ran.code, ran.json["backup"], ran.json["is_done"]) == (0, None, True)
    assert not backups_in(folder)
    assert layout_found(str(folder)) == NEWEST


@pytest.mark.parametrize("name", ["copy.sqlite3", "copy.tar.zst"])
def test_the_backup_goes_where_it_is_wanted_and_never_over_a_file(
    gatemark: Run, tmp_path: Path, name: str
) -> None:
    folder, wanted = tmp_path / "store", tmp_path / "elsewhere" / name
    make_old_store(str(folder), "0005")
    before = store_rows(str(folder))
    wanted.parent.mkdir()
    wanted.write_text("mine")
    ran = gatemark("store", "upgrade", "--backup", wanted, "--store", folder)
    assert (ran.code, ran.err) == (
        2,
        f"gatemark: {wanted}: already exists and is never overwritten\n",
    )
    assert (wanted.read_text(), layout_found(str(folder))) == ("mine", "0005")
    wanted.unlink()
    assert gatemark("store", "upgrade", "--backup", wanted, "--store", folder).code == 0
    assert [path.name for path in wanted.parent.iterdir()] == [name]
    assert not backups_in(folder)
    if name == "copy.sqlite3":
        assert rows_of(wanted) == before
    else:
        restored = tmp_path / "restored"
        assert gatemark("store", "restore", wanted, "--store", restored).code == 0
        assert store_rows(str(restored)) == before


def test_a_backup_that_cannot_be_written_stops_the_upgrade(gatemark: Run, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    make_old_store(str(folder), "0005")
    (tmp_path / "file").write_text("")
    ran = gatemark("store", "upgrade", "--backup", tmp_path / "file" / "b", "--store", folder)
    assert (ran.code, "cannot be written" in ran.err) == (2, True)
    assert layout_found(str(folder)) == "0005"


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_store(address, "0003")
    before = store_rows(address)
    real = sql.migrate

    def migrate_and_fail(connection: sa.Connection, found: str | None) -> None:
        real(connection, found)
        assert sa.inspect(connection).has_table("identities")
        raise IntegrityError("the power went")

    monkeypatch.setattr(sql, "migrate", migrate_and_fail)
    request = UpgradeRequest(backup=str(tmp_path / "b.tar.zst"))
    with pytest.raises(IntegrityError, match="the power went"):
        upgrade_store(Workspace(store=address), request)
    assert (layout_found(address), store_rows(address)) == ("0003", before)
    monkeypatch.undo()
    assert upgrade_store(Workspace(store=address), UpgradeRequest(no_backup=True)).is_done


def test_a_migration_that_loses_rows_of_the_ledger_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "store")
    make_old_store(folder, "0005")
    before = store_rows(folder)
    real = sql.migrate

    def careless(connection: sa.Connection, found: str | None) -> None:
        real(connection, found)
        connection.exec_driver_sql("DROP TRIGGER results_no_delete")
        connection.exec_driver_sql("DELETE FROM results WHERE seq = 3")

    monkeypatch.setattr(sql, "migrate", careless)
    with pytest.raises(IntegrityError, match="the upgrade would lose rows of results"):
        upgrade_store(Workspace(store=folder), UpgradeRequest())
    assert (layout_found(folder), store_rows(folder)) == ("0005", before)


@pytest.mark.parametrize("edited", [4, EVENTS])
def test_a_ledger_that_was_edited_before_is_upgraded_and_told_of(
    gatemark: Run, tmp_path: Path, edited: int
) -> None:
    folder = tmp_path / "store"
    make_old_store(str(folder), "0005")
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("DROP TRIGGER events_no_update")
    connection.execute("UPDATE events SET actor = 'nobody' WHERE seq = ?", (edited,))
    connection.commit()
    connection.close()
    ran = gatemark("store", "upgrade", "--store", folder)
    assert (ran.code, layout_found(str(folder))) == (4, NEWEST)
    assert f"event {edited} does not verify: " in ran.err
    assert "upgraded " in ran.out
    assert "checked the chain" not in ran.out
    found = gatemark("ledger", "verify", "--json", "--store", folder).json
    assert found["first_bad_seq"] == edited


KILLED = """
import sys, time
import sqlalchemy as sa
from gatemark.cli.main import main

def stop(connection, cursor, statement, parameters, context, executemany):
    if "CREATE TABLE identities" in statement:
        print("in the middle", flush=True)
        time.sleep(60)

sa.event.listen(sa.Engine, "before_cursor_execute", stop)
sys.exit(main(sys.argv[1:]))
"""


def child(*arguments: object, program: str = KILLED) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_upgrade_that_is_killed_leaves_the_store_as_it_was(
    gatemark: Run, address: str, tmp_path: Path
) -> None:
    make_old_store(address, "0003")
    before = store_rows(address)
    archive = tmp_path / "b.tar.zst"
    with child("store", "upgrade", "--backup", archive, "--store", address) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
    assert (layout_found(address), store_rows(address)) == ("0003", before)
    assert archive.exists(), "the backup was there before anything changed"
    assert gatemark("store", "upgrade", "--no-backup", "--store", address).code == 0
    assert gatemark("ledger", "verify", "--store", address).code == 0


def test_of_two_upgrades_at_once_one_does_it_and_the_other_says_so(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_store(address, "0004")
    both_saw_the_old_layout = threading.Barrier(2, timeout=60)

    def wait_and_upgrade(*arguments: Any) -> str | None:
        both_saw_the_old_layout.wait()
        return sql.upgrade_database(*arguments)

    def upgrade(number: int) -> StoreUpgrade:
        request = UpgradeRequest(backup=str(tmp_path / f"{number}.tar.zst"))
        return upgrade_store(Workspace(store=address), request)

    monkeypatch.setattr(flow, "upgrade_database", wait_and_upgrade)
    with ThreadPoolExecutor(2) as threads:
        idle, busy = sorted(threads.map(upgrade, range(2)), key=lambda done: done.is_done)
    assert (idle.is_done, idle.is_done_elsewhere, idle.backup) == (False, True, None)
    assert (busy.is_done, busy.is_done_elsewhere) == (True, False)
    assert [str(path) for path in tmp_path.glob("*.tar.zst")] == [busy.backup]
    assert layout_found(address) == NEWEST


NEXT = f"{int(NEWEST) + 1:04}"
NEXT_MIGRATION = f'''
"""A layout of the next release."""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{NEXT}", "{NEWEST}"


def upgrade() -> None:
    op.add_column("points", sa.Column("later", sa.Text))
'''


@pytest.mark.slow
def test_the_next_release_uses_a_store_of_this_one_until_it_is_upgraded(
    gatemark: Run, tmp_path: Path
) -> None:
    """A copy of this build with one more migration stands for the next release."""
    later = copy_package(tmp_path / "next")
    versions = later / "ledger" / "migrations" / "versions"
    (versions / f"v{NEXT}_later.py").write_text(NEXT_MIGRATION)
    folder = tmp_path / "store"
    make_old_store(str(folder), NEWEST)

    def next_build(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gatemark", *map(str, arguments), "--store", str(folder)],
            env={**os.environ, "PYTHONPATH": str(later.parent)},
            capture_output=True,
            text=True,
            check=False,
        )

    before = (folder / DATABASE).read_bytes()
    shown = next_build("store", "info")
    assert f"layout   {NEWEST}, usable as it is; this build makes {NEXT}: " in shown.stdout
    for command in (("list",), ("ledger", "verify"), ("ledger", "log")):
        assert next_build(*command).returncode == 0
    assert (folder / DATABASE).read_bytes() == before
    written = next_build("ledger", "clock-back", "--reason", "to write something")
    assert written.returncode == 0, written.stderr
    assert layout_found(str(folder)) == NEWEST
    assert gatemark("ledger", "verify", "--store", folder).code == 0

    done = next_build("store", "upgrade")
    assert done.returncode == 0, done.stderr
    assert f"from layout {NEWEST} to {NEXT} ({NEXT} later)" in done.stdout
    assert next_build("ledger", "verify").returncode == 0
    ran = gatemark("list", "--store", folder)
    assert ran.code == 3
    assert f"has layout {NEXT}, which this build ({package.__version__}, " in ran.err
    for command in ("upgrade", "backup"):
        arguments = [tmp_path / "b.tar.zst"] if command == "backup" else []
        assert gatemark("store", command, *arguments, "--store", folder).code == 3
    ran = gatemark("store", "info", "--json", "--store", folder)
    assert (ran.code, ran.json["state"], ran.json["layout"]) == (0, "too_new", NEXT)

    archive = tmp_path / "next.tar.zst"
    assert next_build("store", "backup", archive).returncode == 0
    ran = gatemark("store", "restore", archive, "--store", tmp_path / "restored")
    assert (ran.code, f"{archive}: has layout {NEXT}, which this build" in ran.err) == (3, True)
    assert not (tmp_path / "restored").exists()

    (backup,) = backups_in(folder)
    shutil.copy(backup, folder / DATABASE)
    assert gatemark("ledger", "verify", "--store", folder).code == 0
