"""A number with its direction, its unit, its size, or the reason why there is none."""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from gatemark.core.errors import InvalidValueError

Direction = Literal["higher_is_better", "lower_is_better", "neutral"]
COUNTED_AS_ZERO: Final = "counted_as_zero"
COUNTED_AS_ONE: Final = "counted_as_one"
"""Items without a score that are in the number all the same: nothing achieved, or all."""


class Interval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A range of plausible values and how it was found."""

    low: float
    high: float
    level: float
    method: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InvalidValueError(f"interval must be finite, got [{self.low}, {self.high}]")
        if self.low > self.high:
            raise InvalidValueError(f"interval is upside down: [{self.low}, {self.high}]")
        if not 0 < self.level < 1:
            raise InvalidValueError(f"interval level must be inside (0, 1), got {self.level}")


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One measured number, or one reason for its absence; never both, never neither."""

    name: str
    version: int
    direction: Direction
    unit: str
    n: int
    value: float | None
    reason: str | None
    interval: Interval | None = None
    other_intervals: tuple[Interval, ...] = ()
    excluded: dict[str, int] = {}
    caveats: tuple[str, ...] = ()
    lane: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError(f"{self.name} needs a value or a reason, and not both")
        if self.value is not None and not math.isfinite(self.value):
            raise InvalidValueError(f"{self.name} must be finite, got {self.value}")
        if self.reason is not None and not self.reason.strip():
            raise InvalidValueError(f"{self.name} has an empty reason")
        if self.n < 0:
            raise InvalidValueError(f"{self.name} cannot rest on {self.n} items")
        if any(count < 0 for count in self.excluded.values()):
            raise InvalidValueError(f"{self.name} excludes a negative number of items")

    @property
    def key(self) -> tuple[str, str | None]:
        """What a rule looks a measurement up by."""
        return (self.name, self.lane)


def measured(
    name: str,
    value: float,
    *,
    n: int,
    direction: Direction,
    unit: str = "ratio",
    version: int = 1,
    interval: Interval | None = None,
    other_intervals: tuple[Interval, ...] = (),
    excluded: dict[str, int] | None = None,
    caveats: tuple[str, ...] = (),
    lane: str | None = None,
) -> Measurement:
    """A measurement that has a value."""
    return Measurement(
        name=name,
        version=version,
        direction=direction,
        unit=unit,
        n=n,
        value=float(value),
        reason=None,
        interval=interval,
        other_intervals=other_intervals,
        excluded=excluded or {},
        caveats=caveats,
        lane=lane,
    )


def unmeasured(
    name: str,
    reason: str,
    *,
    direction: Direction,
    n: int = 0,
    unit: str = "ratio",
    version: int = 1,
    excluded: dict[str, int] | None = None,
    caveats: tuple[str, ...] = (),
    lane: str | None = None,
) -> Measurement:
    """A measurement that could not be made, and why."""
    return Measurement(
        name=name,
        version=version,
        direction=direction,
        unit=unit,
        n=n,
        value=None,
        reason=reason,
        excluded=excluded or {},
        caveats=caveats,
        lane=lane,
    )


def rate(
    name: str,
    count: int,
    n: int,
    *,
    direction: Direction,
    interval: Interval | None = None,
    excluded: dict[str, int] | None = None,
    empty_reason: str = "no items to take a rate over",
) -> Measurement:
    """``count`` of ``n`` as a measurement; a rate over nothing is a reason, not a zero."""
    if n == 0:
        return unmeasured(name, empty_reason, direction=direction, excluded=excluded)
    return measured(name, count / n, n=n, direction=direction, interval=interval, excluded=excluded)
