"""Limits on asking: how often, how long to wait before asking again, and how much in all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, Protocol

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.journal import Reuse
from gatemark.targets.port import MAX_INTEGER, Reply

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class Random(Protocol):
    """The one thing we ask of a random generator; ``random.Random`` has it."""

    def random(self) -> float:
        """A number in [0, 1)."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most a run may spend; None is no limit. ``calls`` counts retries too."""

    calls: Annotated[
        int | None, msgspec.Meta(description="Maximum number of calls, with retries.")
    ] = None
    cost: Annotated[float | None, msgspec.Meta(description="Maximum amount of money.")] = None
    wall_s: Annotated[float | None, msgspec.Meta(description="Maximum time in seconds.")] = None

    def __post_init__(self) -> None:
        for name in ("calls", "cost", "wall_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"budget.{name} must be >= 0, got {value}")


class Spending:
    """What was spent so far; handed from one run to the next where they share a budget."""

    def __init__(self) -> None:
        self.calls = 0
        self.cost = 0.0
        self.wall_s = 0.0


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a call costs, for targets that do not say so themselves."""

    per_call: Annotated[float, msgspec.Meta(description="Price of one call.")] = 0.0
    input_per_million: Annotated[
        float | None, msgspec.Meta(description="Price of a million input tokens.")
    ] = None
    output_per_million: Annotated[
        float | None, msgspec.Meta(description="Price of a million output tokens.")
    ] = None

    def __post_init__(self) -> None:
        for name in ("per_call", "input_per_million", "output_per_million"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"cost.{name} must be >= 0, got {value}")

    def cost_of(self, reply: Reply) -> float | None:
        """The reply's price; None when it is priced by tokens and told no token counts."""
        cost = self.per_call
        for price, names in (
            (self.input_per_million, _INPUT),
            (self.output_per_million, _OUTPUT),
        ):
            if price is None:
                continue
            told = [(reply.usage or {}).get(name) for name in names]
            counts = [count for count in told if isinstance(count, int | float)]
            if not counts:
                return None
            cost += price * counts[0] / 1e6
        return cost


_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_CACHED_INPUT: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


def tokens_of(usage: Mapping[str, object] | None) -> int | None:
    """The tokens that went in and came out; None where a usage does not tell both.

    Where there is no total, tokens read from or written to a cache are counted beside the input.
    """
    told = usage or {}
    total = _count(told.get("total_tokens"))
    if total is not None:
        return total
    parts = [
        next((n for name in names if (n := _count(told.get(name))) is not None), None)
        for names in (_INPUT, _OUTPUT)
    ]
    if None in parts:
        return None
    cached = (_count(told.get(name)) for name in _CACHED_INPUT)
    return _count(sum(n or 0 for n in (*parts, *cached)))


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MAX_INTEGER and value == int(value) else None


class RateLimit:
    """A token bucket: at most ``burst`` calls at once, then one every ``1 / rate_per_s``.

    ``hold`` stops every caller for a while, as a Retry-After asks.
    """

    def __init__(self, rate_per_s: float | None, burst: int, *, clock: Clock, sleep: Sleep) -> None:
        self._interval_s = 0.0 if rate_per_s is None else 1.0 / rate_per_s
        self._slack_s = self._interval_s * (burst - 1)
        self._clock = clock
        self._sleep = sleep
        self._next_at = float("-inf")
        self._held_until = float("-inf")

    def hold(self, seconds: float) -> None:
        """Let nobody through for that long."""
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


def backoff_s(failures: int, *, base_s: float, max_s: float, rng: Random) -> float:
    """Exponential backoff with full jitter: anywhere between 0 and the doubled-up bound."""
    return rng.random() * min(max_s, base_s * 2.0 ** min(failures - 1, 60))


DEFAULT_MAX_REPLY_BYTES = 4 * 1024 * 1024


class RunOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything the runner needs to know besides the calls.

    ``retries`` counts attempts after the first. A Retry-After beyond ``retry_after_max_s`` is
    not waited for. ``retry_errors`` makes a resumed run ask again where the journal has an error.
    ``is_remote`` says that calls go to a service: a call without a reply in time could not be
    asked, and the first call goes alone. ``stop_after`` calls in a row that could not be asked end
    the run; None is for recordings, where nobody waits. ``ahead`` is how many calls per slot a
    target with its own queue is handed at a time.
    """

    concurrency: int = 1
    ahead: int = 1
    is_remote: bool = False
    stop_after: int | None = 10
    timeout_s: float | None = None
    retries: int = 0
    backoff_base_s: float = 0.5
    backoff_max_s: float = 30.0
    retry_after_max_s: float = 120.0
    rate_per_s: float | None = None
    burst: int = 1
    timeout_hint: str = ""
    """Added to the message about a call that took too long."""
    max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES
    budget: Budget = Budget()
    prices: Prices | None = None
    reuse: Reuse = "resume"
    retry_errors: bool = False

    def __post_init__(self) -> None:
        at_least = {
            "concurrency": 1,
            "ahead": 1,
            "retries": 0,
            "backoff_base_s": 0,
            "backoff_max_s": 0,
            "retry_after_max_s": 0,
            "burst": 1,
            "max_reply_bytes": 1,
        }
        for name, low in at_least.items():
            if not getattr(self, name) >= low:
                raise InvalidValueError(f"{name} must be >= {low}, got {getattr(self, name)}")
        for name in ("timeout_s", "rate_per_s", "stop_after"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidValueError(f"{name} must be > 0, got {value}")
