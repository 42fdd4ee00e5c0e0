"""Percentiles that are observed values (``percentile_disc``), exact or from a mergeable sketch.

The sketch counts values by their leading bits: sign, exponent and ten bits of the fraction. It is
the same however the values were split, and returns the upper edge of a bin, which is above the true
percentile by less than a tenth of a percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gatemark.core.errors import InvalidValueError

PERCENTILES = (50, 90, 95, 99)


def summarize_distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Return count, minimum, maximum, mean and interpolated percentiles; None without values.

    One value is its own minimum, mean and every percentile.
    """
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    found = {
        "count": len(values),
        "min": float(array.min()),
        "max": float(array.max()),
        "mean": float(array.mean()),
    }
    places = np.percentile(array, PERCENTILES, method="linear")
    return found | {f"p{at}": float(value) for at, value in zip(PERCENTILES, places, strict=True)}


def linear_percentile(values: Sequence[float], percent: float) -> float | None:
    """Return one percentile, interpolated between order statistics; None without values."""
    if not values:
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent, method="linear"))


Floats = npt.NDArray[np.float64]
_DROPPED_BITS: Final = 52 - 10


def percentile_disc(ordered: Floats, percent: int) -> float:
    """Return the smallest value whose cumulative share is at least ``percent``."""
    if ordered.size == 0:
        raise InvalidValueError("a percentile needs at least one value")
    return float(ordered[compute_rank(percent, ordered.size) - 1])


def compute_rank(percent: int, n: int) -> int:
    """Return the rank of the percentile among ``n`` ordered values, counted from 1."""
    if not 0 < percent <= 100:
        raise InvalidValueError(f"a percentile must be in (0, 100], got {percent}")
    return -(-percent * n // 100)


def sketch_values(values: Floats) -> dict[int, int]:
    """Count values by their leading bits; values must not be negative."""
    if values.size and not values.min() >= 0:
        raise InvalidValueError("a sketch holds values >= 0")
    keys, counts = np.unique((values + 0.0).view(np.int64) >> _DROPPED_BITS, return_counts=True)
    return {int(key): int(count) for key, count in zip(keys, counts, strict=True)}


def sketch_percentile(sketch: Mapping[int, int], percent: int) -> float:
    """Return the upper edge of the bin with the percentile; exact for zero."""
    wanted = compute_rank(percent, sum(sketch.values()))
    for key in sorted(sketch):
        wanted -= sketch[key]
        if wanted <= 0:
            return 0.0 if key == 0 else _compute_edge(key + 1)
    raise InvalidValueError("a percentile needs at least one value")


def _compute_edge(key: int) -> float:
    return float(np.int64(key << _DROPPED_BITS).view(np.float64))


class Times(NamedTuple):
    """Times, one by one in order or as a sketch."""

    exact: Floats | None
    sketch: Mapping[int, int]

    @property
    def n(self) -> int:
        """Number of times."""
        return sum(self.sketch.values()) if self.exact is None else int(self.exact.size)

    @property
    def method(self) -> str:
        """How a percentile of these times is computed."""
        return "percentile_disc" if self.exact is not None else "percentile_disc of a sketch"

    def percentile(self, percent: int) -> float | None:
        """Return the percentile, or None without times."""
        if self.n == 0:
            return None
        if self.exact is None:
            return sketch_percentile(self.sketch, percent)
        return percentile_disc(self.exact, percent)

    def bounds(self, percent: int, unknown: int) -> tuple[float, float | None]:
        """Return the range of the percentile with ``unknown`` more times; None is unbounded."""
        wanted = compute_rank(percent, self.n + unknown)
        if self.n == 0:
            return 0.0, None
        low = self._find_nth(wanted - unknown) if wanted > unknown else 0.0
        return low, self._find_nth(wanted) if wanted <= self.n else None

    def _find_nth(self, place: int) -> float:
        if self.exact is not None:
            return float(self.exact[place - 1])
        first: dict[int, int] = {}
        for key in sorted(self.sketch):
            first[key] = min(self.sketch[key], place)
            place -= first[key]
            if place == 0:
                break
        return sketch_percentile(first, 100)
