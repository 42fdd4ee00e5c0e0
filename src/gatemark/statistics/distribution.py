"""A list of numbers in eight: count, ends, mean and four percentiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PERCENTILES = (50, 90, 95, 99)


def distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Count, minimum, maximum, mean and percentiles between the order statistics; None of nothing.

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
    """One percentile, interpolated between the order statistics; None of nothing."""
    if not values:
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent, method="linear"))
