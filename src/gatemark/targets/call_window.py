"""How many calls are sent to a worker process at once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

AHEAD: Final = 64
"""How many calls may wait in the pipe of a worker process for each one it works on."""
FAST_MS: Final = 1.0


class CallWindow:
    """How many calls are sent to the process at once: more than it works on, if they are fast.

    Calls that wait in the pipe save a fast function the wait for the next one. A slow function
    gains nothing by them, and more calls would have to be repeated after a crash.
    """

    def __init__(self, slots: int, ahead: int) -> None:
        self._slots = slots
        self._most = slots * ahead
        self._size = slots
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        if self._inside < self._size:
            self._inside += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(None)
            raise

    def leave(self, latency_ms: float | None) -> None:
        is_fast = latency_ms is not None and latency_ms < FAST_MS
        self._size = min(2 * self._size, self._most) if is_fast else self._slots
        self._inside -= 1
        while self._waiting and self._inside < self._size:
            turn = self._waiting.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)
