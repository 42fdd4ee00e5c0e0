"""Processes that tests start, watch and kill, forked from a server that has loaded everything.

A process that is started by hand spends most of its time loading Python's libraries again. What a
forked one does, how it is killed and what it leaves behind are the same.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from tests.docs.transcript import command_server, environment

PATIENCE_S = 600.0  # it hangs; a busy machine needs minutes


class Done(NamedTuple):
    """How a process ended and what it printed; a negative code is the signal that killed it."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Forked:
    """A running ``gatemark WORDS``, or with ``script`` a running ``python SCRIPT WORDS``.

    With ``code`` it is a running ``python -c CODE WORDS``. It finds first what lies in ``source``,
    such as another copy of the package, and with ``only`` has these variables and no others.
    ``finish`` tells what it printed; with ``is_heard``, ``next_line`` tells each line as it comes.
    """

    heard: IO[bytes] | None = None

    def __init__(
        self,
        words: Sequence[object],
        *,
        folder: Path | None = None,
        script: Path | None = None,
        code: str | None = None,
        source: Path | None = None,
        variables: Mapping[str, str] | None = None,
        only: Mapping[str, str] | None = None,
        is_heard: bool = False,
    ) -> None:
        self._printed = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - see finish
        self._code: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.connect(command_server(*(() if source is None else _libraries())))
        usual = dict(environment() if only is None else only)
        if source is not None:
            paths = (str(source), usual.get("PYTHONPATH", ""))
            usual["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        request = {
            "words": [str(word) for word in words],
            "script": None if script is None else str(script),
            "code": code,
            "source": None if source is None else str(source),
            "folder": str(folder or Path.cwd()),
            "environment": {**usual, **(variables or {})},
        }
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), *(file.fileno() for file in self._printed)]
            if is_heard:
                reading, streams[1] = os.pipe()
                self.heard = os.fdopen(reading, "rb")
            socket.send_fds(self._server, [json.dumps(request).encode()], streams)
            if is_heard:
                os.close(streams[1])
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """The code, or None while it runs."""
        if self._code is None:
            self._server.settimeout(0.0)
            try:
                self._server.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return None
            self.wait()
        return self._code

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """The code, once it has ended."""
        if self._code is None:
            self._server.settimeout(timeout)
            self._code = int(self._line())
            self._server.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def finish(self) -> Done:
        """Wait for its end and read what it printed."""
        code = self.wait()
        if self.heard is not None:
            self.heard.close()
        printed = []
        for file in self._printed:
            with file:
                file.seek(0)
                printed.append(file.read())
        return Done(code, *printed)

    def next_line(self) -> str:
        """The next line that it prints; empty at its end."""
        assert self.heard is not None
        return self.heard.readline().decode()

    def _line(self) -> bytes:
        # Byte by byte: what is left tells that the process has ended.
        line = b""
        while (byte := self._server.recv(1)) not in (b"", b"\n"):
            line += byte
        return line


def run_forked(*words: object, folder: Path | None = None) -> Done:
    """Run a command of Gatemark to its end."""
    return Forked(words, folder=folder).finish()


@cache
def _libraries() -> tuple[str, ...]:
    """The modules that the whole package loads, without its own."""
    done = Forked((), code="import sys; print(*sys.modules)").finish()
    # OpenVINO as a whole starts threads, which do not survive a fork; its versions are read only.
    own = ("gatemark", "__main__", "__mp_main__", "openvino")
    names = done.stdout.decode().split()
    assert "numpy" in names
    return tuple(name for name in names if name.partition(".")[0] not in own)
