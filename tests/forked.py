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
from pathlib import Path
from typing import IO, NamedTuple

from tests.docs.transcript import command_server, environment

PATIENCE_S = 120.0


class Done(NamedTuple):
    """How a process ended and what it printed; a negative code is the signal that killed it."""

    returncode: int
    stdout: bytes
    stderr: bytes


class Forked:
    """A running ``gatemark WORDS``, or with ``script`` a running ``python SCRIPT WORDS``.

    ``finish`` tells what it printed; with ``is_heard``, lines are read from ``heard`` as they come.
    """

    heard: IO[bytes] | None = None

    def __init__(
        self,
        words: Sequence[object],
        *,
        folder: Path | None = None,
        script: Path | None = None,
        variables: Mapping[str, str] | None = None,
        is_heard: bool = False,
    ) -> None:
        self._printed = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - see finish
        self._code: int | None = None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.connect(command_server())
        request = {
            "words": [str(word) for word in words],
            "script": None if script is None else str(script),
            "folder": str(folder or Path.cwd()),
            "environment": {**environment(), **(variables or {})},
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
