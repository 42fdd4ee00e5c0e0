"""A target that is a command: JSON lines in on stdin, JSON lines out on stdout.

The process is kept alive and asked one call at a time, one line each way:

    {"id": "q1", "epoch": 0, "input": ..., "sample": {...}, "variables": {...}}
    {"id": "q1", "output": ..., "confidence": 0.9, "cost": 0.001, "model": "m", "usage": {...}}

``sample`` is sent only when the pack lists ``fields`` of the item, or says ``send_sample`` for all
of them; the expected answer is never among them. Only ``id`` and ``output`` are required in a
reply; ``epoch`` is checked when given. ``{"id": "q1", "error": "why", "retryable": true}``
reports a failure, and ``"unavailable": true`` in its place that a service behind the command is
down, as does an exit with code 75. Anything else on stdout is a bad reply: log to stderr. At the
end stdin is closed, and the command should exit.

Each concurrency slot has its own process, in its own process group. A process that crashed,
timed out or lost step with its calls is killed with its children and replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import UsageError
from gatemark.targets.child import Child, name_signal, start_child
from gatemark.targets.file_digests import digest_named_files
from gatemark.targets.port import (
    UNAVAILABLE_EXIT,
    Call,
    CallPart,
    Clock,
    Reply,
    TargetError,
    select_fields,
)
from gatemark.targets.replies import BadReplyError, decode_reply, read_reply

STDERR_KEPT_BYTES: Final = 1_500
CLOSE_GRACE_S: Final = 2.0
LINE_HINT: Final = 'print one line per item, such as {"id": "q1", "output": "…"}'
WAIT_HINT: Final = f"answer each line at once, not at the end of the input: {LINE_HINT}, flushed"
"""Hint for a program that reads all of its input before it answers."""
_ENVELOPE: Final = ("id", "epoch")


class CommandTarget:
    """Keeps one worker process per call in flight."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        clock: Clock,
        max_reply_bytes: int,
        environ: Mapping[str, str],
        send_sample: bool = False,
        fields: Sequence[str] = (),
    ) -> None:
        if not argv or not argv[0]:
            raise UsageError("command target needs a program, got an empty list")
        self._argv = tuple(argv)
        self._folder = folder.resolve()
        self._program = _find_program(self._argv[0], self._folder)
        self._clock = clock
        self._max_reply_bytes = max_reply_bytes
        self._environ = dict(environ)
        self._send_sample = send_sample or bool(fields)
        self._shared = tuple(fields)
        self._idle: list[_Worker] = []
        parts: tuple[CallPart, ...] = ("input", "variables")
        sample: tuple[CallPart, ...] = ("sample",) if self._send_sample else ()
        self.reads = frozenset((*parts, *sample))

    async def call(self, call: Call) -> Reply:
        request = self._request(call)
        worker = self._idle.pop() if self._idle else await self._start()
        in_step = False
        try:
            started = self._clock()
            line = await worker.ask(request)
            latency_ms = (self._clock() - started) * 1000.0
            fields = self._parse_line(line, call)
            in_step = True
        finally:
            if in_step:
                self._idle.append(worker)
            else:
                await worker.kill()
        return _make_reply(fields, latency_ms)

    async def close(self) -> None:
        workers, self._idle = self._idle, []
        await asyncio.gather(*(worker.finish() for worker in workers))

    def current_files(self) -> dict[str, str]:
        """Return digests of the files that the command line names, as they are now."""
        return digest_named_files(self._argv, self._folder)

    def identity(self) -> dict[str, Any]:
        return {
            "kind": "command",
            "argv": list(self._argv),
            "files": self.current_files(),
            "send_sample": self._send_sample,
            **({"fields": list(self._shared)} if self._shared else {}),
        }

    def _request(self, call: Call) -> bytes:
        message: dict[str, Any] = {"id": call.id, "epoch": call.epoch, "input": call.input}
        if call.variables:
            message["variables"] = call.variables
        if self._send_sample:
            fields = self._shared or call.sample
            message["sample"] = select_fields(call.sample, fields)
        return msgspec.json.encode(message) + b"\n"

    async def _start(self) -> _Worker:
        try:
            child = await start_child(
                self._program,
                self._argv[1:],
                self._folder,
                environ=self._environ,
                limit=self._max_reply_bytes + 1,
                keeps_stderr=True,
            )
        except OSError as error:
            raise TargetError("crash", f"{self._argv[0]} cannot be started: {error}") from error
        return _Worker(child, self._argv[0], self._max_reply_bytes)

    def _parse_line(self, line: bytes, call: Call) -> dict[str, Any]:
        try:
            fields = decode_reply(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadReplyError(
                f"{self._argv[0]} printed {_quote_excerpt(line)}: {error}; {LINE_HINT}"
            ) from error
        if not isinstance(fields, dict):
            raise BadReplyError(
                f"{self._argv[0]} must print objects, got {_quote_excerpt(line)}; {LINE_HINT}"
            )
        if fields.get("id") != call.id or fields.get("epoch", call.epoch) != call.epoch:
            raise BadReplyError(
                f"{self._argv[0]} was asked for id {call.id!r}, epoch {call.epoch} and answered "
                f"for id {fields.get('id')!r}, epoch {fields.get('epoch', call.epoch)}"
            )
        return fields


class _Worker:
    """One process and the tail of its stderr."""

    def __init__(self, child: Child, name: str, max_reply_bytes: int) -> None:
        process = child.process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise TargetError("crash", f"{name} was started without its three pipes")
        self._child = child
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._name = name
        self._max_reply_bytes = max_reply_bytes
        self._said = bytearray()
        self._listening = asyncio.create_task(self._listen(process.stderr))

    async def ask(self, request: bytes) -> bytes:
        try:
            self._stdin.write(request)
            await self._stdin.drain()
            line = await self._stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            raise BadReplyError(
                f"{self._name}: a reply must be at most {self._max_reply_bytes} bytes"
            ) from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._make_end_error() from error
        if len(line) > self._max_reply_bytes:
            raise BadReplyError(
                f"{self._name}: a reply must be at most {self._max_reply_bytes} bytes"
            )
        return line

    async def finish(self) -> None:
        """End the process by closing its stdin; kill it after a moment."""
        self._stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """End the process and its children, and wait for it, even if this task is cancelled."""
        try:
            await self._child.end()
        finally:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _make_end_error(self) -> TargetError:
        """Return the error for a process that ended: its exit status and last output."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self._process.wait()
                await asyncio.shield(self._listening)
        code = self._process.returncode
        if code is None:
            ending = "closed its stdout"
        elif code < 0:
            ending = f"was killed by {name_signal(-code)}"
        else:
            ending = f"exited with code {code}"
        words = self._said.decode(errors="replace").strip()
        stderr = f"; stderr ends: {words}" if words else "; stderr is empty"
        return TargetError(
            "unavailable" if code == UNAVAILABLE_EXIT else "crash",
            f"{self._name} {ending} instead of answering{stderr}",
            retryable=True,
        )

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(65_536):
            self._said += chunk
            del self._said[:-STDERR_KEPT_BYTES]


def _make_reply(fields: dict[str, Any], latency_ms: float) -> Reply:
    if "error" in fields:
        is_down = fields.get("unavailable") is True
        raise TargetError(
            "unavailable" if is_down else "refused",
            f"the command says: {fields['error']}",
            retryable=is_down or fields.get("retryable") is True,
        )
    return read_reply(fields, latency_ms, ignored=_ENVELOPE)


def _find_program(word: str, folder: Path) -> str:
    inside = folder / word
    if "/" in word and inside.is_file() and os.access(inside, os.X_OK):
        return str(inside)
    found = shutil.which(word)
    if found is None:
        raise UsageError(f"command target: no program {word!r} in the pack's folder or on PATH")
    return found


def _quote_excerpt(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 120 else text[:120] + "…")
