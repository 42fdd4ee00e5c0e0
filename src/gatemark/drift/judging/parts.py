"""The forms of a point as numbers that add up: items and parts, whatever the form.

``value`` has one part, items times value; ``sum`` has sum and sum of squares; ``k`` has the hits;
``histogram`` has a count per bin; ``calibration`` has items, summed confidence and correct items
of each bin, one after the other; ``categories`` has a count per class of the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]
FormName = Literal["value", "sum", "k", "histogram", "calibration", "categories"]

SCALARS: Final[frozenset[FormName]] = frozenset({"value", "sum", "k"})
VECTORS: Final[frozenset[FormName]] = frozenset({"histogram", "calibration", "categories"})
FORM_NAMES: Final[tuple[FormName, ...]] = (
    "value",
    "sum",
    "k",
    "histogram",
    "calibration",
    "categories",
)


def part_count(form: FormName, layout: Sequence[object]) -> int:
    """How many parts a series has; ``layout`` holds its edges, bins or classes."""
    if form in ("value", "k"):
        return 1
    if form == "sum":
        return 2
    if form == "calibration":
        return 3 * len(layout)
    return len(layout) - 1 if form == "histogram" else len(layout)


def values_of(form: FormName, items: Floats, parts: Floats) -> Floats:
    """The value of each window of a scalar form; NaN where it has no items."""
    if form not in SCALARS:
        raise InvalidValueError(f"points of form {form} have no single value")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(items > 0, parts[..., 0] / items, np.nan)
