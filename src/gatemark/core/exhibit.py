"""What a report shows beside the numbers: typed, so that every page can draw it."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec

from gatemark.core.errors import InvalidValueError

Cell = str | int | float | bool | None


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="matrix"):
    """Counts over two label axes, rows first."""

    title: str
    row_axis: str
    column_axis: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise InvalidValueError(f"matrix {self.title!r} must be {size} by {size}")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="table"):
    """Rows under named columns; ``total_rows`` tells how many there were before any cut."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidValueError(f"table {self.title!r} has a row of another width")
        if self.total_rows < len(self.rows):
            raise InvalidValueError(f"table {self.title!r} shows more rows than it has")


class ReliabilityBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answers whose confidence is in (low, high]; their rates are null when there are none."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None
    interval_low: float | None
    interval_high: float | None

    def __post_init__(self) -> None:
        name = f"reliability bin ({self.low}, {self.high}]"
        rates = (self.confidence, self.accuracy, self.interval_low, self.interval_high)
        if not 0 <= self.low < self.high <= 1:
            raise InvalidValueError(f"{name} must rise and lie inside [0, 1]")
        if self.n < 0:
            raise InvalidValueError(f"{name} must hold >= 0 answers, got {self.n}")
        if self.n == 0 and any(rate is not None for rate in rates):
            raise InvalidValueError(f"{name} is empty but has a rate")
        if self.n > 0 and (self.confidence is None or self.accuracy is None):
            raise InvalidValueError(f"{name} has answers (n={self.n}) but no rate")
        if any(rate is not None and not 0 <= rate <= 1 for rate in rates):
            raise InvalidValueError(f"every rate of {name} must be inside [0, 1], got {rates}")
        if (self.interval_low is None) != (self.interval_high is None):
            raise InvalidValueError(f"{name} has an interval with one end")
        if (
            self.interval_low is not None
            and self.interval_high is not None
            and self.interval_low > self.interval_high
        ):
            raise InvalidValueError(f"{name} has an interval whose ends are swapped")


class Reliability(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="reliability"):
    """How often answers were right, bin by bin of the confidence they stated."""

    title: str
    bins: tuple[ReliabilityBin, ...]

    def __post_init__(self) -> None:
        if not self.bins:
            raise InvalidValueError(f"reliability {self.title!r} must have a bin")
        if any(later.low < bin_.high for bin_, later in pairwise(self.bins)):
            raise InvalidValueError(f"reliability {self.title!r} has bins that overlap or fall")


class ShiftBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Neighbouring items, from the ``first`` to the ``last``, and the range of their shifts."""

    first: int
    last: int
    low: float
    middle: float
    high: float

    def __post_init__(self) -> None:
        name = f"shift bin {self.first} to {self.last}"
        if not 1 <= self.first <= self.last:
            raise InvalidValueError(f"{name} must count up from 1")
        if not all(math.isfinite(value) for value in (self.low, self.middle, self.high)):
            raise InvalidValueError(f"{name} must have finite shifts")
        if not self.low <= self.middle <= self.high:
            raise InvalidValueError(f"{name} must have low <= middle <= high")


class Shifts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="shifts"):
    """How far each item moved between two runs, in the order of the items; up is worse.

    ``mean`` is the shift of all items together, ``bound`` the most that it may be.
    """

    title: str
    axis: str
    bins: tuple[ShiftBin, ...]
    mean: float
    bound: float | None

    def __post_init__(self) -> None:
        if not self.bins:
            raise InvalidValueError(f"shifts {self.title!r} must have a bin")
        if any(later.first != bin_.last + 1 for bin_, later in pairwise(self.bins)):
            raise InvalidValueError(f"shifts {self.title!r} has bins with gaps or overlaps")
        if not all(math.isfinite(value) for value in (self.mean, self.bound or 0.0)):
            raise InvalidValueError(f"shifts {self.title!r} must have finite lines")


Exhibit = Matrix | Table | Reliability | Shifts
