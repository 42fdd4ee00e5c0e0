"""What a statistic answers with: a number or an interval, or the reason why there is none."""

from __future__ import annotations

import math

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval

ZERO_WIDTH = "zero_width_interval"


class Estimate(msgspec.Struct, frozen=True):
    """A finite number, or the reason why it is undefined; never both."""

    value: float | None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError("an estimate needs a value or a reason, and not both")
        if self.value is not None and not math.isfinite(self.value):
            raise InvalidValueError(f"an estimate must be finite, got {self.value}")


class IntervalEstimate(msgspec.Struct, frozen=True):
    """An interval, or the reason why there is none; never both."""

    interval: Interval | None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.interval is None) == (self.reason is None):
            raise InvalidValueError("an interval estimate needs an interval or a reason")


class Bootstrap(IntervalEstimate, frozen=True, kw_only=True):
    """A bootstrap interval with the number of draws and how many of them had no value."""

    draw_count: int
    undefined_count: int

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of the interval must know about its draws."""
        if self.reason is not None:
            return (f"no bootstrap interval: {self.reason}",)
        if self.undefined_count:
            return (f"{self.undefined_count} of {self.draw_count} bootstrap draws were undefined",)
        return zero_width_caveat(self.interval)


def zero_width_caveat(interval: Interval | None) -> tuple[str, ...]:
    """A method that saw no variation says nothing about how much it may have missed."""
    return (ZERO_WIDTH,) if interval and interval.low == interval.high else ()
