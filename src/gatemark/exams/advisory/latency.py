"""Times by lane: every one while they are few, a sketch of them when they are many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gatemark.statistics.quantiles import percentile_disc, rank, sketch_percentile, sketched

EXACT_MAX: Final = 2_000_000
"""Up to so many times in all, percentiles are exact."""

Floats = npt.NDArray[np.float64]


class Times(NamedTuple):
    """The times of some records, one by one or as a sketch."""

    exact: Floats | None
    sketch: Mapping[int, int]

    @property
    def n(self) -> int:
        """How many times there are."""
        return sum(self.sketch.values()) if self.exact is None else int(self.exact.size)

    @property
    def method(self) -> str:
        """How a percentile of these times is found."""
        return "percentile_disc" if self.exact is not None else "percentile_disc of a sketch"

    def percentile(self, percent: int) -> float | None:
        """The percentile, or None when there are no times."""
        if self.n == 0:
            return None
        if self.exact is None:
            return sketch_percentile(self.sketch, percent)
        return percentile_disc(self.exact, percent)

    def bounds(self, percent: int, unknown: int) -> tuple[float, float | None]:
        """What the percentile could be if so many more times were known; None is without end."""
        wanted = rank(percent, self.n + unknown)
        if self.n == 0:
            return 0.0, None
        low = self._nth(wanted - unknown) if wanted > unknown else 0.0
        return low, self._nth(wanted) if wanted <= self.n else None

    def _nth(self, place: int) -> float:
        if self.exact is not None:
            return float(self.exact[place - 1])
        return sketch_percentile(_first(self.sketch, place), 100)


def gathered(
    lanes: Iterable[int], exact: Mapping[int, bytes], sketches: Mapping[int, Mapping[int, int]]
) -> Times:
    """The times of several lanes together, each by its number."""
    chosen = list(lanes)
    if any(lane in sketches for lane in chosen) or (sketches and not exact):
        total: dict[int, int] = {}
        for lane in chosen:
            for key, count in sketches.get(lane, {}).items():
                total[key] = total.get(key, 0) + count
        return Times(None, total)
    parts = [np.frombuffer(exact.get(lane, b""), dtype=np.float64) for lane in chosen]
    joined = np.concatenate(parts) if parts else np.zeros(0)
    return Times(np.sort(joined), {})


def as_sketch(data: bytes) -> dict[int, int]:
    """The sketch of some times."""
    return sketched(np.frombuffer(data, dtype=np.float64))


def _first(sketch: Mapping[int, int], place: int) -> dict[int, int]:
    """The part of a sketch that holds the first so many values."""
    kept: dict[int, int] = {}
    for key in sorted(sketch):
        kept[key] = min(sketch[key], place)
        place -= kept[key]
        if place == 0:
            break
    return kept
