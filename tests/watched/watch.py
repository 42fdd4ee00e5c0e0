"""Watched processes: an audit hook for Python, strace and counters for what is compiled.

The hook sees what Python does, in every Python process that a watched one starts. Compiled parts
are seen by ``strace`` where it is installed, and by the counters of a network of their own where
the system gives one: it has loopback and no route, so each attempt to leave is counted.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HOOK = """
import os, sys

LOG = os.open(LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
SOCKETS = {"connect", "getaddrinfo", "gethostbyname", "sendto", "bind"}
TWO = {"os.rename", "os.link", "os.symlink"}
ONE = {"os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime"}
IN_FOLDER = ONE - {"os.truncate"}

def tell(kind, what):
    os.write(LOG, f"{kind} {what}\\n".encode("utf-8", "backslashreplace"))

def path_of(value, folder=-1):
    place = os.getcwd() if folder < 0 else os.readlink(f"/proc/self/fd/{folder}")
    return os.path.normpath(os.path.join(place, os.fsdecode(value)))

def watch(event, arguments):
    if event.startswith("socket."):
        if event[7:] in SOCKETS:
            place = arguments[1] if event[7:] in ("connect", "bind", "sendto") else arguments
            host, port = (*place, None)[:2] if isinstance(place, tuple) else (place, None)
            tell("bind" if event == "socket.bind" else "connect", f"{host or ''} {port or 0}")
    elif event == "open":
        path, _, flags = arguments
        if isinstance(path, (str, bytes)) and flags & WRITES:
            tell("write", path_of(path))
    elif event in ONE or event in TWO:
        folder = arguments[-1] if event in IN_FOLDER else -1
        for path in arguments[: 1 + (event in TWO)]:
            if isinstance(path, (str, bytes, os.PathLike)):
                tell("write", path_of(path, folder))
    elif event == "sqlite3.connect":
        path = os.fsdecode(arguments[0])
        if path != ":memory:" and "mode=ro" not in path:
            tell("write", path_of(path.removeprefix("file:").partition("?")[0]))

sys.addaudithook(watch)
"""
CALLS = (
    "connect,sendto,sendmsg,sendmmsg,bind,open,openat,creat,mkdir,mkdirat,unlink,unlinkat,rmdir,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,truncate,chmod,fchmodat,utimensat"
)
COUNTERS = {"Ip OutNoRoutes", "Udp OutDatagrams", "Ip6OutNoRoutes", "Udp6OutDatagrams"}
"""Attempts to leave a network without a route, and look-ups at a name server on loopback."""
MARK = "/watched-line-"
"""Removing a folder of this name, which is nowhere, tells both watches which line begins."""
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
OUTSIDE = -1
"""The number of what a process does before its first line and after its last."""
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")


class Touch(NamedTuple):
    """Something that a process did: ``connect``, ``bind`` or ``write``, where, and in which line.

    The place is ``HOST PORT`` or a path.
    """

    line: int
    kind: str
    place: str
    seen_by: str


def apart() -> list[str]:
    """The words that start a command in a network of its own; none where that is not allowed."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if shutil.which(words[0]) and not subprocess.call(
            [*words, "true"], stderr=subprocess.DEVNULL
        ):
            return words
    return []


def raise_loopback() -> None:
    """Switch loopback on in a new network, where it is off."""
    with socket.socket() as asked:
        fcntl.ioctl(asked, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def tracer() -> str | None:
    """The path of ``strace``, or None where it is missing or may not look."""
    found = shutil.which("strace")
    if found is None:
        return None
    tried = [found, "-f", "--seccomp-bpf", "-o", os.devnull, "true"]
    return None if subprocess.call(tried, stderr=subprocess.DEVNULL) else found


def counted() -> dict[str, int]:
    """The counters of this network, where the system has them."""
    found: dict[str, int] = {}
    if not Path("/proc/net/snmp").exists():
        return found
    rows = Path("/proc/net/snmp").read_text().splitlines()
    for names, values in zip(rows[::2], rows[1::2], strict=True):
        kind, *rest = names.split()
        found |= {
            f"{kind[:-1]} {name}": int(value)
            for name, value in zip(rest, values.split()[1:], strict=True)
        }
    for row in Path("/proc/net/snmp6").read_text().splitlines():
        name, value = row.split()
        found[name] = int(value)
    return {name: found[name] for name in COUNTERS if name in found}


def start(
    folder: Path, name: str, words: Sequence[str], variables: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Start a Python process that is watched from its start, by its name."""
    hooks = folder / f"{name}.hooks"
    hooks.mkdir()
    # The name of the log stands in the hook: targets get few variables of the caller.
    (hooks / "sitecustomize.py").write_text(
        HOOK.replace("LOG_FILE", repr(str(folder / f"{name}.hook")))
    )
    found = tracer()
    log = str(folder / f"{name}.strace")
    traced = [found or "", "-f", "-qq", "-y", "--seccomp-bpf", "-s", "4096", "-e", "signal=none"]
    traced += ["-e", f"trace={CALLS}", "-o", log]
    paths = [str(hooks), os.environ.get("PYTHONPATH", "")]
    with (folder / f"{name}.err").open("w") as errors:
        return subprocess.Popen(
            [*(traced if found else ()), sys.executable, *words],
            cwd=folder / "work",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={
                **{name: os.environ[name] for name in KEPT if name in os.environ},
                "HOME": str(folder / "home"),
                "TMPDIR": str(folder / "tmp"),
                "PYTHONPATH": os.pathsep.join(path for path in paths if path),
                "PYTHONDONTWRITEBYTECODE": "1",
                **variables,
            },
        )


def touched(folder: Path, name: str) -> Iterator[Touch]:
    """What a watched process and its children did."""
    yield from _numbered(_of_hook(folder / f"{name}.hook"), "hook")
    if (folder / f"{name}.strace").exists():
        yield from _numbered(_of_strace(folder / f"{name}.strace"), "strace")


def _numbered(done: Iterator[tuple[str, str]], seen_by: str) -> Iterator[Touch]:
    line = OUTSIDE
    for kind, place in done:
        if place.startswith(MARK):
            line = int(place.removeprefix(MARK))
        else:
            yield Touch(line, kind, place, seen_by)


def _of_hook(log: Path) -> Iterator[tuple[str, str]]:
    for row in log.read_text().splitlines():
        kind, _, place = row.partition(" ")
        yield kind, place


_CALL = re.compile(r"\d+ +(\w+)\((.*)")
_OPENED = re.compile(r'(?:\w+<(.*?)>, )?"((?:[^"\\]|\\.)*)"')
_HOST = re.compile(r'sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|AF_INET6, )"([^"]+)"')
_SOCKET_FILE = re.compile(r'sa_family=AF_UNIX, sun_path=@?"([^"]*)"')


def _of_strace(log: Path) -> Iterator[tuple[str, str]]:
    for row in log.read_text(errors="backslashreplace").splitlines():
        call = _CALL.match(row)
        if call is None:
            continue
        name, told = call.groups()
        if name in ("connect", "bind", "sendto", "sendmsg", "sendmmsg"):
            kind = "bind" if name == "bind" else "connect"
            for port, host in _HOST.findall(told):
                yield kind, f"{host.removeprefix('::ffff:')} {port}"
            for path in _SOCKET_FILE.findall(told):
                yield kind, f"{path} 0"
        elif name not in ("open", "openat") or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", told):
            for folder, path in _OPENED.findall(told):
                yield "write", os.path.normpath(Path(folder) / path)
