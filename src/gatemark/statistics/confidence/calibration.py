"""Calibration of confidences: binned error, isotonic regression and Brier score.

Everything is computed from groups of equal confidence: how many items, how many correct. Groups
from parts of the data add up to the groups of the whole, and sums are exactly rounded, so no answer
depends on how or in what order the data were read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.proportion import wilson_interval

Floats = NDArray[np.float64]


def pool_adjacent_violators(successes: Sequence[int], trials: Sequence[int]) -> Floats:
    """Return the best nondecreasing rates for groups in order, one per group.

    Blocks are compared by cross-multiplied integers, so rounding never decides a pooling.
    """
    if len(successes) != len(trials):
        raise InvalidValueError("isotonic regression needs one count of trials per group")
    blocks: list[tuple[int, int, int]] = []
    for hits, tries in zip(successes, trials, strict=True):
        if not 0 <= hits <= tries or tries == 0:
            raise InvalidValueError(f"{hits} of {tries} is not a rate")
        block = (int(hits), int(tries), 1)
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            before = blocks.pop()
            block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    rates = np.array([hits / tries for hits, tries, _ in blocks], dtype=np.float64)
    return np.repeat(rates, [width for _, _, width in blocks])


Counts = NDArray[np.int64]

DEFAULT_BINS = 15
DEFAULT_TWINS = 200
MIN_BIN_ITEMS = 10
# Keeps a confidence on an edge in the bin below it, whatever its last bit is.
EDGE_TOLERANCE = 1e-9
CHUNK_CELLS = 2**20


class Groups(NamedTuple):
    """Distinct confidences in ascending order, with items and correct items of each."""

    confidence: Floats
    items: Counts
    correct: Counts

    @property
    def total(self) -> int:
        """Total number of items."""
        return int(self.items.sum())


class Bin(msgspec.Struct, frozen=True):
    """One bin (low, high]; rates and the Wilson interval of accuracy are null when it is empty."""

    low: float
    high: float
    n: int
    correct: int
    mean_confidence: float | None
    accuracy: float | None
    interval: tuple[float, float] | None


class Brier(msgspec.Struct, frozen=True):
    """The Brier score and its CORP parts: score = mcb - dsc + unc.

    ``mcb`` is miscalibration (0 is best), ``dsc`` discrimination (more is better), ``unc`` the
    uncertainty of the outcomes themselves.
    """

    score: float
    mcb: float
    dsc: float
    unc: float


class Calibration(msgspec.Struct, frozen=True):
    """All calibration numbers of one set of items.

    ``ece_excess`` is the ECE minus ``twin_ece``, the mean ECE of simulated outcomes that are
    perfectly calibrated at the same confidences; ``twin_p_value`` is how often such a twin looks at
    least as bad.
    """

    n: int
    ece: float
    mce: float
    mce_min10: float | None
    ece_excess: float
    twin_ece: float
    twin_p_value: float
    iso_dev: float
    iso_dev_max: float
    brier: Brier
    bins: tuple[Bin, ...]


def group_items(
    confidence: ArrayLike, correct: ArrayLike, counts: ArrayLike | None = None
) -> Groups:
    """Group items by equal confidence; ``counts`` is how often each row occurs (default: once).

    The groups are all that any number in this module needs: add them up to merge parts.
    """
    c = np.asarray(confidence, dtype=np.float64) + 0.0
    right = np.asarray(correct)
    times = np.ones(c.size, np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    if c.ndim != 1 or right.shape != c.shape or times.shape != c.shape:
        raise InvalidValueError("calibration needs one outcome per confidence")
    if not bool(np.all((c >= 0) & (c <= 1))):
        raise InvalidValueError("every confidence must be inside [0, 1]")
    if not bool(np.all((right == 0) | (right == 1))):
        raise InvalidValueError("every outcome must be true or false")
    levels, codes = np.unique(c, return_inverse=True)
    items, hits = np.zeros(levels.size, np.int64), np.zeros(levels.size, np.int64)
    np.add.at(items, codes, times)
    np.add.at(hits, codes, times * right.astype(np.int64))
    return Groups(levels, items, hits)


def bin_index(confidence: Floats, bins: int = DEFAULT_BINS) -> NDArray[np.intp]:
    """Return the equal-width, right-closed bin of each confidence; zero is in the first."""
    raw: Floats = np.ceil(confidence * bins - EDGE_TOLERANCE) - 1
    return raw.clip(0, bins - 1).astype(np.intp)


def measure_calibration(
    groups: Groups,
    rng: np.random.Generator,
    *,
    bins: int = DEFAULT_BINS,
    twins: int = DEFAULT_TWINS,
) -> Calibration:
    """Return all calibration numbers of ``groups``."""
    if groups.total == 0:
        raise InvalidValueError("calibration of no items is undefined")
    if bins < 1 or twins < 1:
        raise InvalidValueError(f"bins and twins must be >= 1, got {bins} and {twins}")
    table = bin_items(groups, bins)
    gaps = [
        (b.n, abs(b.accuracy - b.mean_confidence))
        for b in table
        if b.accuracy is not None and b.mean_confidence is not None
    ]
    large = [gap for n, gap in gaps if n >= MIN_BIN_ITEMS]
    ece = math.fsum(n * gap for n, gap in gaps) / groups.total
    twin_eces = simulate_twin_eces(groups, rng, bins=bins, twins=twins)
    twin_ece = math.fsum(twin_eces.tolist()) / twins
    fitted = pool_adjacent_violators(groups.correct.tolist(), groups.items.tolist())
    deviations = np.abs(fitted - groups.confidence)
    return Calibration(
        n=groups.total,
        ece=ece,
        mce=max(gap for _, gap in gaps),
        mce_min10=max(large) if large else None,
        ece_excess=ece - twin_ece,
        twin_ece=twin_ece,
        twin_p_value=(1 + int(np.count_nonzero(twin_eces >= ece))) / (1 + twins),
        iso_dev=math.fsum((groups.items * deviations).tolist()) / groups.total,
        iso_dev_max=float(deviations.max()),
        brier=split_brier(groups, fitted),
        bins=table,
    )


def bin_items(groups: Groups, bins: int = DEFAULT_BINS) -> tuple[Bin, ...]:
    """Return count, mean confidence and accuracy of each bin, including empty bins."""
    places = bin_index(groups.confidence, bins)
    weighted = groups.items * groups.confidence
    table = []
    for place in range(bins):
        inside = places == place
        n, correct = int(groups.items[inside].sum()), int(groups.correct[inside].sum())
        table.append(
            Bin(
                low=place / bins,
                high=(place + 1) / bins,
                n=n,
                correct=correct,
                mean_confidence=math.fsum(weighted[inside].tolist()) / n if n else None,
                accuracy=correct / n if n else None,
                interval=wilson_interval(correct, n) if n else None,
            )
        )
    return tuple(table)


def split_brier(groups: Groups, fitted: Floats | None = None) -> Brier:
    """Return the Brier score with its miscalibration, discrimination and uncertainty parts."""
    if fitted is None:
        fitted = pool_adjacent_violators(groups.correct.tolist(), groups.items.tolist())
    base_rate = int(groups.correct.sum()) / groups.total
    score = _compute_brier(groups, groups.confidence)
    recalibrated = _compute_brier(groups, fitted)
    constant = base_rate * (1 - base_rate)
    # The fit is never worse than either, so a negative part can only be rounding.
    return Brier(
        score=score,
        mcb=max(0.0, score - recalibrated),
        dsc=max(0.0, constant - recalibrated),
        unc=constant,
    )


def simulate_twin_eces(
    groups: Groups,
    rng: np.random.Generator,
    *,
    bins: int = DEFAULT_BINS,
    twins: int = DEFAULT_TWINS,
) -> Floats:
    """Return the ECE of ``twins`` simulated outcomes that are perfectly calibrated."""
    places = bin_index(groups.confidence, bins)
    promised = np.bincount(places, weights=groups.items * groups.confidence, minlength=bins)
    hits = np.zeros((twins, bins))
    single = groups.items == 1
    for is_single in (True, False):
        chosen = np.flatnonzero(single == is_single)
        if chosen.size:
            _add_twin_hits(hits, groups, places, chosen, rng)
    return np.asarray(np.abs(hits - promised).sum(axis=1) / groups.total)


def _add_twin_hits(
    hits: Floats,
    groups: Groups,
    places: NDArray[np.intp],
    chosen: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Draw the chosen groups (all single items or all larger groups) and add them to their bins."""
    rate, items = groups.confidence[chosen], groups.items[chosen]
    are_lone = bool(items[0] == 1)
    used, starts = np.unique(places[chosen], return_index=True)
    rows_at_once = max(1, CHUNK_CELLS // chosen.size)
    for start in range(0, hits.shape[0], rows_at_once):
        rows = min(rows_at_once, hits.shape[0] - start)
        if are_lone:
            drawn = (rng.random((rows, chosen.size)) < rate).astype(np.int64)
        else:
            drawn = rng.binomial(items, rate, (rows, chosen.size))
        hits[start : start + rows, used] += np.add.reduceat(drawn, starts, axis=1)


def _compute_brier(groups: Groups, forecast: Floats) -> float:
    wrong = groups.items - groups.correct
    errors = groups.correct * (1 - forecast) ** 2 + wrong * forecast**2
    return math.fsum(errors.tolist()) / groups.total
