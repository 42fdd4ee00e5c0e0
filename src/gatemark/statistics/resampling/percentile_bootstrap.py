"""Percentile bootstrap of means and pooled rates, with the stream of numpy's legacy generator.

The stream is that of ``RandomState(seed).choice(values, n)`` called once per resample, so that
intervals published by tools which do exactly that are reproduced bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]

CHUNK_CELLS = 2**20
LEVEL = 0.95


class MeanInterval(msgspec.Struct, frozen=True):
    """A mean and the percentiles of its resamples."""

    mean: float
    low: float
    high: float
    n: int
    resamples: int
    seed: int


def percentile_mean(
    values: Sequence[float], *, seed: int, resamples: int, chunk_cells: int = CHUNK_CELLS
) -> MeanInterval | None:
    """Return the mean of values with its 95 % percentile interval; None without values."""
    if not values:
        return None
    array = _check_column(values)
    means = np.concatenate(
        [
            array[rows].mean(axis=1)
            for rows in _draw_rows(
                array.size, seed=seed, resamples=resamples, chunk_cells=chunk_cells
            )
        ]
    )
    return _make_interval(float(array.mean()), means, array.size, seed)


def percentile_ratio(
    parts: Sequence[float],
    wholes: Sequence[float],
    *,
    seed: int,
    resamples: int,
    chunk_cells: int = CHUNK_CELLS,
) -> MeanInterval | None:
    """Return a pooled rate, sum of parts over sum of wholes, resampling whole cases.

    A case whose whole is zero is left out.
    """
    kept = [(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0]
    if not kept:
        return None
    above, below = (
        _check_column([part for part, _ in kept]),
        _check_column([whole for _, whole in kept]),
    )
    ratios = np.concatenate(
        [
            above[rows].sum(axis=1) / below[rows].sum(axis=1)
            for rows in _draw_rows(
                above.size, seed=seed, resamples=resamples, chunk_cells=chunk_cells
            )
        ]
    )
    return _make_interval(float(above.sum() / below.sum()), ratios, above.size, seed)


def _draw_rows(
    n: int, *, seed: int, resamples: int, chunk_cells: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each resample, several resamples at a time."""
    if resamples < 1:
        raise InvalidValueError(f"a bootstrap needs >= 1 resample, got {resamples}")
    # The old generator on purpose: published intervals were drawn from its stream.
    state = np.random.RandomState(seed)
    at_once = max(1, chunk_cells // n)
    for start in range(0, resamples, at_once):
        yield state.randint(0, n, size=(min(at_once, resamples - start), n))


def _make_interval(estimate: float, replicates: Floats, n: int, seed: int) -> MeanInterval:
    low, high = np.percentile(replicates, [2.5, 97.5], method="linear")
    return MeanInterval(estimate, float(low), float(high), n, replicates.size, seed)


def _check_column(values: Sequence[float]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not bool(np.isfinite(array).all()):
        raise InvalidValueError("a bootstrap needs finite numbers")
    return array
