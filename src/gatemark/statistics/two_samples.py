"""Test whether two rows of counts come from one distribution over classes.

The baseline's counts are data too, so this is the 2 x K test of homogeneity and not a
goodness-of-fit test against a known distribution.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]
Method = Literal["chi_square", "monte_carlo", "fisher"]

SMALLEST_EXPECTED = 5
DEFAULT_TABLES = 9_999
FIRST_TABLES = 199
ENOUGH_HITS = 10


class TwoSampleTest(msgspec.Struct, frozen=True):
    """Statistic, p-value and effect of one 2 x K table; ``method`` is how p was computed."""

    statistic: float
    df: int
    p_value: float
    cramers_v: float
    method: Method


def chi_square_each(current: Floats, baseline: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return statistic, degrees of freedom, Cramer's V and least expected count of each table.

    Classes that neither side has do not count. A table with one class or an empty row has statistic
    0 on 0 degrees of freedom.
    """
    both = current + baseline
    used = both > 0
    n_current, n_baseline = current.sum(axis=-1), baseline.sum(axis=-1)
    total = n_current + n_baseline
    df = np.maximum(used.sum(axis=-1) - 1, 0).astype(np.float64)
    df = np.where((n_current > 0) & (n_baseline > 0), df, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(used, both / total[..., None], 0.0)
        expected_current = share * n_current[..., None]
        expected_baseline = share * n_baseline[..., None]
        terms = np.where(
            used,
            (current - expected_current) ** 2 / expected_current
            + (baseline - expected_baseline) ** 2 / expected_baseline,
            0.0,
        )
        statistic = np.where(df > 0, terms.sum(axis=-1), 0.0)
        v = np.where(df > 0, np.sqrt(statistic / total), 0.0)
    least = np.where(used, np.minimum(expected_current, expected_baseline), np.inf)
    least = least.min(axis=-1, initial=np.inf)
    return statistic, df, v, np.where(df > 0, least, 0.0)


def balanced_v_each(current: Floats, baseline: Floats) -> Floats:
    """Return Cramer's V as if both rows had the same number of items.

    The plain V of a short row and a long one is always small; this one depends only on their
    shares.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        p = current / current.sum(axis=-1, keepdims=True)
        q = baseline / baseline.sum(axis=-1, keepdims=True)
        terms = np.where(p + q > 0, (p - q) ** 2 / (p + q), 0.0)
    return np.asarray(np.nan_to_num(np.sqrt(terms.sum(axis=-1) / 2), nan=0.0))


def chi_square_p_each(statistic: Floats, df: Floats) -> Floats:
    """Return the asymptotic p-value; 1 where nothing can differ."""
    return np.where(df > 0, scipy.special.gammaincc(np.maximum(df, 1) / 2, statistic / 2), 1.0)


def compare_two_samples(
    current: ArrayLike,
    baseline: ArrayLike,
    rng: np.random.Generator,
    *,
    tables: int = DEFAULT_TABLES,
) -> TwoSampleTest:
    """Test one 2 x K table; exact or simulated if an expected count is below five.

    Two classes with a small expected count get Fisher's exact test. More get a Monte Carlo p-value,
    (1 + hits) / (1 + tables), over tables with the same margins.
    """
    c, b = np.asarray(current, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if c.ndim != 1 or c.shape != b.shape or bool(np.any(c < 0) | np.any(b < 0)):
        raise InvalidValueError("homogeneity needs two rows of counts of the same length")
    statistic, df, v, least = (float(part) for part in chi_square_each(c, b))
    if df > 0 and least < SMALLEST_EXPECTED:
        used = (c + b) > 0
        table = np.stack([c[used], b[used]]).astype(np.int64)
        method: Method = "fisher" if df == 1 else "monte_carlo"
        p_value = _compute_fisher(table) if df == 1 else _simulate_p_value(table, rng, tables)
    else:
        method = "chi_square"
        p_value = float(chi_square_p_each(np.asarray(statistic), np.asarray(df)))
    return TwoSampleTest(statistic, int(df), p_value, v, method)


def _compute_fisher(table: NDArray[np.int64]) -> float:
    from scipy.stats import fisher_exact  # noqa: PLC0415 - heavy, and most tables need none

    return float(fisher_exact(table).pvalue)


def _simulate_p_value(table: NDArray[np.int64], rng: np.random.Generator, tables: int) -> float:
    """Return a Monte Carlo p-value; stop early if it is clearly not small."""
    classes = table.sum(axis=0)
    size = int(table[0].sum())
    # With fixed margins the statistic increases with this sum, so only the sum is compared.
    weights = 1 / classes
    ours = float(table[0].astype(np.float64) ** 2 @ weights) * (1 - 1e-12)
    hits = drawn = 0
    for count in (min(FIRST_TABLES, tables), tables):
        if count > drawn:
            some = rng.multivariate_hypergeometric(classes, size, count - drawn)
            hits += int(np.count_nonzero(some.astype(np.float64) ** 2 @ weights >= ours))
            drawn = count
        if hits >= ENOUGH_HITS:
            break
    return (1 + hits) / (1 + drawn)
