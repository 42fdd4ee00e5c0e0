"""Walk every command, watched: ``python -m tests.watched.walk FOLDER POSTGRES [apart]``.

This process is not watched itself. It prepares the scene, has one watched process run a line after
the other, starts each server and loop as a watched process of its own, and is what they talk to:
it asks the servers, and it serves what lines name. ``walked.json`` in the folder tells how each
line ended.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import msgspec
from tests.ci.github_server import TOKEN
from tests.watched.lines import (
    ALONE,
    LONG_LIVED,
    NAMING,
    PREPARED,
    evidence,
    examples,
    good_lines,
    told,
)
from tests.watched.places import LOOPBACK, Place, places
from tests.watched.scene import names, write_scene
from tests.watched.watch import MARK, OUTSIDE, counted, raise_loopback, start, tracer

NEEDED = {"all=gateway": "openvino", "advisory gateway": "openvino", "--engine ray": "ray"}
"""What lines with these words need. They are left out where it is not installed."""
OWN_SERVER = 0
"""Stands for the port of a server that a line starts itself."""
PATIENCE_S = 600  # it hangs; a busy machine needs minutes
SAID_MAX = 400
BEGIN = f"""
import contextlib, json, os, sys
from gatemark.cli.main import main

def begin(number):
    with contextlib.suppress(OSError):
        os.rmdir({MARK!r} + str(number))
"""
MANY = f"""{BEGIN}
asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
printed = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(printed, 1)
os.dup2(printed, 2)
for row in asked:
    number, words = json.loads(row)
    os.ftruncate(printed, 0)
    os.lseek(printed, 0, os.SEEK_SET)
    begin(number)
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code
    sys.stdout.flush()
    sys.stderr.flush()
    print(code, file=answers, flush=True)
begin({OUTSIDE})
"""
ONE = f"""{BEGIN}
begin(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)(/\S+)?")


class Walked(msgspec.Struct):
    """A line and how it ended."""

    words: list[str]
    code: int
    said: str
    """The last of what it printed."""
    ports: list[int]
    """The ports that it names."""
    process: str
    counted: dict[str, int]
    """Attempts to leave the network, if it is one without a route."""


class Walk:
    """The lines that were walked so far, and the process that walks the next."""

    def __init__(self, folder: Path, found: Mapping[str, Place], variables: Mapping[str, str]):
        self.folder, self.found = folder, found
        self.names = {name: place.address for name, place in found.items()}
        self.lines: list[Walked] = []
        self._printed = folder / "printed"
        self._worker = start(folder, "worker", ["-c", MANY, str(self._printed)], variables)
        self._counted = counted()

    def line(self, line: str, *named: str) -> str:
        """Walk a line that may connect to what it names; gives what it printed."""
        if any(find_spec(part) is None for words, part in NEEDED.items() if words in line):
            return ""
        ports = [
            place.port for name, place in self.found.items() if name in (*named, *line.split())
        ]
        return self.words(told(line, self.names), ports)

    def words(self, words: Sequence[str], ports: Sequence[int] = ()) -> str:
        """Walk the words of a line, in the process that walks many."""
        worker = self._worker
        assert worker.stdin is not None
        assert worker.stdout is not None
        print(json.dumps([len(self.lines), words]), file=worker.stdin, flush=True)
        code = int(worker.stdout.readline())
        said = self._printed.read_text(errors="replace")
        self._keep(words, code, said, ports, "worker")
        return said

    def alone(self, line: str, *, is_stopped: bool) -> None:
        """Walk a line in a process of its own; a server or loop is asked something and stopped."""
        if any(find_spec(part) is None for words, part in NEEDED.items() if words in line):
            return
        words, number = told(line, self.names), len(self.lines)
        name = f"alone-{number}"
        with start(self.folder, name, ["-c", ONE, str(number), *words], {}) as process:
            assert process.stdout is not None
            heard = ""
            if is_stopped:
                heard = _asked(process.stdout.readline())
                for one in _watched_in(process.pid):
                    os.kill(one, signal.SIGINT if number % 2 else signal.SIGTERM)
            rest, _ = process.communicate(timeout=PATIENCE_S)
        said = heard + rest + (self.folder / f"{name}.err").read_text()
        ports = [place.port for called, place in self.found.items() if called in line.split()]
        own = [] if is_stopped else [OWN_SERVER]
        self._keep(words, process.returncode, said, [*ports, *own], name)

    def _keep(
        self, words: Sequence[str], code: int, said: str, ports: Sequence[int], process: str
    ) -> None:
        now = counted()
        left = {key: now[key] - before for key, before in self._counted.items()}
        self._counted = now
        tried = {key: count for key, count in left.items() if count}
        self.lines.append(Walked([*words], code, said[-SAID_MAX:], [*ports], process, tried))

    def end(self) -> None:
        """End the watched process."""
        self._worker.communicate(timeout=PATIENCE_S)


def _asked(first: str) -> str:
    """Ask the server that printed its first line for pages, if it is one; gives the line."""
    if address := _ADDRESS.search(first):
        for path in (address[2] or "/", "/", "/health", "/healthz", "/no-such-page"):
            asked = HTTPConnection(LOOPBACK, int(address[1]), timeout=PATIENCE_S)
            asked.request("GET", path)
            asked.getresponse().read()
            asked.close()
    return first


def _watched_in(process: int) -> list[int]:
    """The watched process: strace hands no signal on, what it runs is its child."""
    if tracer() is None:
        return [process]
    children = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(one) for one in children.split()]


def walk(folder: Path, postgres: str) -> list[Walked]:
    """Walk every line, in a folder with ``home``, ``tmp`` and ``work``."""
    work = folder / "work"
    with places(postgres) as found:
        write_scene(work, found["HTTP"].address)
        variables = {
            "GITHUB_API_URL": found["GITHUB"].address,
            "GITHUB_REPOSITORY": "acme/help-desk",
            "GITHUB_EVENT_PATH": str(work / "event.json"),
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_ACTOR": "ann",
        }
        walked = Walk(folder, found, variables)
        for line in PREPARED:
            walked.line(line)
        (work / "proof.json").write_text(walked.line("ledger prove 3"))
        walked.names |= names(work)
        for line in good_lines():
            walked.line(line)
        for name, lines in NAMING.items():
            for line in lines:
                walked.line(line, name)
        for line in ALONE:
            walked.alone(line, is_stopped=False)
        for line in LONG_LIVED:
            walked.alone(line, is_stopped=True)
        for line in examples():
            walked.line(line)
        for words in evidence(work):
            walked.words(words)
        walked.end()
    return walked.lines


def main(arguments: Sequence[str]) -> None:
    """Walk, and write down how the lines ended."""
    folder, postgres, *rest = arguments
    if rest:  # In a network of its own, whose loopback is down at first.
        raise_loopback()
    (Path(folder) / "walked.json").write_bytes(msgspec.json.encode(walk(Path(folder), postgres)))


if __name__ == "__main__":
    main(sys.argv[1:])
