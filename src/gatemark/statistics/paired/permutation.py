"""Sign-flip permutation test: if two models are equal, every paired delta may change its sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.significance import mcnemar_test


def signed_rank_p_value(differences: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the signed-rank test for differences around zero.

    Pairs without a difference are left out; None if none is left.
    """
    moved = [difference for difference in differences if difference != 0]
    if not moved:
        return None
    # Importing all of scipy's distributions takes longer than most commands.
    from scipy.stats import wilcoxon  # noqa: PLC0415

    # The exact distribution if ranks are not tied, otherwise the normal one.
    ranks_are_tied = len({abs(difference) for difference in moved}) < len(moved)
    method = "asymptotic" if ranks_are_tied or len(moved) > 50 else "exact"
    return float(wilcoxon(moved, method=method).pvalue)


Floats = NDArray[np.float64]

EXACT_LIMIT = 16
GROUP = 12
_DRAWS_PER_WORD = 4
"""A random word has 64 bits; 16 of them choose among the subsets of a group."""
# A flipped sum that differs from the observed one only by rounding is a tie.
TIE_TOLERANCE = 1e-12


class SignFlip(msgspec.Struct, frozen=True):
    """A two-sided p-value; ``resamples`` is 0 if it is exact."""

    p_value: float
    changed: int
    resamples: int
    method: Literal["exact", "binomial", "monte_carlo"]
    note: str | None = None


def sign_flip(deltas: ArrayLike, rng: np.random.Generator, *, resamples: int = 9_999) -> SignFlip:
    """Return the two-sided p-value for a mean delta of zero.

    Deltas of zero stay zero under any flip and are set aside. Deltas of one size make it the exact
    sign test; up to 16 others are enumerated; above that, signs are drawn and the p-value is (1 +
    hits) / (1 + resamples).
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
        signs = mcnemar_test(int((d < 0).sum()), int((d > 0).sum()))
        return SignFlip(signs.p_value, d.size, 0, "binomial")
    bound = abs(float(d.sum())) - TIE_TOLERANCE * float(sizes.sum())
    total = d.sum()
    if d.size <= EXACT_LIMIT:
        flipped = 2 * _sum_subsets(d) - total
        hits = int(np.count_nonzero(np.abs(flipped) >= bound))
        return SignFlip(hits / 2**d.size, d.size, 0, "exact")
    flipped = 2 * _draw_subset_sums(d, rng, resamples) - total
    hits = int(np.count_nonzero(np.abs(flipped) >= bound))
    return SignFlip((1 + hits) / (1 + resamples), d.size, resamples, "monte_carlo")


def _sum_subsets(values: Floats) -> Floats:
    """Return the sums of all subsets; bit i of the index says whether value i is in."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums, sums + value))
    return sums


def _draw_subset_sums(values: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Return sums of random subsets; twelve values at once are one lookup in 4,096 subset sums."""
    group_count = -(-values.size // GROUP)
    padded = np.zeros((group_count, 2, GROUP // 2))
    padded.flat[: values.size] = values
    bits = np.unpackbits(np.arange(2 ** (GROUP // 2), dtype=np.uint8)[:, None], axis=1)
    halves = padded @ bits[:, : -GROUP // 2 - 1 : -1].T.astype(np.float64)
    sums = np.zeros(resamples)
    picked = np.empty(resamples)
    places = np.empty(resamples, dtype=np.intp)
    for low, high in halves:
        words = rng.bit_generator.random_raw(-(-resamples // _DRAWS_PER_WORD))
        drawn = np.asarray(words, dtype="<u8").view("<u2")[:resamples]
        np.bitwise_and(drawn, np.uint16(2**GROUP - 1), out=places)
        # Indices are always in range; without the mode, numpy would copy before it writes to out.
        sums += np.add.outer(high, low).ravel().take(places, out=picked, mode="clip")
    return sums
