"""Sign-flip permutation test: if two models are equal, every paired delta may change its sign."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.mcnemar import mcnemar

Floats = NDArray[np.float64]

EXACT_LIMIT = 16
CHUNK_CELLS = 2**19
BITS_PER_BYTE = 8
# A flipped sum that differs from the observed one by rounding alone is a tie.
TIE_TOLERANCE = 1e-12


class SignFlip(msgspec.Struct, frozen=True):
    """A two-sided p-value; ``resamples`` is 0 when nothing had to be drawn."""

    p_value: float
    changed: int
    resamples: int
    method: Literal["exact", "binomial", "monte_carlo"]
    note: str | None = None


def sign_flip(
    deltas: ArrayLike,
    rng: np.random.Generator,
    *,
    resamples: int = 9_999,
    chunk_cells: int = CHUNK_CELLS,
) -> SignFlip:
    """Two-sided p for a mean delta of zero.

    Deltas of zero stay zero under any flip and are set aside. Deltas of one size make it the exact
    sign test; up to 16 others are enumerated; above that, signs are drawn and the p-value is
    (1 + hits) / (1 + resamples).
    """
    d = np.asarray(deltas, dtype=np.float64)
    if d.ndim != 1 or not bool(np.isfinite(d).all()):
        raise InvalidValueError("deltas must be one list of finite numbers")
    if resamples < 1:
        raise InvalidValueError(f"a permutation test needs >= 1 resamples, got {resamples}")
    d = d[d != 0]
    sizes = np.abs(d)
    if d.size == 0:
        return SignFlip(1.0, 0, 0, "binomial", "no item changed")
    if sizes.min() == sizes.max():
        signs = mcnemar(int((d < 0).sum()), int((d > 0).sum()))
        return SignFlip(signs.p_value, d.size, 0, "binomial")
    bound = abs(float(d.sum())) - TIE_TOLERANCE * float(sizes.sum())
    sums = _nibble_sums(d)
    if d.size <= EXACT_LIMIT:
        words = np.arange(2**d.size, dtype="<u8").reshape(-1, 1)
        return SignFlip(_hits(words, sums, d, bound) / 2**d.size, d.size, 0, "exact")
    hits = 0
    words_per_row = -(-d.size // 64)
    rows_at_once = max(1, chunk_cells // d.size)
    for start in range(0, resamples, rows_at_once):
        rows = min(rows_at_once, resamples - start)
        words = rng.integers(0, 2**64, (rows, words_per_row), dtype=np.uint64).astype("<u8")
        hits += _hits(words, sums, d, bound)
    return SignFlip((1 + hits) / (1 + resamples), d.size, resamples, "monte_carlo")


def _nibble_sums(deltas: Floats) -> tuple[Floats, Floats]:
    """What each half of a byte of drawn bits adds up to, 16 sums per half and byte.

    Looking four bits up at once is faster than multiplying by single bits.
    """
    byte_count = -(-deltas.size // BITS_PER_BYTE)
    padded = np.zeros((byte_count, BITS_PER_BYTE))
    padded.flat[: deltas.size] = deltas
    bits = np.unpackbits(np.arange(16, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    chosen = bits[:, :4].T.astype(np.float64)
    return (padded[:, :4] @ chosen).ravel(), (padded[:, 4:] @ chosen).ravel()


def _hits(
    words: NDArray[np.uint64], sums: tuple[Floats, Floats], deltas: Floats, bound: float
) -> int:
    low, high = sums
    starts = np.arange(0, low.size, 16)
    drawn = words.view(np.uint8)[:, : starts.size]
    picked = low.take(starts + (drawn & 15)) + high.take(starts + (drawn >> 4))
    flipped = 2 * picked.sum(axis=-1) - deltas.sum()
    return int(np.count_nonzero(np.abs(flipped) >= bound))
