"""Compare two sets of scores for the same items: interval, p-value and detectable effect.

Binary answers get the exact McNemar test and the interval that agrees with it, graded scores BCa
and sign flips, clustered items a cluster-robust t with BCa over clusters.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.measurement import Interval
from gatemark.statistics.clustered_means import MeanEstimate, mean_estimate
from gatemark.statistics.paired.permutation import sign_flip
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES, bca_clusters, bca_mean
from gatemark.statistics.significance import (
    detectable_effect,
    drop_bounds,
    mcnemar_test,
    minimum_detectable_effect,
)

ALPHA = 0.05
# Above this many drawn cells (about ten seconds), the mean is close to normal and t is used.
MAX_DRAWN_CELLS = 2_000_000_000


class Comparison(msgspec.Struct, frozen=True):
    """Candidate minus baseline; p-value and mde are null if nothing varies.

    Intervals have level 1 - alpha; ``mde`` is the effect that a two-sided test at alpha detects
    with power 0.8. ``mid_p_value`` exists only for independent binary items.
    """

    delta: float
    interval: Interval | None
    other_intervals: tuple[Interval, ...]
    p_value: float | None
    mid_p_value: float | None
    mde: float | None
    caveats: tuple[str, ...]


def compare_counts(lost: int, gained: int, n: int, *, alpha: float = ALPHA) -> Comparison:
    """Compare binary answers to n independent items."""
    test = mcnemar_test(lost, gained)
    lower, upper = drop_bounds(lost, gained, n, one_sided_alpha=alpha / 2)
    # With no discordant items the rate is unknown, not zero: one more of each kind is assumed.
    rate = (lost + gained) / n if lost + gained else 1 / (n + 2)
    return Comparison(
        delta=(gained - lost) / n,
        interval=Interval(-upper, -lower, 1 - alpha, "melded exact"),
        other_intervals=(),
        p_value=test.p_value,
        mid_p_value=test.mid_p_value,
        mde=minimum_detectable_effect(n, rate, alpha=alpha),
        caveats=() if test.note is None else (test.note,),
    )


def compare_deltas(
    deltas: ArrayLike,
    rng: np.random.Generator,
    *,
    alpha: float = ALPHA,
    resamples: int = DEFAULT_RESAMPLES,
) -> Comparison:
    """Compare graded scores of independent items."""
    estimate = mean_estimate(deltas)
    student = _compute_student_interval(estimate, alpha, "t")
    if estimate.n * resamples > MAX_DRAWN_CELLS:
        return Comparison(
            delta=estimate.mean,
            interval=student,
            other_intervals=(),
            p_value=estimate.p_value(),
            mid_p_value=None,
            mde=_compute_mde(estimate, alpha),
            caveats=(f"{estimate.n} items are too many to resample; t gives interval and p-value",),
        )
    boot = bca_mean(deltas, rng, level=1 - alpha, resamples=resamples)
    flips = sign_flip(deltas, rng, resamples=resamples)
    return Comparison(
        delta=estimate.mean,
        interval=Interval(boot.low, boot.high, 1 - alpha, boot.method),
        other_intervals=() if student is None else (student,),
        p_value=flips.p_value,
        mid_p_value=None,
        mde=_compute_mde(estimate, alpha),
        caveats=tuple(text for text in (boot.reason, flips.note) if text is not None),
    )


def compare_clusters(
    deltas: ArrayLike,
    clusters: Sequence[object] | NDArray[np.generic],
    rng: np.random.Generator,
    *,
    alpha: float = ALPHA,
    resamples: int = DEFAULT_RESAMPLES,
) -> Comparison:
    """Compare scores of any kind if items of one cluster may succeed or fail together."""
    estimate = mean_estimate(deltas, clusters)
    others: tuple[Interval, ...] = ()
    caveats: tuple[str, ...] = ()
    if estimate.clusters < 2:
        caveats = ("one cluster shows no spread, so the delta has no interval",)
    elif estimate.clusters * resamples <= MAX_DRAWN_CELLS:
        boot = bca_clusters(deltas, clusters, rng, level=1 - alpha, resamples=resamples)
        others = (Interval(boot.low, boot.high, 1 - alpha, f"{boot.method} over clusters"),)
        caveats = () if boot.reason is None else (boot.reason,)
    return Comparison(
        delta=estimate.mean,
        interval=_compute_student_interval(estimate, alpha, "cluster-robust t"),
        other_intervals=others,
        p_value=estimate.p_value(),
        mid_p_value=None,
        mde=_compute_mde(estimate, alpha),
        caveats=caveats,
    )


def _compute_student_interval(estimate: MeanEstimate, alpha: float, method: str) -> Interval | None:
    bounds = estimate.bounds(alpha / 2)
    return None if bounds is None else Interval(*bounds, 1 - alpha, method)


def _compute_mde(estimate: MeanEstimate, alpha: float) -> float | None:
    return detectable_effect(estimate.error, alpha=alpha) if estimate.error else None
