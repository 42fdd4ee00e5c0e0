"""A suite's drop by the rules of 0.1.0, for results that were judged by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.packs.answers import AnswerPair
from gatemark.packs.suites.arms import cluster_names, unpaired_reason, unscored_counts
from gatemark.statistics.paired.cluster import mean_estimate
from gatemark.statistics.paired.mcnemar import loss_p_value
from gatemark.statistics.paired.noninferiority import (
    NonInferiority,
    non_inferiority_of_counts,
    non_inferiority_of_deltas,
)

SEED = 20_261_115
"""Fixed, so that the same scores give the same bounds on every run."""


def first_drop(
    lane: str, pairs: Sequence[AnswerPair], *, margin: float, alpha: float
) -> Measurement:
    """How much lower the candidate is than the baseline, with one-sided bounds at ``alpha``."""
    reason = unpaired_reason(pairs)
    if reason is not None:
        return unmeasured("regression", reason, direction="lower_is_better", lane=lane)
    found = _judged(pairs, margin=margin, alpha=alpha)
    if found.drop is None or found.lower is None or found.upper is None:
        return unmeasured("regression", found.reason, direction="lower_is_better", lane=lane)
    interval = Interval(
        low=min(found.lower, found.drop),
        high=max(found.upper, found.drop),
        level=1 - 2 * alpha,
        method=found.method,
    )
    return measured(
        "regression",
        found.drop,
        n=found.n,
        direction="lower_is_better",
        interval=interval,
        excluded=unscored_counts(pairs),
        lane=lane,
    )


def _judged(pairs: Sequence[AnswerPair], *, margin: float, alpha: float) -> NonInferiority:
    candidate = np.array([pair.candidate.mean for pair in pairs])
    baseline = np.array([pair.baseline.mean for pair in pairs])
    clusters = cluster_names([pair.candidate.cluster for pair in pairs])
    if _right_or_wrong(pairs) and clusters is None:
        lost = int(np.sum(baseline > candidate))
        gained = int(np.sum(candidate > baseline))
        return non_inferiority_of_counts(lost, gained, len(pairs), margin=margin, alpha=alpha)
    return non_inferiority_of_deltas(
        candidate - baseline,
        np.random.default_rng(SEED),
        margin=margin,
        alpha=alpha,
        clusters=clusters,
    )


def chance_of_drop(lane: str, pairs: Sequence[AnswerPair]) -> Measurement:
    """The one-sided p-value of a drop: how often equal arms would lose at least as much."""
    name = "drop_p"
    reason = unpaired_reason(pairs)
    if reason is not None:
        return unmeasured(name, reason, direction="neutral", lane=lane)
    clusters = cluster_names([pair.candidate.cluster for pair in pairs])
    if _right_or_wrong(pairs) and clusters is None:
        lost = sum(pair.baseline.mean > pair.candidate.mean for pair in pairs)
        gained = sum(pair.candidate.mean > pair.baseline.mean for pair in pairs)
        p_value = loss_p_value(lost, gained)
    else:
        deltas = np.array([pair.candidate.mean - pair.baseline.mean for pair in pairs])
        estimate = mean_estimate(deltas, clusters)
        two_sided = estimate.p_value()
        if two_sided is None:
            p_value = 1.0 if estimate.mean >= 0 else 0.0
        else:
            p_value = two_sided / 2 if estimate.mean < 0 else 1 - two_sided / 2
    return measured(name, p_value, n=len(pairs), direction="neutral", lane=lane)


def _right_or_wrong(pairs: Sequence[AnswerPair]) -> bool:
    return {mean for pair in pairs for mean in (pair.candidate.mean, pair.baseline.mean)} <= {
        0.0,
        1.0,
    }
