"""Isotonic regression of yes/no outcomes by pooling adjacent violators, in exact integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]


def pool_adjacent_violators(successes: Sequence[int], trials: Sequence[int]) -> Floats:
    """The best nondecreasing rates for groups in order, one per group.

    Blocks are compared by cross-multiplied integers, so rounding never decides a pooling.
    """
    if len(successes) != len(trials):
        raise InvalidValueError("isotonic regression needs one count of trials per group")
    blocks: list[tuple[int, int, int]] = []
    for hits, tries in zip(successes, trials, strict=True):
        if not 0 <= hits <= tries or tries == 0:
            raise InvalidValueError(f"{hits} of {tries} is no rate")
        block = (int(hits), int(tries), 1)
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    rates = np.array([hits / tries for hits, tries, _ in blocks], dtype=np.float64)
    return np.repeat(rates, [width for _, _, width in blocks])
