"""The files of a store: who can read them, and what a store gives to those who cannot write it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger.samples import ATTACHMENT, EVIDENCE, result

import gatemark as package
from gatemark.cli.main import main
from gatemark.core import atomic
from gatemark.core.atomic import replacing_folder, write_secret, write_whole
from gatemark.core.errors import BadInputError
from gatemark.targets.journal import Journal
from gatemark.workspace import Workspace

NOBODY = 65534
LOOKS = (("ledger", "verify"), ("list",), ("store", "info"))
GRANT = ("role", "grant", "--actor", "ada", "ada", "admin")
SOURCES = Path(package.__file__).parents[1]


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def fill(folder: Path) -> Workspace:
    workspace = Workspace(store=str(folder))
    for data in (EVIDENCE, ATTACHMENT):
        workspace.blobs.put(data)
    workspace.results.append(result(with_blobs=True))
    return workspace


def test_only_its_owner_can_read_a_store(tmp_path: Path) -> None:
    workspace = fill(tmp_path / "deep" / "store")
    Journal(workspace.run_folder("a" * 64) / "arm.journal", clock=time.monotonic).close()
    paths = [tmp_path / "deep" / "store", *(tmp_path / "deep" / "store").rglob("*")]
    assert {path.suffix for path in paths} >= {".sqlite3", ".journal"}
    for path in paths:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(tmp_path / "deep") == 0o755


def test_a_journal_before_the_store_makes_a_folder_of_its_owner(tmp_path: Path) -> None:
    workspace = Workspace(store=str(tmp_path / "store"))
    Journal(workspace.run_folder("a" * 64) / "arm.journal", clock=time.monotonic).close()
    assert mode(tmp_path / "store") == 0o700


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o770)
    (tmp_path / "store").chmod(0o770)
    fill(tmp_path / "store")
    assert mode(tmp_path / "store") == 0o770
    assert mode(tmp_path / "store" / "gatemark.sqlite3") == 0o600


def as_reader(*arguments: str) -> tuple[int, str]:
    """Run a command as somebody who can read what others can read, and write nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        with os.fdopen(writing, "w") as sys.stdout:
            sys.stderr = sys.stdout
            code = main(list(arguments))
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize("is_open", [False, True])
def test_a_store_that_cannot_be_written_can_be_read(tmp_path: Path, *, is_open: bool) -> None:
    folder = tmp_path / "store"
    workspace = fill(folder)
    # Another user may not be able to load our modules; what is loaded here is there in the child.
    fill(tmp_path / "warm")
    for command in (*LOOKS, GRANT):
        assert main([*command, "--store", str(tmp_path / "warm")]) == 0
    if not is_open:
        # The last connection takes the write-ahead log with it.
        workspace.store.close()
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in folder.parents:
        if parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(0o755)
    for command in LOOKS:
        code, said = as_reader(*command, "--store", str(folder))
        assert code == 0, said
    code, said = as_reader(*GRANT, "--store", str(folder))
    assert (code, f"{folder}/gatemark.sqlite3: cannot be written" in said) == (2, True), said
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700)
    assert len(workspace.results.lines(9)) == 1


def test_what_killed_commands_left_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from gatemark.core.atomic import *\n"
        "with replacing(Path('report.html')) as a, secret_file(Path('key')) as b, "
        "replacing_folder(Path('exported')) as c:\n"
        "    a.write(b'half'); (c / 'events.jsonl').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        cwd=tmp_path,
        check=False,
    )
    left = sorted(tmp_path.iterdir())
    assert len(left) == 3
    mine = tmp_path / ".report.html.abcdefgh"
    mine.write_text("not made by Gatemark")
    write_whole(tmp_path / "one.html", [b"whole"])
    assert set(left) <= set(tmp_path.iterdir()), "another command may be writing these"
    days_ago = time.time() - 2 * 86_400
    for path in [*left, mine]:
        os.utime(path, (days_ago, days_ago))
    # Another process would look again.
    atomic._sweep.cache_clear()
    with replacing_folder(tmp_path / "other"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.name, "one.html", "other"]


def test_a_folder_that_is_a_file_is_not_called_an_existing_key(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(BadInputError, match="cannot be written"):
        write_secret(tmp_path / "keys" / "own.key", b"secret")
    write_secret(tmp_path / "own.key", b"secret")
    with pytest.raises(BadInputError, match="already exists and is never overwritten"):
        write_secret(tmp_path / "own.key", b"other")
    assert (tmp_path / "own.key").read_bytes() == b"secret"
