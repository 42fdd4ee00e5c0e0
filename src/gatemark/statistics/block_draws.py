"""Resampled ratios of very many units, drawn block by block.

A resample of n units out of n is a multinomial draw. It can be made in two steps without changing
its distribution: first how many of the n draws fall into each block of units, then which units of
that block they are. A block has a power of two units, so that a masked random word names one, and
its values stay in the nearest cache: a third of the time of drawing positions among all n.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

BLOCK: Final = 8_192
ROWS_AT_ONCE: Final = 8
_DRAWS_PER_WORD: Final = 4
"""A raw word has 64 bits, and 16 of them name a unit of a block."""


def ratios_by_blocks(
    above: Floats, below: Floats, rng: np.random.Generator, resamples: int
) -> Floats:
    """``resamples`` values of sum(above) / sum(below) over units drawn with replacement."""
    n = above.size
    # One look-up serves numerator and denominator when they are the parts of one number.
    units = np.empty(n, dtype=np.complex128)
    units.real, units.imag = above, below
    edges = np.append(np.arange(0, n, BLOCK), n)
    shares = np.diff(edges) / n
    places = np.empty(0, dtype=np.intp)
    picked = np.empty(0, dtype=np.complex128)
    sums = np.zeros(resamples, dtype=np.complex128)
    for start in range(0, resamples, ROWS_AT_ONCE):
        rows = sums[start : start + ROWS_AT_ONCE]
        counts = rng.multinomial(n, shares, size=rows.size)
        needed = int(counts.sum(axis=0).max())
        if needed > places.size:
            places = np.empty(needed + needed // 8, dtype=np.intp)
            picked = np.empty(places.size, dtype=np.complex128)
        for block, (low, high) in enumerate(pairwise(edges.tolist())):
            drawn = counts[:, block]
            total = int(drawn.sum())
            if high - low == BLOCK:
                _name_units(rng, places[:total])
                values = units[low:high].take(places[:total], out=picked[:total], mode="clip")
                rows += np.add.reduceat(values, np.cumsum(drawn) - drawn)
            else:
                rows += _sums_of_short_block(units[low:high], drawn, rng)
    return np.asarray(sums.real / sums.imag)


def _name_units(rng: np.random.Generator, places: NDArray[np.intp]) -> None:
    words = rng.bit_generator.random_raw(-(-places.size // _DRAWS_PER_WORD))
    halves = np.asarray(words, dtype="<u8").view("<u2")[: places.size]
    np.bitwise_and(halves, np.uint16(BLOCK - 1), out=places)


def _sums_of_short_block(
    units: Complexes, drawn: NDArray[np.int64], rng: np.random.Generator
) -> Complexes:
    """The last block may have any size, and a row may draw nothing from it."""
    values = units[rng.integers(0, units.size, int(drawn.sum()))]
    rows = np.repeat(np.arange(drawn.size), drawn)
    sums = np.empty(drawn.size, dtype=np.complex128)
    sums.real = np.bincount(rows, weights=values.real, minlength=drawn.size)
    sums.imag = np.bincount(rows, weights=values.imag, minlength=drawn.size)
    return sums
