"""A script target: started once per call, with the input on stdin and the answer on stdout.

The whole of stdout must be one JSON value, which is the output. An exit code other than 0 is a
failure, and 75 means that a service behind the script is down; stderr is for the script's own
messages and is not recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import UsageError
from gatemark.targets.child import start_child
from gatemark.targets.file_digests import digest_named_files
from gatemark.targets.port import UNAVAILABLE_EXIT, Call, CallPart, Clock, Reply, TargetError
from gatemark.targets.replies import BadReplyError, decode_reply


class ScriptTarget:
    """Runs a program for every call, in its own process group."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        clock: Clock,
        max_reply_bytes: int,
        environ: Mapping[str, str],
    ) -> None:
        if not argv or not argv[0]:
            raise UsageError("script target needs a program, got an empty list")
        self._argv = tuple(argv)
        self._folder = folder.resolve()
        inside = self._folder / argv[0]
        found = str(inside) if os.access(inside, os.X_OK) and inside.is_file() else None
        program = found or shutil.which(argv[0])
        if program is None:
            raise UsageError(f"script target: no program {argv[0]!r} in the folder or on PATH")
        self._program = program
        self._clock = clock
        self._environ = dict(environ)
        self._max_reply_bytes = max_reply_bytes
        self.reads: frozenset[CallPart] = frozenset({"input"})

    async def call(self, call: Call) -> Reply:
        started = self._clock()
        try:
            child = await start_child(
                self._program,
                self._argv[1:],
                self._folder,
                environ=self._environ,
                keeps_stderr=False,
            )
        except OSError as error:
            raise TargetError("crash", f"{self._argv[0]} cannot be started: {error}") from error
        try:
            request = msgspec.json.encode(call.input) + b"\n"
            data = await self._exchange(child.process, request)
            code = await child.process.wait()
        finally:
            await child.end()
        latency_ms = (self._clock() - started) * 1000.0
        if code != 0:
            raise TargetError(
                "unavailable" if code == UNAVAILABLE_EXIT else "crash",
                f"{self._argv[0]} exited with code {code}",
                retryable=True,
            )
        try:
            output = decode_reply(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadReplyError(f"{self._argv[0]} did not print one JSON value") from error
        return Reply(output=output, latency_ms=latency_ms)

    async def close(self) -> None:
        """Do nothing: no process outlives a call."""

    def identity(self) -> dict[str, Any]:
        files = digest_named_files(self._argv, self._folder)
        return {"kind": "script", "argv": list(self._argv), "files": files}

    async def _exchange(self, process: asyncio.subprocess.Process, request: bytes) -> bytes:
        if process.stdin is None or process.stdout is None:
            raise TargetError("crash", f"{self._argv[0]} was started without its pipes")
        # A script may answer without reading all of its input.
        with contextlib.suppress(ConnectionError):
            process.stdin.write(request)
            await process.stdin.drain()
        process.stdin.close()
        data = bytearray()
        while chunk := await process.stdout.read(65_536):
            data += chunk
            if len(data) > self._max_reply_bytes:
                raise BadReplyError(
                    f"{self._argv[0]}: a reply must be at most {self._max_reply_bytes} bytes"
                )
        return bytes(data)
