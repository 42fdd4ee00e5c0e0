"""What two sets of scores for the same items say: interval, p-value and detectable effect.

Right or wrong answers get the exact McNemar test and the interval that agrees with it, graded
scores BCa and sign flips, clustered items a cluster-robust t with BCa over clusters beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.measurement import Interval
from gatemark.statistics.bootstrap import DEFAULT_RESAMPLES, bca_clusters, bca_mean
from gatemark.statistics.cluster import MeanEstimate, mean_estimate
from gatemark.statistics.mcnemar import detectable_effect, mcnemar, minimum_detectable_effect
from gatemark.statistics.paired_proportion import drop_bounds
from gatemark.statistics.permutation import sign_flip

LEVEL = 0.95
# Above this many drawn cells (about ten seconds) a mean is normal anyway and t takes over.
MAX_DRAWN_CELLS = 2_000_000_000


class Comparison(msgspec.Struct, frozen=True):
    """Candidate minus baseline; p-value and mde are null where nothing shows any spread.

    ``mid_p_value`` exists only for independent items that are right or wrong.
    """

    delta: float
    interval: Interval | None
    other_intervals: tuple[Interval, ...]
    p_value: float | None
    mid_p_value: float | None
    mde: float | None
    caveats: tuple[str, ...]


def compare_counts(lost: int, gained: int, n: int) -> Comparison:
    """Right or wrong answers to n independent items."""
    test = mcnemar(lost, gained)
    lower, upper = drop_bounds(lost, gained, n, one_sided_alpha=(1 - LEVEL) / 2)
    # With nothing discordant the rate is unknown, not zero: one more item of each kind is assumed.
    rate = (lost + gained) / n if lost + gained else 1 / (n + 2)
    return Comparison(
        delta=(gained - lost) / n,
        interval=Interval(-upper, -lower, LEVEL, "melded exact"),
        other_intervals=(),
        p_value=test.p_value,
        mid_p_value=test.mid_p_value,
        mde=minimum_detectable_effect(n, rate),
        caveats=() if test.note is None else (test.note,),
    )


def compare_deltas(
    deltas: ArrayLike, rng: np.random.Generator, *, resamples: int = DEFAULT_RESAMPLES
) -> Comparison:
    """Graded scores of independent items."""
    estimate = mean_estimate(deltas)
    student = _student(estimate, "t")
    if estimate.n * resamples > MAX_DRAWN_CELLS:
        return Comparison(
            delta=estimate.mean,
            interval=student,
            other_intervals=(),
            p_value=estimate.p_value(),
            mid_p_value=None,
            mde=_mde(estimate),
            caveats=(f"{estimate.n} items are too many to resample; t gives interval and p-value",),
        )
    boot = bca_mean(deltas, rng, level=LEVEL, resamples=resamples)
    flips = sign_flip(deltas, rng, resamples=resamples)
    return Comparison(
        delta=estimate.mean,
        interval=Interval(boot.low, boot.high, LEVEL, boot.method),
        other_intervals=() if student is None else (student,),
        p_value=flips.p_value,
        mid_p_value=None,
        mde=_mde(estimate),
        caveats=tuple(text for text in (boot.reason, flips.note) if text is not None),
    )


def compare_clusters(
    deltas: ArrayLike,
    clusters: Sequence[object] | NDArray[np.generic],
    rng: np.random.Generator,
    *,
    resamples: int = DEFAULT_RESAMPLES,
) -> Comparison:
    """Scores of any kind when items of one cluster may succeed or fail together."""
    estimate = mean_estimate(deltas, clusters)
    others: tuple[Interval, ...] = ()
    caveats: tuple[str, ...] = ()
    if estimate.clusters < 2:
        caveats = ("one cluster shows no spread, so the delta has no interval",)
    elif estimate.clusters * resamples <= MAX_DRAWN_CELLS:
        boot = bca_clusters(deltas, clusters, rng, level=LEVEL, resamples=resamples)
        others = (Interval(boot.low, boot.high, LEVEL, f"{boot.method} over clusters"),)
        caveats = () if boot.reason is None else (boot.reason,)
    return Comparison(
        delta=estimate.mean,
        interval=_student(estimate, "cluster-robust t"),
        other_intervals=others,
        p_value=estimate.p_value(),
        mid_p_value=None,
        mde=_mde(estimate),
        caveats=caveats,
    )


def _student(estimate: MeanEstimate, method: str) -> Interval | None:
    bounds = estimate.bounds((1 - LEVEL) / 2)
    return None if bounds is None else Interval(*bounds, LEVEL, method)


def _mde(estimate: MeanEstimate) -> float | None:
    return detectable_effect(estimate.error) if estimate.error else None
