"""Resampled sums of very many units, drawn block by block.

A resample of n units out of n is a multinomial draw. It can be made in two steps without changing
its distribution: first how many of the n draws fall into each block of units, then which units of
that block they are. A block has a power of two units, so that a masked random word names one, and
its values stay in the nearest cache: a third of the time of drawing positions among all n.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Unit = TypeVar("Unit", np.float64, np.complex128)

BLOCK: Final = 8_192
ROWS_AT_ONCE: Final = 8
STREAMS: Final = 4
_DRAWS_PER_WORD: Final = 4
"""A raw word has 64 bits, and 16 of them name a unit of a block."""


def means_by_blocks(values: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """``resamples`` means over as many units as there are, drawn with replacement."""
    return _sums_by_blocks(values, rng, resamples) / values.size


def ratios_by_blocks(
    above: Floats, below: Floats, rng: np.random.Generator, resamples: int
) -> Floats:
    """``resamples`` values of sum(above) / sum(below) over units drawn with replacement."""
    # One look-up serves numerator and denominator when they are the parts of one number.
    units = np.empty(above.size, dtype=np.complex128)
    units.real, units.imag = above, below
    sums = _sums_by_blocks(units, rng, resamples)
    return np.asarray(sums.real / sums.imag)


def _sums_by_blocks(
    units: NDArray[Unit], rng: np.random.Generator, resamples: int
) -> NDArray[Unit]:
    """Each stream of draws has its own rows, so the number of processors changes no digit."""
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
                rows += _sums_of_short_block(units[low:high], drawn, rng)


def _name_units(rng: np.random.Generator, places: NDArray[np.intp]) -> None:
    words = rng.bit_generator.random_raw(-(-places.size // _DRAWS_PER_WORD))
    halves = np.asarray(words, dtype="<u8").view("<u2")[: places.size]
    np.bitwise_and(halves, np.uint16(BLOCK - 1), out=places)


def _sums_of_short_block(
    units: NDArray[Unit], drawn: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[Unit]:
    """The last block may have any size, and a row may draw nothing from it."""
    # A zero at the end of every row keeps rows without draws apart.
    values = np.zeros(int(drawn.sum()) + drawn.size, dtype=units.dtype)
    ends = np.cumsum(drawn + 1)
    is_drawn = np.ones(values.size, dtype=np.bool_)
    is_drawn[ends - 1] = False
    values[is_drawn] = units[rng.integers(0, units.size, int(drawn.sum()))]
    return np.add.reduceat(values, ends - drawn - 1)
