"""A daemon thread that runs plain functions for an event loop, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from gatemark.targets.port import TargetError

if TYPE_CHECKING:
    import asyncio


TimedValue = tuple[object, float]
"""The return value of a function, and its duration in seconds."""


class FunctionThread(threading.Thread):
    """A daemon, so that a function that never returns cannot keep the process alive."""

    def __init__(self) -> None:
        super().__init__(name="gatemark-target", daemon=True)
        self._jobs: SimpleQueue[
            tuple[Callable[[], TimedValue], asyncio.AbstractEventLoop, asyncio.Future[TimedValue]]
            | None
        ] = SimpleQueue()

    def ask(self, job: Callable[[], TimedValue]) -> asyncio.Future[TimedValue]:
        from asyncio import get_running_loop  # noqa: PLC0415 - a plain worker does without it

        loop = get_running_loop()
        future: asyncio.Future[TimedValue] = loop.create_future()
        self._jobs.put((job, loop, future))
        return future

    def finish(self) -> None:
        self._jobs.put(None)

    def run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, loop, future = item
            try:
                settle = partial(future.set_result, job())
            except TargetError as error:
                settle = partial(future.set_exception, error)
            try:
                loop.call_soon_threadsafe(_settle_future, future, settle)
            except RuntimeError:
                return  # the loop is closed: the call was abandoned long ago


def _settle_future(future: asyncio.Future[TimedValue], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()
