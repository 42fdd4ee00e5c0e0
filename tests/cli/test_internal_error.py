from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.cli import main as command
from gatemark.cli.screen import put

Run = Callable[..., Any]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("gatemark.cli.internal_error.gettempdir", lambda: str(folder))
    return folder


def _breaks(_arguments: object) -> int:
    raise LookupError("secret detail \x1b[2J")


def test_a_bug_is_never_a_verdict(
    gatemark: Run, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_run", _breaks)
    ran = gatemark("list")
    assert ran.code == 5
    assert ran.out == ""
    told = re.fullmatch(
        r"gatemark: internal error ([0-9a-f]{8}): LookupError at cli/test_internal_error.py:\d+; .*"
        r"\ngatemark: the details are in (\S+); .*\n",
        ran.err.replace("tests/cli", "cli"),
    )
    assert told is not None, ran.err
    assert "secret" not in ran.err
    kept = Path(told[2])
    assert kept.parent == temporary
    assert told[1] in kept.name
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    text = kept.read_text()
    assert "Traceback" in text
    assert "secret detail" in text


def test_a_bug_is_told_where_nothing_can_be_kept(
    gatemark: Run, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_run", _breaks)
    temporary.rmdir()
    ran = gatemark("list")
    assert ran.code == 5
    assert "could not be written" in ran.err


def test_code_that_leaves_the_process_gives_no_verdict(
    gatemark: Run, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(_arguments: object) -> int:
        raise SystemExit(0)

    monkeypatch.setattr(command, "_run", leaves)
    ran = gatemark("list")
    assert ran.code == 5
    assert "internal error" in ran.err
    assert "SystemExit" in next(temporary.iterdir()).read_text()


FULL = Path("/dev/full")
STARTED = "import sys; from gatemark.cli.main import run; sys.argv[0] = 'gatemark'; run()"


def _started(
    *words: object, before: str = "", **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", before + STARTED, *map(str, words)], check=False, **streams
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [["lint", "nowhere.yaml"], ["no-such-command"]])
def test_a_message_that_cannot_be_written_changes_no_exit_code(words: list[str]) -> None:
    with FULL.open("w") as full:
        assert _started(*words, stdout=full, stderr=full).returncode == 2


def test_a_bug_whose_message_cannot_be_written_is_no_failed_gate(tmp_path: Path) -> None:
    before = (
        "import tempfile; tempfile.tempdir = " + repr(str(tmp_path)) + "\n"
        "from gatemark.cli import main\n"
        "def broken(arguments): raise LookupError\n"
        "main._run = broken\n"
    )
    with FULL.open("w") as full:
        assert _started("list", before=before, stdout=full, stderr=full).returncode == 5


@pytest.mark.parametrize("words", [["schema"], ["--help"], ["run", "--help"], ["--version"]])
def test_a_reader_that_leaves_is_no_failed_gate(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = _started(*words, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_shell_can_ask_for_completions() -> None:
    asked = {"_GATEMARK_COMPLETE": "bash_complete", "COMP_WORDS": "gatemark led", "COMP_CWORD": "1"}
    ran = _started(env={**os.environ, **asked}, capture_output=True)
    assert ran.stdout == b"plain,ledger\n"
    assert ran.returncode == 0


def test_closed_streams_change_no_exit_code(write_jsonl: Callable[..., Path]) -> None:
    sample = {"schema": "gatemark.sample/1", "scores": {"exact": 1}}
    base = write_jsonl("base.jsonl", [{**sample, "id": str(number)} for number in range(9)])
    before = "import os; [os.close(n) for n in (0, 1, 2)]; sys = __import__('sys'); "
    closed = before + "sys.stdin = sys.stdout = sys.stderr = None\n"
    opened = _started("compare", base, base, capture_output=True)
    assert opened.returncode == 3
    assert _started("compare", base, base, before=closed).returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="needs proc(5)")
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:hunter2@db/gm",
        "postgresql://ada:p@hunter2@db/gm",
        "postgresql://db/gm?user=ada&password=hunter2&x=1",
        "postgresql://db/gm?sslpassword=hunter2",
    ],
)
def test_other_processes_do_not_see_a_password_of_the_command_line(address: str) -> None:
    before = (
        "from gatemark.cli import main\n"
        "def seen(arguments): print(sys.argv[2] == sys.argv[3], *open('/proc/self/cmdline'))\n"
        "main._run = seen\n"
    )
    ran = _started("--store", address, address, "after", before=before, capture_output=True)
    assert ran.stdout.startswith(b"True ")
    seen = ran.stdout.split(b"\0")
    assert not [word for word in seen if b"hunter2" in word]
    assert b"after" in seen
    assert len([word for word in seen if word.startswith(b"postgresql://")]) == 2


@pytest.mark.parametrize("name", ["a\x1b[2J.jsonl", "a\u202eb.jsonl", "a\ngatemark: PASS"])
def test_a_file_name_drives_no_terminal(gatemark: Run, tmp_path: Path, name: str) -> None:
    for arguments in (
        ("validate", tmp_path / name),
        ("list", "--store", tmp_path / name),
        ("lint", tmp_path / name),
        ("import", tmp_path / name, "-o", tmp_path / "out.jsonl"),
    ):
        ran = gatemark(*arguments)
        assert ran.code == 2
        assert not set(ran.err + ran.out) & set("\x1b\u202e")
        assert "\ngatemark: PASS" not in ran.err


def test_a_valid_file_with_such_a_name_is_told_the_same_way(
    gatemark: Run, write_jsonl: Callable[..., Path]
) -> None:
    path = write_jsonl("a\x1b[2Jb.jsonl", [{"id": "a", "scores": {"exact": 1}}])
    ran = gatemark("validate", path, "--schema", "gatemark.sample/1")
    assert r"a\x1b[2Jb.jsonl" in ran.out + ran.err
    assert "\x1b" not in ran.out + ran.err


def test_a_store_path_drives_no_terminal(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("ledger", "verify", "--store", tmp_path / "s\x1b]0;x\x07")
    assert ran.code == 2
    assert not set(ran.err + ran.out) & set("\x1b\x07")


@pytest.mark.parametrize("data", ["a\x1b[2J\u202e\n", "a\x1b[2J\u202e\n".encode(), b"a\x1b\xff\n"])
def test_data_reaches_a_terminal_escaped_and_a_file_unchanged(
    data: str | bytes, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(data)
    assert capsysbinary.readouterr().out == (data.encode() if isinstance(data, str) else data)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    put(data)
    shown = capsysbinary.readouterr().out.decode()
    assert not set(shown) & set("\x1b\u202e")
    assert shown.startswith("a\\x1b")


def test_every_command_prints_through_the_functions_that_clean() -> None:
    folder = Path(command.__file__).parent
    own = {"main.py", "screen.py"}
    raw = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in sorted(folder.rglob("*.py"))
        if str(path.relative_to(folder)) not in own
        for line in path.read_text().splitlines()
        # Coloured tables are made of clean words.
        if re.search(r"click\.s?echo|\bprint\(", line) and "wants_color()" not in line
    ]
    assert not [line for line in raw if "def print(" not in line and ".print(" not in line]
