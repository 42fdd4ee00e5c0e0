"""Test whether several runs have the same distribution over classes, and how far apart they are."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gatemark.core.errors import InvalidValueError

Counts = npt.NDArray[np.int64]

DRAWS: Final = 1_999
_LEAST_EXPECTED: Final = 5.0


class Homogeneity(NamedTuple):
    """Pearson's chi-square over runs by classes; ``method`` is how the p-value was computed."""

    statistic: float
    dof: int
    p_value: float
    method: Literal["chi_square", "monte_carlo"]


def largest_shift(counts: npt.ArrayLike) -> float:
    """Return the largest total variation distance between one run and all others together."""
    table = _check_table(counts)
    others = table.sum(axis=0) - table
    shares = table / table.sum(axis=1, keepdims=True)
    other_shares = others / others.sum(axis=1, keepdims=True)
    return float(np.abs(shares - other_shares).sum(axis=1).max() / 2)


def assess_homogeneity(counts: npt.ArrayLike, rng: np.random.Generator) -> Homogeneity:
    """Test by Pearson's chi-square that all runs share one distribution.

    If a class is expected fewer than five times in a run, the p-value comes from random tables with
    the same margins, (1 + at least as extreme) / (1 + draws).
    """
    table = _check_table(counts)
    table = table[:, table.sum(axis=0) > 0]
    dof = (table.shape[0] - 1) * (table.shape[1] - 1)
    if dof == 0:
        return Homogeneity(0.0, 0, 1.0, "chi_square")
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    if expected.min() >= _LEAST_EXPECTED:
        return Homogeneity(statistic, dof, _compute_chi_square_tail(statistic, dof), "chi_square")
    drawn = _draw_tables(table, rng)
    statistics = ((drawn - expected) ** 2 / expected).sum(axis=(1, 2))
    # Equally extreme tables must not be missed because of the last bit of a sum.
    extreme = int(np.count_nonzero(statistics >= statistic * (1 - 1e-12)))
    return Homogeneity(statistic, dof, (1 + extreme) / (1 + DRAWS), "monte_carlo")


def _compute_chi_square_tail(statistic: float, dof: int) -> float:
    from scipy.special import gammaincc  # noqa: PLC0415 - slow to load, and rarely needed

    return float(gammaincc(dof / 2, statistic / 2))


def _draw_tables(table: Counts, rng: np.random.Generator) -> Counts:
    """Return random tables with the same margins, by dealing the items to the runs again."""
    runs, classes = table.shape
    drawn = np.zeros((DRAWS, runs, classes), dtype=np.int64)
    left = np.tile(table.sum(axis=0), (DRAWS, 1))
    for run in range(runs - 1):
        places = np.full(DRAWS, table[run].sum(), dtype=np.int64)
        beyond = left.sum(axis=1)
        for column in range(classes):
            beyond = beyond - left[:, column]
            taken = rng.hypergeometric(left[:, column], beyond, places)
            drawn[:, run, column] = taken
            places = places - taken
        left = left - drawn[:, run]
    drawn[:, runs - 1] = left
    return drawn


def _check_table(counts: npt.ArrayLike) -> Counts:
    table = np.asarray(counts, dtype=np.int64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 1:
        raise InvalidValueError("homogeneity needs two runs and a class")
    if table.min() < 0 or (table.sum(axis=1) == 0).any():
        raise InvalidValueError("every run needs items, and no negative number of them")
    return table
