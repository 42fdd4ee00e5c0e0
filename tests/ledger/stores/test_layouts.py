"""What opening does with each layout: nothing, ever, but making a store where there is none."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from tests.ledger.samples import result

from gatemark import __version__
from gatemark.core.errors import BadInputError, NewerFormatError
from gatemark.ledger.event import EventDraft
from gatemark.ledger.stores import DATABASE
from gatemark.ledger.stores.database import (
    LAYOUTS,
    NEWEST,
    OLDEST_USABLE,
    USABLE,
    migrate,
    run_migrations,
    state_of,
    steps_after,
)
from gatemark.ledger.stores.postgres import postgres_place
from gatemark.ledger.stores.tables import METADATA
from gatemark.workspace import Workspace

from .filled_stores import (
    alembic_config,
    layout_found,
    make_filled_store,
    set_layout,
    store_rows,
)
from .next_release import NEXT, next_release, next_release_without

Run = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "store")


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_known_layouts_are_those_of_the_migrations_in_their_order() -> None:
    script = ScriptDirectory.from_config(alembic_config())
    chain = [revision.revision for revision in script.walk_revisions()]
    assert tuple(reversed(chain)) == LAYOUTS
    assert script.get_heads() == [NEWEST]


def migrate_new(connection: sa.Connection) -> None:
    migrate(connection, None)


def test_a_new_store_is_what_the_migrations_make() -> None:
    """After a new migration, ``python tools/record_layout.py`` makes this true again."""
    made = []
    for make in (migrate_new, run_migrations):
        with sa.create_engine("sqlite://").begin() as connection:
            make(connection)
            parts = connection.exec_driver_sql(
                "SELECT type, name, tbl_name, sql FROM sqlite_master"
            )
            layout = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            made.append((sorted(map(tuple, parts), key=str), layout.all()))
    assert made[0] == made[1]
    assert made[0][1] == [(NEWEST,)]


PARTS_IN_POSTGRESQL = """
SELECT 'column', table_name || '.' || column_name, concat_ws(' ', ordinal_position, data_type,
    character_maximum_length, is_nullable, column_default)
    FROM information_schema.columns WHERE table_schema = current_schema()
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()
UNION ALL SELECT 'constraint', conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(t.oid)
    FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
    WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid)
    FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT 'relation', relname, concat_ws(' ', relkind, relacl::text)
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace
UNION ALL SELECT 'rights on a column', attrelid::regclass || '.' || attname, attacl::text
    FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
    WHERE relnamespace = current_schema()::regnamespace AND attacl IS NOT NULL
UNION ALL SELECT 'layout', '', version_num FROM alembic_version
ORDER BY 1, 2
"""


def test_a_new_store_in_postgresql_is_what_the_migrations_make(
    new_postgres_url: Callable[[], str],
) -> None:
    made = []
    for make in (migrate_new, run_migrations):
        database = postgres_place(new_postgres_url()).database
        with database.writing() as connection:
            make(connection)
            (schema,) = connection.exec_driver_sql("SELECT current_schema()").one()
            parts = connection.exec_driver_sql(PARTS_IN_POSTGRESQL)
            made.append([tuple(str(word).replace(schema, "S") for word in part) for part in parts])
        database.close()
    assert len(made[0]) > 300
    assert {kind for kind, _, _ in made[0]} >= {"trigger", "function", "rights on a column"}
    assert made[0] == made[1]
    assert ("layout", "", NEWEST) in made[0]


def test_what_this_build_does_with_a_layout() -> None:
    assert (LAYOUTS, USABLE, OLDEST_USABLE, NEWEST) == (("0001",), ("0001",), "0001", "0001")
    assert state_of(NEWEST) == "newest"
    assert state_of(f"{int(NEWEST) + 1:04}") == "too_new"
    assert state_of("9999") == "too_new"
    for foreign in ("ae1027a6acf", "", "0000", "00061", "６６６６６"):
        assert state_of(foreign) == "unknown", foreign
    assert steps_after(NEWEST) == ()


def test_a_store_that_is_too_old_is_refused_and_left_as_it_is(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_filled_store(address)
    rows = store_rows(address)
    files = files_of(Path(address)) if "://" not in address else {}
    later = next_release_without(tmp_path_factory)
    for command in (("list",), ("role", "grant", "ada", "admin")):
        ran = later(*command, "--store", address)
        assert ran.code == 2
        told = f": has layout {NEWEST}, this build needs {NEXT} or newer: run "
        assert ran.err.endswith(f'{told}"gatemark store upgrade" (it makes a backup first)\n')
    assert layout_found(address) == NEWEST
    assert store_rows(address) == rows
    if files:
        assert files_of(Path(address)) == files


def test_a_usable_store_is_opened_as_it_is_and_can_be_written(
    gatemark: Run, address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make_filled_store(address)
    later = next_release(tmp_path_factory)
    listed = later("list", "--json", "--store", address)
    assert [one["title"] for one in listed.json] == ["c", "b", "a"]
    granted = later("role", "grant", "ada", "admin", "--actor", "ada", "--store", address)
    assert granted.code == 0, granted.err
    assert layout_found(address) == NEWEST
    assert gatemark("role", "list", "--store", address).out.startswith("ada")


def test_the_server_works_on_a_usable_store_as_it_is(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / "store"
    Workspace(store=str(folder)).store.close()
    later = next_release(tmp_path_factory)
    with subprocess.Popen(
        [sys.executable, "-m", "gatemark", "serve", "--port", "0", "--store", str(folder)],
        env={**os.environ, "PYTHONPATH": str(later.source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        told = server.stdout.readline()
        link = server.stdout.readline().split()[-1]
        with urlopen(link) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGINT)
        _, trouble = server.communicate(timeout=30)
    assert told.startswith(f"Gatemark serves {folder} at http://127.0.0.1:")
    assert (server.returncode, trouble) == (0, "")
    assert layout_found(str(folder)) == NEWEST


def test_a_newer_store_is_refused_by_its_layout_and_not_called_broken(address: str) -> None:
    Workspace(store=address).store.close()
    set_layout(address, "0999")
    with pytest.raises(NewerFormatError) as caught:
        Workspace(store=address).existing_store()
    told = (
        f"has layout 0999, which this build ({__version__}, layouts up to {NEWEST}) does not know"
    )
    assert str(caught.value).endswith(f": {told}: install a newer Gatemark")
    assert caught.value.exit_code == 3
    assert layout_found(address) == "0999"


def test_the_database_of_another_program_is_not_called_newer(address: str) -> None:
    Workspace(store=address).store.close()
    set_layout(address, "ae1027a6acf")
    with pytest.raises(BadInputError, match="does the database belong to another program"):
        Workspace(store=address).store.events.head()


def test_many_may_open_a_new_store_at_once(address: str) -> None:
    def open_it(_: int) -> int:
        store = Workspace(store=address).store
        seq = store.events.head().seq
        store.close()
        return seq

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(open_it, range(4))) == [0] * 4
    assert layout_found(address) == NEWEST


def test_the_tables_of_the_code_are_the_tables_of_the_migrations(address: str) -> None:
    store = Workspace(store=address).store
    with store.database.reading() as connection:
        inspector = sa.inspect(connection)
        for table in METADATA.tables.values():
            columns = [column["name"] for column in inspector.get_columns(table.name)]
            assert columns == [column.name for column in table.columns]
    store.close()


def test_looking_makes_no_store_in_a_database_without_one(gatemark: Run, tmp_path: Path) -> None:
    path = tmp_path / "store" / DATABASE
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (a)")
    before = path.read_bytes()
    for command in (("list",), ("ledger", "verify"), ("store", "info"), ("store", "upgrade")):
        ran = gatemark(*command, "--store", path.parent)
        assert (ran.code, ran.err) == (2, f"gatemark: there is no store at {path}\n"), command
    assert path.read_bytes() == before


@pytest.fixture
def held(tmp_path: Path, gatemark: Run) -> tuple[Path, str]:
    """A store that was closed, with a result and an asset, and the id of the result."""
    folder = tmp_path / "store"
    workspace = Workspace(store=str(folder))
    workspace.blobs.put(b"evidence")
    sealed = result("a")
    workspace.results.append(sealed)
    workspace.store.close()
    new = ("asset", "add", "triage@1", "--kind", "prompt", "--digest", "sha256:" + "ab" * 32)
    for actor, command in (
        ("ada", ("role", "grant", "ada", "admin")),
        ("ada", ("role", "grant", "ann", "author")),
        ("ann", new),
    ):
        ran = gatemark(*command, "--actor", actor, "--store", folder)
        assert ran.code == 0, ran.err
    return folder, sealed.id


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_commands_that_look_leave_every_byte_alone(
    gatemark: Run, held: tuple[Path, str], mode: str, tmp_path: Path
) -> None:
    folder, sealed = held
    with sqlite3.connect(folder / DATABASE) as connection:
        # A copy made by other tools has no write-ahead log.
        assert connection.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
    connection.close()
    before = files_of(folder)
    commands: list[tuple[object, ...]] = [
        ("list",),
        ("show", sealed),
        ("report", sealed, "-o", tmp_path / "report.md"),
        ("why", "triage@1"),
        ("asset", "list"),
        ("asset", "history", "triage"),
        ("ledger", "verify"),
        ("ledger", "log"),
        ("drift", "status"),
        ("store", "info"),
        ("store", "upgrade"),
        ("store", "upgrade", "--dry-run"),
    ]
    for command in commands:
        ran = gatemark(*command, "--store", folder)
        assert ran.code == 0, (command, ran.err)
        assert files_of(folder) == before, command
    assert gatemark("store", "backup", tmp_path / "b.tar.zst", "--store", folder).code == 0
    assert files_of(folder) == before


def test_who_writes_gets_a_write_ahead_log(held: tuple[Path, str]) -> None:
    path = held[0] / DATABASE
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    workspace = Workspace(store=str(held[0]))
    assert workspace.events.head().seq > 1
    assert path.read_bytes()[18:20] == b"\1\1", "version numbers of the file format: no log"
    workspace.events.append([EventDraft("noted", workspace.clock(), "a", None, {})])
    workspace.store.close()
    assert path.read_bytes()[18:20] == b"\2\2"


@pytest.mark.parametrize("found", ["ae1027a6acf", "0999"])
def test_every_command_ends_the_same_way_on_a_layout_it_cannot_use(
    gatemark: Run, address: str, tmp_path: Path, found: str
) -> None:
    Workspace(store=address).store.close()
    set_layout(address, found)
    assert gatemark("init", tmp_path / "pack").code == 0
    rows = store_rows(address)
    code = 3 if found == "0999" else 2
    commands: list[tuple[object, ...]] = [
        ("list",),
        ("show", "0" * 64),
        ("ledger", "verify"),
        ("ledger", "keygen", tmp_path / "k"),
        ("why", "triage@1"),
        ("run", tmp_path / "pack" / "pack.yaml"),
        ("role", "list"),
        ("drift", "status"),
        ("serve", "--port", "0"),
        ("serve", "--link", "ann"),
    ]
    for command in commands:
        ran = gatemark(*command, "--store", address)
        assert ran.code == code, (command, ran.err)
        assert re.search(f": has layout '?{found}'?, ", ran.err), command
        assert len(ran.err.splitlines()) == 1 or command[0] == "run", ran.err
    assert not (tmp_path / "k").exists()
    assert layout_found(address) == found
    assert store_rows(address) == rows
