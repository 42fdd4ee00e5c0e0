"""Every command: no connection but those named, no write but to the store, its outputs and TMPDIR.

``tests/watched`` walks the commands, servers and loops among them. Python is watched by an audit
hook, compiled parts by strace and by the counters of a network without a route, where the system
has them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.chaos.file_options import commands
from tests.watched.lines import outputs
from tests.watched.walk import OWN_SERVER, PATIENCE_S, Walked
from tests.watched.watch import OUTSIDE, Touch, apart, start, touched, tracer

pytestmark = pytest.mark.slow

ENDS = {0, 1, 3, 4}
"""A verdict, a refusal, or done; 2 is an end at the arguments."""
WITHOUT_AN_END = set() if find_spec("openvino") else {"advisory gateway"}
"""Commands that are not walked to an end: the gateway, where OpenVINO is not installed."""
HERE = {"127.0.0.1", "::1", "localhost"}
KERNEL = re.compile(
    r"/dev/(null|tty)"
    r"|/dev/shm/(sem\.|plasma)[\w-]+"  # memory that processes share: of the C library, of Ray
    r"|/proc/self/clear_refs"  # the peak of memory that 'overhead run' measures starts again
    r"|/proc/\d+/oom_score_adj"  # Ray's workers end first when memory runs out
)
"""What looks like a file and is none."""
NAME_SERVICE = "/var/run/nscd/socket"
"""Where the C library asks for the name of a user."""
STORE_CLOSED = re.compile(r"/gatemark\.sqlite3-(shm|wal)$")
TEMPORARY = re.compile(r"\.([^/]+)\.\w{8}\.gatemark-tmp")


class Seen(NamedTuple):
    """How the lines ended, and what the watches saw."""

    folder: Path
    lines: list[Walked]
    touches: list[Touch]
    is_apart: bool

    def line(self, touch: Touch) -> str:
        return "" if touch.line == OUTSIDE else shlex.join(self.lines[touch.line].words)


@pytest.fixture(scope="module")
def seen(new_postgres_url: Callable[[], str]) -> Iterator[Seen]:
    # A short name: Ray's sockets lie below TMPDIR, and their paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gm-") as name:
        yield walked_in(Path(name), new_postgres_url())


def walked_in(folder: Path, postgres: str) -> Seen:
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir()
    (folder / "home").chmod(0o500)
    words = apart()
    command = [*words, sys.executable, "-m", "tests.watched.walk", str(folder), postgres]
    subprocess.run(
        [*command, *(["apart"] if words else [])],
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=PATIENCE_S,
    )
    lines = msgspec.json.decode((folder / "walked.json").read_bytes(), type=list[Walked])
    processes = {line.process for line in lines}
    touches = [touch for name in sorted(processes) for touch in touched(folder, name)]
    return Seen(folder, lines, touches, bool(words))


def test_every_command_ends_in_a_verdict_or_does_what_it_is_for(seen: Seen) -> None:
    names = [name for name, _ in commands()]
    ended: dict[str, set[int]] = {name: set() for name in names}
    for line in seen.lines:
        fitting = [name for name in names if line.words[: len(name.split())] == name.split()]
        ended[max(fitting, key=len)].add(line.code)
    well = {*ENDS, -signal.SIGTERM}
    assert {name for name, codes in ended.items() if not codes & well} == WITHOUT_AN_END
    alone = {line.code for line in seen.lines if line.process != "worker"}
    assert alone <= well, "a server that a signal stops ends by it, or well"
    broken = [line for line in seen.lines if line.code == 5 or "Traceback" in line.said]
    assert broken == []


def test_no_command_connects_but_to_what_its_line_names(seen: Seen) -> None:
    strange = [
        (seen.line(touch), touch)
        for touch in seen.touches
        if touch.kind in ("connect", "bind") and not _is_named(seen, touch)
    ]
    assert strange == []


def _is_named(seen: Seen, touch: Touch) -> bool:
    host, _, port = touch.place.rpartition(" ")
    if host.startswith("/"):
        return host == NAME_SERVICE or host.startswith(f"{seen.folder}/tmp/")
    ports = [] if touch.line == OUTSIDE else seen.lines[touch.line].ports
    # Port 0 is a look-up of loopback, which connects to nothing.
    is_port_named = touch.kind == "bind" or port == "0" or {int(port), OWN_SERVER} & {*ports}
    return host in HERE and bool(is_port_named)


def test_each_named_place_was_connected_to(seen: Seen) -> None:
    named = {port for line in seen.lines for port in line.ports if port}
    connected = {touch.place.split()[1] for touch in seen.touches if touch.kind == "connect"}
    if tracer() is None:
        pytest.skip("strace is not installed, and the client of PostgreSQL is compiled")
    assert {str(port) for port in named} <= connected


def test_no_command_writes_beside_store_outputs_and_temporary_folder(seen: Seen) -> None:
    strange = [
        (seen.line(touch), touch)
        for touch in seen.touches
        if touch.kind == "write" and not _is_output(seen, touch)
    ]
    assert strange == []


def _is_output(seen: Seen, touch: Touch) -> bool:
    work = f"{seen.folder}/work"
    place = touch.place if touch.place.startswith("/") else f"{work}/{touch.place}"
    path = TEMPORARY.sub(r"\1", os.path.normpath(place))
    logs = re.escape(str(seen.folder)) + r"/(printed|[\w-]+\.hook)"
    if path.startswith(f"{seen.folder}/tmp") or KERNEL.fullmatch(path) or re.fullmatch(logs, path):
        return True
    if touch.line == OUTSIDE:
        return path.startswith(work) and STORE_CLOSED.search(path) is not None
    named = [str(Path(work) / one) for one in outputs(seen.lines[touch.line].words)]
    return any(path.startswith(one) or one.startswith(f"{path}/") for one in named)


def test_the_home_stays_empty(seen: Seen) -> None:
    assert list((seen.folder / "home").rglob("*")) == []


def test_no_compiled_part_tries_to_leave_this_machine(seen: Seen) -> None:
    if not seen.is_apart:
        pytest.skip("this system gives no network of its own (unshare --net)")
    assert [(line.words, line.counted) for line in seen.lines if line.counted] == []


COMPILED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
libc.creat(sys.argv[1].encode(), 0o600)
address = struct.pack("!2s H 4s 8x", struct.pack("H", 2), 53, bytes([203, 0, 113, 1]))
# A datagram socket that is connected sends nothing.
libc.connect(libc.socket(2, 2, 0), address, len(address))
"""
PYTHON = """
import socket, sys
open(sys.argv[1], "w").close()
socket.getaddrinfo("203.0.113.1", 80)
"""


def watched(folder: Path, code: str) -> set[tuple[str, str]]:
    """What the watches see of code that a watched process runs in a child."""
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir()
    words = [sys.executable, "-c", code, str(folder / "elsewhere")]
    starting = f"import subprocess; subprocess.run({words!r}, check=True)"
    with start(folder, "one", ["-c", starting], {}) as process:
        assert process.wait(PATIENCE_S) == 0
    return {(touch.kind, touch.place) for touch in touched(folder, "one")}


def test_the_watch_sees_a_lookup_and_a_write_of_a_child(tmp_path: Path) -> None:
    found = watched(tmp_path, PYTHON)
    assert ("write", str(tmp_path / "elsewhere")) in found
    assert ("connect", "203.0.113.1 80") in found


def test_the_watch_sees_what_compiled_code_does(tmp_path: Path) -> None:
    if tracer() is None:
        pytest.skip("strace is not installed, or may not look at processes")
    found = watched(tmp_path, COMPILED)
    assert ("write", str(tmp_path / "elsewhere")) in found
    assert ("connect", "203.0.113.1 53") in found


def test_a_network_without_a_route_counts_what_compiled_code_tries(tmp_path: Path) -> None:
    words = apart()
    if not words:
        pytest.skip("this system gives no network of its own (unshare --net)")
    counting = "from tests.watched.watch import counted, raise_loopback\nraise_loopback()\n"
    code = f"{counting}{COMPILED}\nprint(counted()['Ip OutNoRoutes'])"
    command = [*words, sys.executable, "-c", code, str(tmp_path / "elsewhere")]
    printed = subprocess.check_output(command, cwd=Path(__file__).parents[2])
    assert int(printed) == 1
