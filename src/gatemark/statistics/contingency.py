"""Agreement between raters: two raters from the square table of their labels, or any number.

In a table of two raters, rows are the first rater's labels and columns the second's. Every formula
uses whole counts (products of counts over products of counts), so results are exact up to the last
division and do not depend on the order of the labels. The ``…_each`` forms take a stack of tables
and return one number per table, NaN if undefined; the plain forms return an ``Estimate``.
Krippendorff's alpha takes nominal labels from any number of raters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.core.reason import Reason, ReasonKind
from gatemark.statistics.proportion import Bootstrap, Estimate, IntervalEstimate, two_sided_z

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
EachStatistic = Callable[[Counts], Floats]
LabelSpace = Literal["table", "occurring"]

NOTHING_TO_COMPARE: Final = ReasonKind("nothing_to_compare", "no items to compare")
ONE_LABEL: Final = ReasonKind(
    "one_label", "chance agreement is 1: both raters gave every item one and the same label"
)
DRAWS_UNDEFINED: Final = ReasonKind(
    "draws_undefined", "{undefined} of {draws} bootstrap draws were undefined, more than 5 %"
)
NO_PAIRS: Final = ReasonKind("no_pairs", "no item has two ratings to compare")
NO_EXPECTED_DISAGREEMENT: Final = ReasonKind(
    "no_expected_disagreement",
    "expected disagreement is 0: every comparable rating is one and the same label",
)

_SMALLEST_ROOM = 1e-12
_LARGEST_UNDEFINED_SHARE = 0.05
_CELLS_PER_CHUNK = 2**20
_KEPT_CELLS = 2**18
_MOST_RESAMPLES = 10_000
_FEWEST_RESAMPLES = 1_000
_DRAWN_CELLS = 20_000_000


def build_confusion(cells: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, ...], Counts]:
    """Return the sorted labels of both raters and the square table of ``cells[first][second]``."""
    labels = tuple(sorted(list_labels(cells)))
    position = {label: index for index, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for first, row in cells.items():
        for second, count in row.items():
            table[position[first], position[second]] = count
    return labels, table


def list_labels(cells: Mapping[str, Mapping[str, int]]) -> set[str]:
    """Return every label that either rater used."""
    return set(cells).union(*cells.values())


def cohen_kappa(table: npt.ArrayLike) -> Estimate:
    """Return Cohen's kappa; undefined if chance alone already gives full agreement."""
    return _estimate_single(cohen_kappa_each, _check_square(table), ONE_LABEL())


def gwet_ac1(table: npt.ArrayLike, *, label_space: LabelSpace) -> Estimate:
    """Return Gwet's AC1, which stays stable when one label dominates.

    Its chance term divides by the number of categories minus one. ``label_space="table"`` counts
    every label of the table, used or not; ``"occurring"`` counts the labels that a rater used,
    which is what irrCAC does with raw ratings if it is given no categories. With a single category
    there is nothing to disagree on, and AC1 is 1.
    """
    return _estimate_single(
        lambda tables: gwet_ac1_each(tables, label_space),
        _check_square(table),
        NOTHING_TO_COMPARE(),
    )


def cohen_kappa_each(tables: Counts) -> Floats:
    """Return Cohen's kappa of each table: ``(n * agreed - chance) / (n * n - chance)``."""
    counts = tables.astype(np.float64)
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    n = rows.sum(axis=-1)
    chance = (rows * columns).sum(axis=-1)
    room = n * n - chance
    return _divide(
        n * _get_diagonal(counts) - chance, np.where(room < _SMALLEST_ROOM * n * n, 0.0, room)
    )


def gwet_ac1_each(tables: Counts, label_space: LabelSpace) -> Floats:
    """Return Gwet's AC1 of each table."""
    counts = tables.astype(np.float64)
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    n, uses = rows.sum(axis=-1), rows + columns
    if label_space == "table":
        categories = np.full(n.shape, float(counts.shape[-1]))
    else:
        categories = (uses > 0).sum(axis=-1).astype(np.float64)
    # Both sides of (agreement - chance) / (1 - chance), times 4 n n (categories - 1).
    scale = 4 * n * (categories - 1)
    chance = (uses * (2 * n[..., np.newaxis] - uses)).sum(axis=-1)
    values = _divide(scale * _get_diagonal(counts) - chance, scale * n - chance)
    return np.where((categories == 1) & (n > 0), 1.0, values)


def kappa_variance(table: npt.ArrayLike) -> Estimate:
    """Return the large-sample variance of kappa by Fleiss, Cohen and Everitt (1969)."""
    counts = _check_square(table)
    kappa = cohen_kappa(counts)
    if kappa.value is None:
        return kappa
    n = counts.sum()
    shares = counts / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    chance = float(rows @ columns)
    distance = 1 - kappa.value
    on_diagonal = np.diagonal(shares) * (1 - (rows + columns) * distance) ** 2
    off_diagonal = shares * (columns[:, np.newaxis] + rows) ** 2
    np.fill_diagonal(off_diagonal, 0.0)
    spread = (
        float(on_diagonal.sum())
        + distance**2 * float(off_diagonal.sum())
        - (kappa.value - chance * distance) ** 2
    )
    # The difference of equal numbers may round to just below zero.
    return Estimate(max(0.0, spread) / ((1 - chance) ** 2 * float(n)))


def kappa_analytic_interval(table: npt.ArrayLike, level: float = 0.95) -> IntervalEstimate:
    """Return the normal interval of kappa from its large-sample variance, cut to [-1, 1]."""
    z = two_sided_z(level)
    kappa, variance = cohen_kappa(table), kappa_variance(table)
    if kappa.value is None or variance.value is None:
        return IntervalEstimate(None, kappa.reason)
    half_width = z * math.sqrt(variance.value)
    low, high = max(-1.0, kappa.value - half_width), min(1.0, kappa.value + half_width)
    return IntervalEstimate(Interval(low=low, high=high, level=level, method="analytic"))


def multinomial_bootstrap(
    table: npt.ArrayLike,
    statistic: EachStatistic,
    *,
    resamples: int = _MOST_RESAMPLES,
    seed: int,
    level: float = 0.95,
) -> Bootstrap:
    """Return the percentile interval of ``statistic`` over multinomial resamples of counts.

    Resampling items with replacement and resampling the counts of their cells are equivalent, so
    the cost depends on the number of cells and not on the number of items. The array may have any
    shape; ``statistic`` gets a stack with the draws along the first axis. Draws without a value are
    counted and left out; above 5 % of them there is no interval.
    """
    counts = _check_counts(table)
    if resamples < 1:
        raise InvalidValueError(f"a bootstrap needs at least one draw, got {resamples}")
    if not 0 < level < 1:
        raise InvalidValueError(f"interval level must be inside (0, 1), got {level}")
    if counts.sum() == 0:
        return Bootstrap(None, NOTHING_TO_COMPARE(), draw_count=0, undefined_count=0)
    values = _compute_redrawn(counts, statistic, resamples, seed)
    defined = values[~np.isnan(values)]
    undefined_count = resamples - defined.size
    if undefined_count > _LARGEST_UNDEFINED_SHARE * resamples:
        reason = DRAWS_UNDEFINED(undefined=undefined_count, draws=resamples)
        return Bootstrap(None, reason, draw_count=resamples, undefined_count=undefined_count)
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail], method="inverted_cdf")
    interval = Interval(
        low=float(low), high=float(high), level=level, method="multinomial_bootstrap"
    )
    return Bootstrap(interval, draw_count=resamples, undefined_count=undefined_count)


def affordable_resamples(table: npt.ArrayLike) -> int:
    """Return 10,000 draws up to 2,000 nonzero cells, then fewer, but never below 1,000.

    The number depends on the table alone, so equal tables always get equal intervals.
    """
    used_count = max(1, int(np.count_nonzero(_check_counts(table))))
    return max(_FEWEST_RESAMPLES, min(_MOST_RESAMPLES, _DRAWN_CELLS // used_count))


def _compute_redrawn(counts: Counts, statistic: EachStatistic, resamples: int, seed: int) -> Floats:
    """Return the statistic of every resample, with bounded memory."""
    # Only nonzero cells are drawn: rounding must never put an item into an empty one.
    used = np.flatnonzero(counts)
    cells = tuple(counts.ravel()[used].tolist())
    chunk = max(1, _CELLS_PER_CHUNK // counts.size)
    values = np.empty(resamples, dtype=np.float64)
    start = 0
    for drawn in _draw_chunks(cells, resamples, seed, chunk):
        stack = np.zeros((len(drawn), counts.size), dtype=np.int64)
        stack[:, used] = drawn
        end = start + len(drawn)
        values[start:end] = statistic(stack.reshape(-1, *counts.shape))
        start = end
    return values


def _draw_chunks(cells: tuple[int, ...], resamples: int, seed: int, chunk: int) -> Iterator[Counts]:
    """Draw the cells again and again, in chunks; few enough draws are kept for the next asker."""
    if resamples <= chunk and resamples * len(cells) <= _KEPT_CELLS:
        yield _draw_cached(cells, resamples, seed)
        return
    n = sum(cells)
    shares, rng = np.array(cells) / n, np.random.default_rng(seed)
    for start in range(0, resamples, chunk):
        yield rng.multinomial(n, shares, size=min(chunk, resamples - start))


@lru_cache(maxsize=2)
def _draw_cached(cells: tuple[int, ...], resamples: int, seed: int) -> Counts:
    """Several statistics are asked of the same draws of the same table."""
    n = sum(cells)
    drawn = np.random.default_rng(seed).multinomial(n, np.array(cells) / n, resamples)
    drawn.flags.writeable = False
    return drawn


def _estimate_single(statistic: EachStatistic, table: Counts, undefined_reason: Reason) -> Estimate:
    if table.sum() == 0:
        return Estimate(None, NOTHING_TO_COMPARE())
    value = float(statistic(table[np.newaxis])[0])
    return Estimate(None, undefined_reason) if math.isnan(value) else Estimate(value)


def _check_counts(table: npt.ArrayLike) -> Counts:
    counts: npt.NDArray[Any] = np.asarray(table)
    if counts.size and not np.issubdtype(counts.dtype, np.integer):
        raise InvalidValueError(f"a count table must hold whole numbers, got {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise InvalidValueError(f"a count table must not hold {counts.min()}")
    return counts.astype(np.int64)


def _check_square(table: npt.ArrayLike) -> Counts:
    counts = _check_counts(table)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise InvalidValueError(f"an agreement table must be square, got shape {counts.shape}")
    return counts


def _get_diagonal(counts: Floats) -> Floats:
    diagonal: Floats = np.trace(counts, axis1=-2, axis2=-1)
    return diagonal


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    """Divide; NaN where the denominator is zero."""
    quotient = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def nominal_alpha(units: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Estimate:
    """Return alpha from how often each category (column) was given to each unit (row).

    ``weights`` is how many units each row stands for (default: one). A unit with fewer than two
    ratings has no pair and is left out.
    """
    counts = np.asarray(units)
    if counts.ndim != 2:
        raise InvalidValueError(f"alpha needs a units by categories table, got {counts.ndim} axes")
    repeats = np.ones(counts.shape[0], dtype=np.int64) if weights is None else np.asarray(weights)
    if repeats.shape != counts.shape[:1]:
        raise InvalidValueError(f"alpha needs {counts.shape[0]} weights, got {repeats.shape}")
    for name, array in (("ratings", counts), ("weights", repeats)):
        if array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0):
            raise InvalidValueError(f"alpha needs whole, non-negative counts of {name}")
    if not repeats[counts.sum(axis=1) >= 2].any():
        return Estimate(None, NO_PAIRS())
    value = float(nominal_alpha_each(repeats[np.newaxis], counts)[0])
    return Estimate(None, NO_EXPECTED_DISAGREEMENT()) if np.isnan(value) else Estimate(value)


def nominal_alpha_each(weights: Counts, units: Counts) -> Floats:
    """Return alpha for each row of ``weights`` over the same units; NaN if undefined.

    A unit with m ratings adds ``sum of c * (m - c)`` disagreeing ordered pairs, each weighted ``1 /
    (m - 1)``. Pairs are summed per m in whole numbers before that division, so that the result does
    not depend on the order of the units.
    """
    ratings = units.sum(axis=1)
    paired = ratings >= 2
    counts, sizes = units[paired].astype(np.float64), ratings[paired]
    repeats = weights[:, paired].astype(np.float64)
    disagreeing = (counts * (sizes[:, np.newaxis] - counts)).sum(axis=1)
    distinct_sizes, group = np.unique(sizes, return_inverse=True)
    pairs_by_size = np.zeros((sizes.size, distinct_sizes.size))
    pairs_by_size[np.arange(sizes.size), group] = disagreeing
    observed = ((repeats @ pairs_by_size) / (distinct_sizes - 1)).sum(axis=1)
    totals = repeats @ counts
    n = totals.sum(axis=1)
    expected = (totals * (n[:, np.newaxis] - totals)).sum(axis=1)
    share = np.full(n.shape, np.nan)
    np.divide((n - 1) * observed, expected, out=share, where=expected != 0)
    return 1 - share
