"""The forms of a point as additive numbers: items and parts.

``value`` has one part, items times value; ``sum`` has sum and sum of squares; ``k`` has the hits;
``histogram`` has a count per bin; ``calibration`` has items, summed confidence and correct items of
each bin, one after the other; ``categories`` has a count per class of the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.durations import seconds_of
from gatemark.core.errors import InvalidValueError
from gatemark.release.drift.judging.policy import Watch
from gatemark.release.drift.signal import split_metric

Floats = NDArray[np.float64]
FormName = Literal["value", "sum", "k", "histogram", "calibration", "categories"]

SCALARS: Final[frozenset[FormName]] = frozenset({"value", "sum", "k"})
VECTORS: Final[frozenset[FormName]] = frozenset({"histogram", "calibration", "categories"})


def part_count(form: FormName, layout: Sequence[object]) -> int:
    """Return how many parts a series has; ``layout`` holds its edges, bins or classes."""
    if form in ("value", "k"):
        return 1
    if form == "sum":
        return 2
    if form == "calibration":
        return 3 * len(layout)
    return len(layout) - 1 if form == "histogram" else len(layout)


def values_of(form: FormName, items: Floats, parts: Floats) -> Floats:
    """Return the value of each window of a scalar form; NaN where it has no items."""
    if form not in SCALARS:
        raise InvalidValueError(f"points of form {form} have no single value")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(items > 0, parts[..., 0] / items, np.nan)


CENTURY_S: Final = 3_155_760_000
"""No window is longer; moments of a stored number above it may not exist."""


_length_of = lru_cache(maxsize=64)(seconds_of)
"""Cached: a probe of a fleet asks for each of its series."""


class Series(msgspec.Struct, frozen=True):
    """One metric of one asset: its form, the grid of its windows, and its bins or classes.

    ``version`` is the version that its windows are attributed to: the one that its points name, or
    the one that serves. It is None for assets that are not registered.
    """

    id: int
    asset: str
    metric: str
    form: FormName
    length_s: Annotated[int, msgspec.Meta(gt=0, le=CENTURY_S)]
    phase_s: Annotated[int, msgspec.Meta(ge=0, lt=CENTURY_S)]
    layout: tuple[float | str, ...] = ()
    version: str | None = None

    @property
    def watched_metric(self) -> str:
        """The metric name without a version, as watches name it."""
        return split_metric(self.metric)[0]

    def window_s(self, watch: Watch) -> int:
        """Return the length of the judged windows: the watch's if pushed windows divide it."""
        if watch.window is None:
            return self.length_s
        wanted = _length_of(watch.window)
        return wanted if wanted % self.length_s == 0 else self.length_s
