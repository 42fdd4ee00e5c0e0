"""Many questions at once: adjusted p-values (Holm, Benjamini-Hochberg), and levels of looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Holm's step-down p-values, in the order given: they bound the chance of any false claim."""
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return _restored(stepped, order)


def benjamini_hochberg(p_values: Sequence[float] | Floats) -> Floats:
    """Benjamini-Hochberg p-values, in the order given: they bound the share of false claims."""
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (p.size / np.arange(1, p.size + 1))
    return _restored(np.minimum.accumulate(scaled[::-1])[::-1], order)


def look_levels(looks: int, alpha: float) -> tuple[float, ...]:
    """The level of each of some equally spaced looks at growing data; together they are alpha.

    They are the increments of the spending function of Lan and DeMets that is like O'Brien and
    Fleming's bounds: early looks get little, the last one most. Each look may use its increment as
    its own level, whatever the looks have in common, because chances of errors add up at most.
    """
    if looks < 1 or not 0 < alpha < 0.5:
        raise InvalidValueError(f"needs a look and alpha inside (0, 0.5), got {looks} and {alpha}")
    shares = np.arange(1, looks) / looks
    spent = 2 * ndtr(ndtri(alpha / 2) / np.sqrt(shares))
    return tuple(np.diff(np.concatenate([[0.0], spent, [alpha]])).tolist())


def _checked(p_values: Sequence[float] | Floats) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not bool(np.all((p >= 0) & (p <= 1))):
        raise InvalidValueError("p-values must be one list of numbers inside [0, 1]")
    return p


def _restored(adjusted: Floats, order: NDArray[np.intp]) -> Floats:
    out = np.empty_like(adjusted)
    out[order] = np.minimum(adjusted, 1.0)
    return out
