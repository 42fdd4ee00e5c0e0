"""A child process in its own process group that can always be ended, with its descendants.

asyncio counts a process as ended only when its pipes are closed too. A pipe does not close while it
has unread data, nor while a grandchild in another session holds it, so the pipes are closed here
rather than read to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gatemark.targets.isolation import close_process_memory
from gatemark.targets.process_marks import MARK, end_marked, make_mark

DEFAULT_LIMIT: Final = 2**16
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Child:
    """A started process; ``process`` has its streams and its return code."""

    def __init__(self, transport: asyncio.SubprocessTransport, process: Process, mark: str) -> None:
        self._transport = transport
        self._mark = mark
        self.process = process

    async def end(self) -> None:
        """End the process and its children, and wait for it, even if this task is cancelled."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        stdin = self._transport.get_pipe_transport(_STDIN)
        # A pipe with nothing left to write closes by itself.
        if isinstance(stdin, asyncio.WriteTransport) and (
            not stdin.is_closing() or stdin.get_write_buffer_size()
        ):
            stdin.abort()
        for number in (_STDOUT, _STDERR):
            pipe = self._transport.get_pipe_transport(number)
            if pipe is not None:
                pipe.close()
        waiting = asyncio.ensure_future(self.process.wait())
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await waiting
            raise
        finally:
            end_marked(self._mark)


async def start_child(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    *,
    environ: Mapping[str, str],
    limit: int = DEFAULT_LIMIT,
    keeps_stderr: bool,
) -> Child:
    """Start a program with pipes to its stdin and stdout; raise OSError if it cannot start."""
    close_process_memory()
    loop = asyncio.get_running_loop()
    mark = make_mark()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=limit, loop=loop),
        program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if keeps_stderr else asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={**environ, MARK: mark},
        start_new_session=True,
    )
    return Child(transport, Process(transport, protocol, loop), mark)


def name_signal(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
