"""Evidence, and measured numbers: each with direction, unit and size, or a reason instead."""

from __future__ import annotations

import math
from typing import Final, Literal

import msgspec

from gatemark.core.canonical import is_digest
from gatemark.core.errors import InvalidValueError
from gatemark.core.reason import Reason, ReasonKind


class EvidenceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input file, named by the digest of its bytes."""

    name: str
    digest: str
    byte_count: int

    def __post_init__(self) -> None:
        if not is_digest(self.digest):
            raise InvalidValueError(f"evidence {self.name} has no digest, got {self.digest!r}")


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Counts of one body of evidence; they always add up.

    ``received``, ``accepted`` and ``rejected`` count lines. ``usable`` counts the items that the
    accepted lines make up; ``missing`` counts pinned items that never arrived and items with only
    one half; ``duplicates`` counts extra copies set aside by an explicit choice. ``expected`` is
    the number of items pinned beforehand, or None when none were pinned.
    """

    received: int
    accepted: int
    rejected: int
    usable: int
    missing: int
    expected: int | None
    files: tuple[EvidenceFile, ...]
    duplicates: int = 0
    checks: dict[str, str] = {}

    def __post_init__(self) -> None:
        counts = (self.received, self.accepted, self.rejected, self.usable, self.lost_count)
        if min(*counts, self.missing, self.duplicates) < 0:
            raise InvalidValueError("evidence counts cannot be negative")
        if self.received != self.accepted + self.rejected:
            raise InvalidValueError(
                f"evidence does not add up: received {self.received} != "
                f"accepted {self.accepted} + rejected {self.rejected}"
            )

    @property
    def lost_count(self) -> int:
        """Number of items that were refused, never arrived, or were set aside."""
        return self.rejected + self.missing + self.duplicates


Direction = Literal["higher_is_better", "lower_is_better", "neutral"]
NO_ITEMS: Final = ReasonKind("no_items", "no items to take a rate over")
NOTHING_ANSWERED: Final = ReasonKind("nothing_answered", "no items were answered")
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
    reason: Reason | None
    interval: Interval | None = None
    other_intervals: tuple[Interval, ...] = ()
    excluded: dict[str, int] = {}
    caveats: tuple[str, ...] = ()
    scope: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError(f"{self.name} needs a value or a reason, and not both")
        if self.value is not None and not math.isfinite(self.value):
            raise InvalidValueError(f"{self.name} must be finite, got {self.value}")
        if self.n < 0:
            raise InvalidValueError(f"{self.name} cannot rest on {self.n} items")
        if any(count < 0 for count in self.excluded.values()):
            raise InvalidValueError(f"{self.name} excludes a negative number of items")

    @property
    def key(self) -> tuple[str, str | None]:
        """The key that rules use to find a measurement."""
        return (self.name, self.scope)


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
    scope: str | None = None,
) -> Measurement:
    """Return a measurement with a value."""
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
        scope=scope,
    )


def unmeasured(
    name: str,
    reason: Reason,
    *,
    direction: Direction,
    n: int = 0,
    unit: str = "ratio",
    version: int = 1,
    excluded: dict[str, int] | None = None,
    caveats: tuple[str, ...] = (),
    scope: str | None = None,
) -> Measurement:
    """Return a measurement without a value, and the reason."""
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
        scope=scope,
    )


def rate(
    name: str,
    count: int,
    n: int,
    *,
    direction: Direction,
    interval: Interval | None = None,
    excluded: dict[str, int] | None = None,
    empty_reason: Reason | None = None,
) -> Measurement:
    """Return ``count / n`` as a measurement; for ``n == 0`` there is a reason and no value."""
    if n == 0:
        return unmeasured(name, empty_reason or NO_ITEMS(), direction=direction, excluded=excluded)
    return measured(name, count / n, n=n, direction=direction, interval=interval, excluded=excluded)


def measured_count(
    name: str,
    count: int,
    n: int,
    *,
    direction: Direction = "lower_is_better",
    caveats: tuple[str, ...] = (),
) -> Measurement:
    """Return a number of items, rows or windows as a measurement over ``n`` of them."""
    return measured(name, count, n=n, direction=direction, unit="count", caveats=caveats)
