"""The overhead in time, from whole passes or from arms that took turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from gatemark.core.measurement import Interval
from gatemark.plugins.overhead.ratio_interval import (
    Resampling,
    check_columns,
    find_half_width,
    find_ratio_interval,
)


def compare_times(
    bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> tuple[float, Interval | None, str | None]:
    """Return the relative increase of the total time, its interval, and a caveat."""
    before, after = check_columns(bare, guarded)
    overhead = math.fsum(after - before) / math.fsum(before)
    return overhead, *find_ratio_interval(after - before, before, resampling)


TIME_BLOCKS: Final = 20
MIN_TIME_BLOCKS: Final = 4
"""Fewer blocks of time give no interval."""


def compare_groups(
    bare: Sequence[Sequence[float]], guarded: Sequence[Sequence[float]], level: float
) -> tuple[float, Interval | None, str | None]:
    """Return the relative increase of time, its interval, and the reason if there is none.

    Each group of windows was timed twice in each arm, in order of time; its fastest time counts,
    because other load only adds time. Load persists, so neighbouring groups are not independent:
    the interval is a t interval over blocks of time. Blocks have an even number of groups, because
    the order of the arms alternates from group to group.
    """
    before = np.array(bare, dtype=np.float64).min(axis=1)
    after = np.array(guarded, dtype=np.float64).min(axis=1)
    overhead = math.fsum(after - before) / math.fsum(before)
    blocks = min(TIME_BLOCKS, before.size // 2)
    if blocks < MIN_TIME_BLOCKS:
        return overhead, None, f"{before.size} timed groups of windows are too few for an interval"
    starts = [2 * int(pairs[0]) for pairs in np.array_split(np.arange(before.size // 2), blocks)]
    above = np.add.reduceat(after - before, starts)
    below = np.add.reduceat(before, starts)
    half = find_half_width(above, below, level)
    method = f"t over {blocks} blocks of time"
    return overhead, Interval(overhead - half, overhead + half, level, method), None
