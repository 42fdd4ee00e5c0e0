"""Every command: no connection but loopback, no write but to the store, its outputs and TMPDIR.

Each command runs with the examples of its own help, and with the good files of the chaos runs, in
one process that is watched from its start, as are the Python processes that it starts. What a
compiled part does by itself is seen only where it leaves something in the home.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from tests.chaos.file_options import GRID
from tests.chaos.mutation import spelled
from tests.chaos.seeds import furnish, seeds

from gatemark.cli.main import gatemark

pytestmark = pytest.mark.slow

WATCH = """
import os, sys

LOG = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SOCKETS = {"connect", "getaddrinfo", "gethostbyname", "sendto", "bind"}
TWO = {"os.rename", "os.link", "os.symlink"}
ONE = {"os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime"}

def tell(kind, what):
    os.write(LOG, f"{kind} {what}\\n".encode("utf-8", "backslashreplace"))

def path_of(value):
    return os.path.abspath(os.fsdecode(value))

def watch(event, arguments):
    if event.startswith("socket."):
        if event[7:] in SOCKETS:
            tell("socket", repr(arguments[-1] if event[7:] in ("connect", "bind", "sendto") else
                                arguments[0]))
    elif event == "open":
        path, _, flags = arguments
        if isinstance(path, (str, bytes)) and flags & WRITES:
            tell("write", path_of(path))
    elif event in ONE or event in TWO:
        for path in arguments[: 1 + (event in TWO)]:
            if isinstance(path, (str, bytes, os.PathLike)):
                tell("write", path_of(path))
    elif event == "sqlite3.connect":
        tell("database", arguments[0])

sys.addaudithook(watch)
"""
WALK = """
import json, os, sys
from gatemark.cli.main import main

lines = json.load(open(sys.argv[1]))
log = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_APPEND)
codes = []
for line in lines:
    os.write(log, ("command " + json.dumps(line) + "\\n").encode())
    try:
        code = main(line)
    except SystemExit as error:
        code = error.code
    codes.append(code)
sys.stdout.flush()
os.write(log, ("codes " + json.dumps(codes) + "\\n").encode())
"""
LONG_LIVED = {"serve", "view", "advisory gateway", "schedule run"}
"""Servers and loops: they listen on loopback and have tests of their own."""
NAMED = ("postgresql://", "--post github", "all=gateway", "--device")
"""Examples that name a place to connect to; the gateway is watched beside its own tests."""
DEMO = "my-demo"
SETTINGS = "settings.yaml"
KINDS_MIN = 60
"""How many of the commands must get beyond their arguments."""


class Walked(NamedTuple):
    """What the watched process did: per command its exit codes, and everything it touched."""

    codes: dict[str, list[int]]
    touched: list[tuple[str, str, str]]
    home: list[Path]


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        place = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, place)
        else:
            yield place, command


def examples(command: click.Command) -> Iterator[list[str]]:
    """The example lines of a command's help, without what belongs to a shell."""
    text = (command.help or "").replace("\\\n", " ")
    for line in re.findall(r"^\s*gatemark (.*)$", text, re.M):
        if not any(word in line for word in NAMED):
            plain = re.split(r" [>|<] ", line)[0].replace("/var/lib/node_exporter/", "")
            # Few cases and settings go the same ways as many.
            words = shlex.split(re.sub(r"--(cases|subset) \d+", r"--\1 2", plain))
            is_search = words[:2] == ["runlog", "calibrate"]
            yield [*words, "--config", SETTINGS] if is_search else words


def prepared(folder: Path) -> list[list[str]]:
    """The lines to walk, over files and stores that are made for them."""
    lines = [["demo", DEMO]]
    for number, seed in enumerate(seeds()):
        place = folder / f"seed-{number}"
        place.mkdir()
        furnish(place)
        rows = seed.document if seed.is_lines else [seed.document]
        (place / seed.file).write_bytes(b"".join(spelled(row) + b"\n" for row in rows))
        given = (text.replace("@", str(place)) for text in seed.arguments)
        lines.append([str(place / seed.file) if text == "{}" else text for text in given])
    furnish(folder)
    (folder / SETTINGS).write_text(json.dumps({"grid": {**GRID, "min_words": [30, 40]}}))
    for place, command in leaves(gatemark):
        if place not in {*LONG_LIVED, "demo"}:
            lines.extend(examples(command))
    return lines


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    folder = tmp_path_factory.mktemp("walk")
    for name in ("home", "hooks", "tmp", "work"):
        (folder / name).mkdir()
    (folder / "home").chmod(0o500)
    (folder / "hooks" / "sitecustomize.py").write_text(WATCH)
    lines = prepared(folder / "work")
    (folder / "lines.json").write_text(json.dumps(lines))
    kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    paths = [str(folder / "hooks"), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, "-c", WALK, str(folder / "lines.json")],
        check=True,
        cwd=folder / "work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            **environment,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "WATCHED": str(folder / "seen"),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GATEMARK_STORE": str(folder / "work" / DEMO / "store"),
        },
    )
    return read(folder, lines)


def read(folder: Path, lines: list[list[str]]) -> Walked:
    touched: list[tuple[str, str, str]] = []
    command, codes = "", []
    for line in (folder / "seen").read_text().splitlines():
        kind, _, what = line.partition(" ")
        if kind == "command":
            command = shlex.join(json.loads(what))
        elif kind == "codes":
            codes = json.loads(what)
        else:
            touched.append((command, kind, what))
    assert len(codes) == len(lines)
    names = [place for place, _ in leaves(gatemark)]
    ended: dict[str, list[int]] = {name: [] for name in names}
    for words, code in zip(lines, codes, strict=True):
        fitting = [name for name in names if words[: len(name.split())] == name.split()]
        ended[max(fitting, key=len)].append(code)
    return Walked(ended, touched, list((folder / "home").rglob("*")))


def test_every_command_was_walked(walked: Walked) -> None:
    unwalked = {name for name, codes in walked.codes.items() if not codes}
    assert unwalked <= LONG_LIVED | {"score runlog"}, unwalked
    assert not [name for name, codes in walked.codes.items() if 5 in codes], "internal errors"
    beyond = [name for name, codes in walked.codes.items() if {0, 1, 3} & set(codes)]
    assert len(beyond) >= KINDS_MIN, Counter(code for one in walked.codes.values() for code in one)


def test_no_command_connects_beyond_this_machine(walked: Walked) -> None:
    strange = [
        (command, what)
        for command, kind, what in walked.touched
        if kind == "socket" and not re.match(r"\(?'(127\.0\.0\.1|::1|localhost)'|''|'/", what)
    ]
    assert strange == []


def test_no_command_writes_beside_store_outputs_and_temporary_folder(
    walked: Walked, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = str(tmp_path_factory.getbasetemp())
    strange = [
        (command, what)
        for command, kind, what in walked.touched
        if kind == "write"
        and not re.match(rf"{re.escape(base)}/walk\d*/(work|tmp)(/|$)", what)
        and what not in ("/dev/null", "/dev/tty")
        and not what.endswith("/seen")
    ]
    assert strange == []
    assert walked.home == []


def test_the_watch_sees_a_lookup_and_a_write_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    seen, elsewhere = tmp_path / "seen", tmp_path / "elsewhere"
    act = (
        f"import socket; open({str(elsewhere)!r}, 'w').close(); "
        "socket.getaddrinfo('203.0.113.1', 80)"
    )
    # In a child of the child: processes that a command starts are watched too.
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {act!r}], check=True)"
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    watched = {**os.environ, "PYTHONPATH": paths, "WATCHED": str(seen)}
    subprocess.run([sys.executable, "-c", start], check=True, env=watched)
    told = seen.read_text().splitlines()
    assert f"write {elsewhere}" in told
    assert "socket '203.0.113.1'" in told
