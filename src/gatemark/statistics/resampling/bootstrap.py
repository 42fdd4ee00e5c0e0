"""Bias-corrected, accelerated (BCa) bootstrap of means and ratios, in bounded memory.

Resampling draws the same ``Generator.integers`` stream as ``scipy.stats.bootstrap``, so one seed
gives the same digits; the jackknife is closed form, O(n) where a general one is O(n * n). Answers
do not depend on the size of the chunks. Memory is a few MB, or a few rows of n when n is larger.
Many units are drawn in another way with the same distribution: see ``block_draws``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final, Literal, TypeVar

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import cluster_totals, require_finite_column

Floats = NDArray[np.float64]
Unit = TypeVar("Unit", np.float64, np.complex128)

BLOCK: Final = 8_192
ROWS_AT_ONCE: Final = 8
STREAMS: Final = 4
_DRAWS_PER_WORD: Final = 4
"""A random word has 64 bits, and 16 of them choose a unit of a block."""


def means_by_blocks(values: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Return ``resamples`` means over as many units as there are, drawn with replacement."""
    return _draw_sums_by_blocks(values, rng, resamples) / values.size


def ratios_by_blocks(
    above: Floats, below: Floats, rng: np.random.Generator, resamples: int
) -> Floats:
    """Return ``resamples`` values of sum(above) / sum(below) over units drawn with replacement."""
    # One lookup serves numerator and denominator if they are the parts of one number.
    units = np.empty(above.size, dtype=np.complex128)
    units.real, units.imag = above, below
    sums = _draw_sums_by_blocks(units, rng, resamples)
    return np.asarray(sums.real / sums.imag)


def _draw_sums_by_blocks(
    units: NDArray[Unit], rng: np.random.Generator, resamples: int
) -> NDArray[Unit]:
    """Draw in streams with their own rows, so that the number of processors changes no digit."""
    sums = np.zeros(resamples, dtype=units.dtype)
    with ThreadPoolExecutor(STREAMS) as threads:
        jobs = [
            threads.submit(_fill, units, rows, stream)
            for rows, stream in zip(np.array_split(sums, STREAMS), rng.spawn(STREAMS), strict=True)
        ]
    for job in jobs:
        job.result()
    return sums


def _fill(units: NDArray[Unit], sums: NDArray[Unit], rng: np.random.Generator) -> None:
    n = units.size
    edges = np.append(np.arange(0, n, BLOCK), n)
    shares = np.diff(edges) / n
    places = np.empty(0, dtype=np.intp)
    picked = np.empty(0, dtype=units.dtype)
    for start in range(0, sums.size, ROWS_AT_ONCE):
        rows = sums[start : start + ROWS_AT_ONCE]
        counts = rng.multinomial(n, shares, size=rows.size)
        needed = int(counts.sum(axis=0).max())
        if needed > places.size:
            places = np.empty(needed + needed // 8, dtype=np.intp)
            picked = np.empty(places.size, dtype=units.dtype)
        for block, (low, high) in enumerate(pairwise(edges.tolist())):
            drawn = counts[:, block]
            total = int(drawn.sum())
            if high - low == BLOCK:
                _name_units(rng, places[:total])
                values = units[low:high].take(places[:total], out=picked[:total], mode="clip")
                rows += np.add.reduceat(values, np.cumsum(drawn) - drawn)
            else:
                rows += _draw_sums_of_short_block(units[low:high], drawn, rng)


def _name_units(rng: np.random.Generator, places: NDArray[np.intp]) -> None:
    words = rng.bit_generator.random_raw(-(-places.size // _DRAWS_PER_WORD))
    halves = np.asarray(words, dtype="<u8").view("<u2")[: places.size]
    np.bitwise_and(halves, np.uint16(BLOCK - 1), out=places)


def _draw_sums_of_short_block(
    units: NDArray[Unit], drawn: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[Unit]:
    """Draw from the last block, which can have any size; a row may draw nothing from it."""
    # A zero at the end of every row separates rows without draws.
    values = np.zeros(int(drawn.sum()) + drawn.size, dtype=units.dtype)
    ends = np.cumsum(drawn + 1)
    is_drawn = np.ones(values.size, dtype=np.bool_)
    is_drawn[ends - 1] = False
    values[is_drawn] = units[rng.integers(0, units.size, int(drawn.sum()))]
    return np.add.reduceat(values, ends - drawn - 1)


Method = Literal["bca", "percentile", "point"]

CHUNK_CELLS = 2**17
DEFAULT_RESAMPLES = 9_999
RELATIVE_NOISE = 1e-12
MANY_UNITS = 2**15
"""With at least this many units, resampling is done block by block."""


class BcaInterval(msgspec.Struct, frozen=True):
    """An interval and how it was computed.

    ``method`` is ``bca`` unless the data do not allow it; ``reason`` then says why. ``units`` is
    what was resampled: items, or clusters of items.
    """

    estimate: float
    low: float
    high: float
    level: float
    standard_error: float
    units: int
    resamples: int
    method: Method
    reason: str | None = None


def bca_mean(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    chunk_cells: int = CHUNK_CELLS,
) -> BcaInterval:
    """Return the BCa interval of the mean; scipy's digits below ``MANY_UNITS`` values."""
    x = require_finite_column(values, "values")
    _refuse_bad_design(level, resamples)
    estimate = float(x.mean())
    flat = _explain_flat(x.size, is_constant=bool(x.min() == x.max()))
    if flat is not None:
        return _make_point_interval(estimate, level, x.size, flat)
    if x.size >= MANY_UNITS:
        means = means_by_blocks(x, rng, resamples)
    else:
        means = np.empty(resamples)
        pick = _make_picker(x.size, chunk_cells)
        for rows, drawn in _draw_rows(x.size, rng, resamples, chunk_cells):
            means[rows] = pick(x, drawn).mean(axis=-1)
    left_out = (x.sum() - x) / (x.size - 1)
    return _compute_bca(estimate, means, left_out, level)


def bca_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    chunk_cells: int = CHUNK_CELLS,
) -> BcaInterval:
    """Return the BCa interval of sum(numerators) / sum(denominators), resampling the pairs.

    For a token-weighted mean loss, numerators are losses times tokens and denominators tokens. The
    digits are scipy's for fewer than ``MANY_UNITS`` pairs.
    """
    above = require_finite_column(numerators, "numerators")
    below = require_finite_column(denominators, "denominators")
    _refuse_bad_design(level, resamples)
    if above.size != below.size:
        raise InvalidValueError(
            f"a ratio needs as many numerators as denominators, got {above.size} and {below.size}"
        )
    if not bool(np.all(below > 0)):
        raise InvalidValueError(f"every denominator must be > 0, got {below.min()}")
    estimate = float(above.sum() / below.sum())
    largest_residual = float(np.abs(above - estimate * below).max())
    is_constant = largest_residual <= RELATIVE_NOISE * float(np.abs(above).max())
    flat = _explain_flat(above.size, is_constant=is_constant)
    if flat is not None:
        return _make_point_interval(estimate, level, above.size, flat)
    if above.size >= MANY_UNITS:
        ratios = ratios_by_blocks(above, below, rng, resamples)
    else:
        ratios = np.empty(resamples)
        pick = _make_picker(above.size, chunk_cells)
        for rows, drawn in _draw_rows(above.size, rng, resamples, chunk_cells):
            ratios[rows] = pick(above, drawn).sum(axis=-1)
            ratios[rows] /= pick(below, drawn).sum(axis=-1)
    left_out = (above.sum() - above) / (below.sum() - below)
    return _compute_bca(estimate, ratios, left_out, level)


def bca_clusters(
    values: ArrayLike,
    clusters: Sequence[object] | NDArray[np.generic],
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
) -> BcaInterval:
    """Return the BCa interval of the mean of ``values``, resampling whole clusters."""
    sums, sizes = cluster_totals(values, clusters)
    return bca_ratio(sums, sizes, rng, level=level, resamples=resamples)


def _draw_rows(
    n: int, rng: np.random.Generator, resamples: int, chunk_cells: int
) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    rows_at_once = _count_rows_at_once(n, chunk_cells)
    for start in range(0, resamples, rows_at_once):
        stop = min(start + rows_at_once, resamples)
        yield slice(start, stop), rng.integers(0, n, (stop - start, n))


def _count_rows_at_once(n: int, chunk_cells: int) -> int:
    return max(1, chunk_cells // n)


def _make_picker(n: int, chunk_cells: int) -> Callable[[Floats, NDArray[np.int64]], Floats]:
    """Return a lookup of drawn values that reuses its memory, which is faster than new pages."""
    buffer = np.empty((_count_rows_at_once(n, chunk_cells), n))

    def pick(values: Floats, drawn: NDArray[np.int64]) -> Floats:
        # Indices are always in range; without the mode, numpy would copy before it writes to out.
        return values.take(drawn, out=buffer[: len(drawn)], mode="clip")

    return pick


def _compute_bca(
    estimate: float, replicates: Floats, left_out: Floats, level: float
) -> BcaInterval:
    tail = (1 - level) / 2
    shares = _compute_bca_shares(estimate, replicates, left_out, tail)
    method: Method = "bca"
    reason = None
    if shares is None:
        shares, method = (tail, 1 - tail), "percentile"
        reason = "the resamples are too lopsided for BCa"
    low, high = np.quantile(replicates, shares)
    return BcaInterval(
        estimate=estimate,
        low=float(low),
        high=float(high),
        level=level,
        standard_error=float(replicates.std(ddof=1)),
        units=left_out.size,
        resamples=replicates.size,
        method=method,
        reason=reason,
    )


def _compute_bca_shares(
    estimate: float, replicates: Floats, left_out: Floats, tail: float
) -> tuple[float, float] | None:
    below = np.count_nonzero(replicates < estimate) + np.count_nonzero(replicates <= estimate)
    bias = float(scipy.special.ndtri(below / (2 * replicates.size)))
    pull = (left_out.size - 1) * (left_out.mean() - left_out)
    spread = float((pull**2).sum())
    if not math.isfinite(bias) or spread == 0:
        return None
    acceleration = float((pull**3).sum()) / (6 * spread**1.5)
    z = float(scipy.special.ndtri(tail))
    shares = []
    for shifted in (bias + z, bias - z):
        damping = 1 - acceleration * shifted
        if damping <= 0:
            return None
        shares.append(float(scipy.special.ndtr(bias + shifted / damping)))
    return shares[0], shares[1]


def _make_point_interval(estimate: float, level: float, units: int, reason: str) -> BcaInterval:
    return BcaInterval(estimate, estimate, estimate, level, 0.0, units, 0, "point", reason)


def _explain_flat(size: int, *, is_constant: bool) -> str | None:
    if size == 1:
        return "one unit shows no spread"
    return "all units are equal, so resampling shows no spread" if is_constant else None


def _refuse_bad_design(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise InvalidValueError(f"level must be inside (0, 1), got {level}")
    if resamples < 2:
        raise InvalidValueError(f"a bootstrap needs >= 2 resamples, got {resamples}")
