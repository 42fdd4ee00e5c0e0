"""When calls start: a rate limit for all of them, and a growing wait before a retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from gatemark.targets.port import Clock

Sleep = Callable[[float], Awaitable[None]]


class Random(Protocol):
    """The one method needed of a random generator; ``random.Random`` has it."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class RateLimit:
    """A token bucket: at most ``burst`` calls at once, then one every ``1 / rate_per_s``.

    ``hold`` stops every caller for a while, as a Retry-After header asks.
    """

    def __init__(self, rate_per_s: float | None, burst: int, *, clock: Clock, sleep: Sleep) -> None:
        self._interval_s = 0.0 if rate_per_s is None else 1.0 / rate_per_s
        self._slack_s = self._interval_s * (burst - 1)
        self._clock = clock
        self._sleep = sleep
        self._next_at = float("-inf")
        self._held_until = float("-inf")

    def hold(self, seconds: float) -> None:
        """Let no call through for that long."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def acquire(self) -> None:
        """Wait for a turn. A turn given up while waiting is lost, never used twice."""
        if self._interval_s:
            now = self._clock()
            turn = max(self._next_at, now)
            self._next_at = turn + self._interval_s
            if (wait_s := turn - self._slack_s - now) > 0:
                await self._sleep(wait_s)
        while (wait_s := self._held_until - self._clock()) > 0:
            await self._sleep(wait_s)


def draw_backoff_s(failures: int, *, base_s: float, max_s: float, rng: Random) -> float:
    """Return an exponential backoff with full jitter: between 0 and the doubled limit."""
    return rng.random() * min(max_s, base_s * 2.0 ** min(failures - 1, 60))
