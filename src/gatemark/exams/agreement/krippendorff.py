"""Agreement of any number of raters: Krippendorff's alpha for nominal labels.

An item is one tuple of ratings, a label or ``None`` for each rater who did not rate it.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.statistics.contingency import (
    Counts,
    affordable_resamples,
    multinomial_bootstrap,
    nominal_alpha,
    nominal_alpha_each,
)

BOOTSTRAP_SEED = 20_261_102
"""Fixed, so that the same counts give the same interval on every run."""
LEVEL = 0.95
MAX_LABELS = 256
"""More distinct labels than this are free text, not categories."""
MAX_PATTERNS = 2**16
"""A bound on memory: a pattern is kept once, however many items share it."""

_Pattern = tuple[tuple[str, int], ...]
_Item = tuple[str | None, ...]


class KrippendorffState(msgspec.Struct):
    """How many items got each pattern of ratings: the sorted labels with their numbers."""

    patterns: dict[_Pattern, int] = {}


@lru_cache(maxsize=4096)
def _pattern_of(item: _Item) -> _Pattern:
    return tuple(sorted(Counter(label for label in item if label is not None).items()))


def _step(state: KrippendorffState, batch: Batch) -> KrippendorffState:
    """Count a batch into ``state`` itself: a copy would cost more than the counting."""
    patterns = state.patterns
    known_count = len(patterns)
    for item, count in Counter(batch).items():
        pattern = _pattern_of(item)
        patterns[pattern] = patterns.get(pattern, 0) + count
    return _bounded(state, known_count)


def _merge(left: KrippendorffState, right: KrippendorffState) -> KrippendorffState:
    patterns = left.patterns.copy()
    for pattern, count in right.patterns.items():
        patterns[pattern] = patterns.get(pattern, 0) + count
    return _bounded(KrippendorffState(patterns), len(left.patterns))


def _bounded(state: KrippendorffState, known_count: int) -> KrippendorffState:
    pattern_count = len(state.patterns)
    if pattern_count == known_count:
        return state
    if pattern_count > MAX_PATTERNS:
        raise BadInputError(
            f"krippendorff takes at most {MAX_PATTERNS} rating patterns, got {pattern_count}"
        )
    label_count = len(_labels(state.patterns))
    if label_count > MAX_LABELS:
        raise BadInputError(f"krippendorff takes at most {MAX_LABELS} labels, got {label_count}")
    return state


def _labels(patterns: dict[_Pattern, int]) -> set[str]:
    return {label for pattern in patterns for label, _ in pattern}


def _finish(state: KrippendorffState) -> tuple[Measurement, ...]:
    patterns = {
        pattern: count
        for pattern, count in sorted(state.patterns.items())
        if sum(uses for _, uses in pattern) >= 2
    }
    n = sum(patterns.values())
    unpaired_count = sum(state.patterns.values()) - n
    excluded = {"fewer_than_two_ratings": unpaired_count} if unpaired_count else {}
    units, unit_counts = _matrix(patterns)
    alpha = nominal_alpha(units, unit_counts)
    if alpha.value is None:
        return (
            unmeasured(
                "krippendorff_alpha",
                str(alpha.reason),
                n=n,
                direction="higher_is_better",
                excluded=excluded,
            ),
        )
    bootstrap = multinomial_bootstrap(
        unit_counts,
        lambda draws: nominal_alpha_each(draws, units),
        resamples=affordable_resamples(unit_counts),
        seed=BOOTSTRAP_SEED,
        level=LEVEL,
    )
    return (
        measured(
            "krippendorff_alpha",
            alpha.value,
            n=n,
            direction="higher_is_better",
            interval=bootstrap.interval,
            excluded=excluded,
            caveats=bootstrap.caveats,
        ),
    )


def _matrix(patterns: dict[_Pattern, int]) -> tuple[Counts, Counts]:
    """Patterns by categories, and the number of items behind each pattern."""
    position = {label: index for index, label in enumerate(sorted(_labels(patterns)))}
    units = np.zeros((len(patterns), len(position)), dtype=np.int64)
    for row, pattern in enumerate(patterns):
        for label, uses in pattern:
            units[row, position[label]] = uses
    return units, np.array(list(patterns.values()), dtype=np.int64)


MEASURE: Measure[KrippendorffState] = Measure(
    name="krippendorff",
    summary="Krippendorff's alpha: agreement of two or more raters, with missing ratings allowed.",
    state=KrippendorffState,
    zero=KrippendorffState,
    step=_step,
    merge=_merge,
    counted=True,
    finish=_finish,
    gives=("krippendorff_alpha",),
    known=(
        KnownAnswer(
            title=(
                "AA AA BB AB: 8 ratings, 5 A and 3 B; observed 2, expected 5*3 + 3*5 = 30; "
                "alpha = 1 - 7*2/30"
            ),
            batch=(("A", "A"), ("A", "A"), ("B", "B"), ("A", "B")),
            expected={"krippendorff_alpha": 1 - 14 / 30},
        ),
        KnownAnswer(
            title=(
                "AAB BB. A..: the last has no pair; 5 ratings, 2 A and 3 B; "
                "observed (2*1 + 1*2)/2 = 2, expected 2*3 + 3*2 = 12; alpha = 1 - 4*2/12"
            ),
            batch=(("A", "A", "B"), ("B", "B", None), ("A", None, None)),
            expected={"krippendorff_alpha": 1 / 3},
        ),
        KnownAnswer(
            title="full agreement on two labels: observed disagreement 0, alpha = 1",
            batch=(("A", "A"), ("B", "B")),
            expected={"krippendorff_alpha": 1.0},
        ),
        KnownAnswer(
            title="one label only: expected disagreement 0, alpha is 0/0 and has a reason",
            batch=(("A", "A"), ("A", "A", "A")),
            expected={"krippendorff_alpha": None},
        ),
        KnownAnswer(
            title="nobody rated the same item: no pair, no alpha",
            batch=(("A", None), (None, "B"), (None, None)),
            expected={"krippendorff_alpha": None},
        ),
    ),
)
