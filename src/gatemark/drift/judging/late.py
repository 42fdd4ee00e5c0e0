"""Windows that were written after they had been judged: late, or corrected since."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatemark.drift.judging.cohort import NEVER, Cohort

Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def written(cohort: Cohort, rows: Indices, judged: Indices) -> Bytes:
    """How often each of the latest windows up to a judged one was written, the oldest first.

    Every point and every correction counts one; a byte of it is enough to tell a change. One
    column for each window that a baseline may reach back to.
    """
    places, inside = _places(cohort, rows, judged)
    times = cohort.revision[rows[:, None], np.where(inside, places, 0)]
    return np.where(inside, times & 0xFF, 0).astype(np.uint8)


def first_changed(cohort: Cohort, rows: Indices, judged: Indices, seen: Bytes) -> Indices:
    """The number of the first window that was written since it was seen; NEVER when none was."""
    _, inside = _places(cohort, rows, judged)
    changed = (written(cohort, rows, judged) != seen) & inside
    first = judged - (seen.shape[1] - 1) + np.argmax(changed, axis=1)
    return np.where(changed.any(axis=1), first, NEVER)


def _places(cohort: Cohort, rows: Indices, judged: Indices) -> tuple[Indices, NDArray[np.bool_]]:
    """The columns of the latest windows up to a judged one, and which of them there are."""
    back = np.arange(cohort.watch.span - 1, -1, -1)
    places = cohort.columns - 1 - (cohort.last[rows] - judged)[:, None] - back
    return places, (places >= 0) & (places < cohort.columns) & (judged > NEVER)[:, None]
