"""The loop of a worker process: load the function, answer calls, write the answers back.

A plain function with one call at a time is called in place, and fast answers are sent together,
because one write for each would cost more than the calls. Otherwise calls run concurrently, up to
``concurrency`` of them, in threads or on the event loop.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Final, cast

from gatemark.core.errors import BadInputError, UsageError
from gatemark.targets.port import Reply, TargetError
from gatemark.targets.python_callable import PythonTarget
from gatemark.targets.replies import check_reply
from gatemark.targets.workers.worker_wire import (
    Answered,
    Ask,
    Failed,
    Failure,
    Ready,
    decode_ask,
    encode,
)

_READ_BYTES: Final = 2**18
_HELD_BACK_S: Final = 0.0005
_HELD_BACK_COUNT: Final = 64


def answer_calls(
    source: int,
    sink: int,
    *,
    reference: str,
    folder: str,
    concurrency: int,
    fields: list[str],
    max_reply_bytes: int,
) -> int:
    """Answer calls until the judge closes the pipe; return the exit code."""
    known = set(sys.modules)
    try:
        target = PythonTarget(
            reference,
            Path(folder),
            clock=time.perf_counter,
            inline=concurrency == 1,
            fields=tuple(fields),
        )
    except (UsageError, BadInputError) as error:
        failed = Failed("usage" if isinstance(error, UsageError) else "bad_input", str(error))
        _write(sink, encode(failed) + b"\n")
        return 0
    _write(sink, encode(Ready(target.extras, list_packages(set(sys.modules) - known))) + b"\n")
    answering = _Answering(target, source, sink, max_reply_bytes)
    if target.is_inline:
        answering.answer_in_turn()
    else:
        import asyncio  # noqa: PLC0415 - a third of the start of a process that needs it

        asyncio.run(answering.answer_concurrently(concurrency))
    return 0


class _Answering:
    def __init__(self, target: PythonTarget, source: int, sink: int, max_reply_bytes: int) -> None:
        self._target = target
        self._source = source
        self._sink = sink
        self._max_reply_bytes = max_reply_bytes

    def answer_in_turn(self) -> None:
        held: list[bytes] = []
        rest = b""
        while data := os.read(self._source, _READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            written_at = time.perf_counter()
            for line in lines:
                held.append(_run_to_end(self._answer(decode_ask(line))))
                # A slow answer must not wait for the next one.
                now = time.perf_counter()
                if now - written_at > _HELD_BACK_S or len(held) >= _HELD_BACK_COUNT:
                    _write(self._sink, b"".join(held))
                    held.clear()
                    written_at = now
            if held:
                _write(self._sink, b"".join(held))
                held.clear()

    async def answer_concurrently(self, concurrency: int) -> None:
        import asyncio  # noqa: PLC0415

        waiting: asyncio.Queue[Ask | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        os.set_blocking(self._source, False)
        rest = b""

        def note_arrival() -> None:
            nonlocal rest
            data = os.read(self._source, _READ_BYTES)
            if not data:
                loop.remove_reader(self._source)
                for _ in range(concurrency):
                    waiting.put_nowait(None)
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                waiting.put_nowait(decode_ask(line))

        async def work() -> None:
            while (ask := await waiting.get()) is not None:
                _write(self._sink, await self._answer(ask))

        loop.add_reader(self._source, note_arrival)
        await asyncio.gather(*(work() for _ in range(concurrency)))

    async def _answer(self, ask: Ask) -> bytes:
        try:
            reply: Reply = check_reply(
                await self._target.call(ask.call), max_bytes=self._max_reply_bytes
            )
        except TargetError as error:
            kind = error.kind if error.kind in ("bad_reply", "unavailable") else "crash"
            failure = Failure(kind, _escape_surrogates(str(error)), error.retryable)
            return encode(Answered(ask.number, None, failure)) + b"\n"
        return encode(Answered(ask.number, reply)) + b"\n"


def _run_to_end(call: Coroutine[None, None, bytes]) -> bytes:
    """Return what a call that never waits returns, without an event loop."""
    try:
        call.send(None)
    except StopIteration as done:
        return cast("bytes", done.value)
    raise AssertionError("a plain function is called in place")


def _escape_surrogates(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]


def list_packages(modules: set[str]) -> dict[str, str]:
    """Return the versions of the installed packages that these modules belong to."""
    found: dict[str, str] = {}
    for top in sorted({name.partition(".")[0] for name in modules}):
        file = getattr(sys.modules.get(top), "__file__", None)
        if file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts):
            continue
        name, found_version = _find_distribution(top, Path(file))
        found[name] = found_version
    return found


def _find_distribution(top: str, file: Path) -> tuple[str, str]:
    """Return the name and version of the installed package that a top-level module came with.

    Most have its name. For the rest the lists of installed files are searched, which is slower.
    """
    # Most targets use no installed package, and this takes a fifth of the start of a process.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return top, version(top)
    except PackageNotFoundError:
        site = file.parent.parent if file.name.startswith("__init__.") else file.parent
        wanted = (f"\n{top}/", f"\n{top}.")
        for record in sorted(site.glob("*.dist-info/RECORD")):
            text = "\n" + record.read_text(encoding="utf-8", errors="replace")
            if any(start in text for start in wanted):
                name = record.parent.name.partition("-")[0]
                return name, version(name)
        return top, "unknown"
