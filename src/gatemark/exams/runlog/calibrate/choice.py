"""Choosing one policy among those that hold every constraint.

Three objectives: the first opening early, few openings, large pieces. Those that nobody beats in
all three are the Pareto set; of them the one nearest to the best of all worlds is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Final, Literal

from msgspec import Struct

from gatemark.exams.runlog.calibrate.sweep import PolicySweep, TieBreakWeights, at_share

Method = Literal["pareto_utopia", "weighted_score", "lexicographic"]
FEW: Final = 5
"""With fewer survivors than this, bounds are their extremes and not percentiles."""


class Objective(Struct, frozen=True):
    """Something to be good at: whether less is better, and what difference is none."""

    name: str
    value: Callable[[PolicySweep], float | None]
    less_is_better: bool
    least_range: float


OBJECTIVES: Final = (
    Objective("ttff", lambda found: found.ttff_p50_ms, less_is_better=True, least_range=5.0),
    Objective("flushes", lambda found: found.flushes_mean, less_is_better=True, least_range=2.0),
    Objective("chunk", lambda found: found.chunk_p50, less_is_better=False, least_range=2.0),
)
EXTRAS: Final = (
    Objective("spam", lambda found: found.spam_rate, less_is_better=True, least_range=0.0),
    Objective("wait", lambda found: found.wait_p95_ms, less_is_better=True, least_range=0.0),
)


class Bounds(Struct, frozen=True):
    """Between which values an objective is scaled."""

    low: float
    high: float


class ChosenPolicy(Struct, frozen=True):
    """The chosen policy and how it came to be chosen."""

    chosen: PolicySweep
    method: Method
    bounds: Mapping[str, Bounds]
    dropped: tuple[str, ...]
    pareto: tuple[str, ...]
    distances: Mapping[str, float]
    scores: Mapping[str, float]


def choose(survivors: Sequence[PolicySweep], weights: TieBreakWeights) -> ChosenPolicy | None:
    """The best of the survivors; None when there are none."""
    if not survivors:
        return None
    bounds = {one.name: _bounds(one, survivors) for one in (*OBJECTIVES, *EXTRAS)}
    kept = [one for one in OBJECTIVES if _differs(one, bounds[one.name])]
    dropped = tuple(one.name for one in OBJECTIVES if one not in kept)
    scores = {found.policy.policy_id: _score(found, bounds, weights) for found in survivors}
    known = {name: score for name, score in scores.items() if score is not None}
    distances = {
        found.policy.policy_id: _distance(found, kept, bounds) for found in survivors if kept
    }
    front = pareto_set(survivors, kept) if kept else []
    method: Method
    if front:
        method = "pareto_utopia"
        chosen = min(front, key=lambda one: (distances[one.policy.policy_id], *_ties(one)))
    elif known:
        method = "weighted_score"
        chosen = min(survivors, key=lambda one: (-known[one.policy.policy_id], *_ties(one)))
    else:
        method = "lexicographic"
        chosen = min(survivors, key=_ties)
    return ChosenPolicy(
        chosen=chosen,
        method=method,
        bounds={name: found for name, found in bounds.items() if found is not None},
        dropped=dropped,
        pareto=tuple(one.policy.policy_id for one in front),
        distances=distances,
        scores=known,
    )


def pareto_set(
    survivors: Sequence[PolicySweep], objectives: Sequence[Objective]
) -> list[PolicySweep]:
    """Those that no other is at least as good as everywhere and better somewhere."""
    points = [(found, _costs(found, objectives)) for found in survivors]
    return [
        found for found, mine in points if not any(_dominates(theirs, mine) for _, theirs in points)
    ]


def _costs(found: PolicySweep, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Every objective as something to be small."""
    costs = []
    for one in objectives:
        value = one.value(found)
        worst = float("inf")
        costs.append(worst if value is None else value if one.less_is_better else -value)
    return tuple(costs)


def _dominates(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return left != right and all(a <= b for a, b in zip(left, right, strict=True))


def _bounds(objective: Objective, survivors: Sequence[PolicySweep]) -> Bounds | None:
    values = sorted(v for found in survivors if (v := objective.value(found)) is not None)
    if not values:
        return None
    if len(values) < FEW:
        return Bounds(values[0], values[-1])
    low, high = at_share(values, 0.05), at_share(values, 0.95)
    return None if low is None or high is None else Bounds(low, high)


def _differs(objective: Objective, bounds: Bounds | None) -> bool:
    return bounds is not None and bounds.high - bounds.low >= objective.least_range > 0


def _goodness(found: PolicySweep, objective: Objective, bounds: Bounds) -> float:
    """From 0, as bad as the bad end, to 1, as good as the good end."""
    value = objective.value(found)
    if value is None or bounds.high <= bounds.low:
        return 0.0
    share = min(1.0, max(0.0, (value - bounds.low) / (bounds.high - bounds.low)))
    return 1.0 - share if objective.less_is_better else share


def _distance(
    found: PolicySweep, kept: Sequence[Objective], bounds: Mapping[str, Bounds | None]
) -> float:
    """How far a policy is from being the best in everything at once."""
    gaps = [
        (1.0 - _goodness(found, one, scale)) ** 2
        for one in kept
        if (scale := bounds[one.name]) is not None
    ]
    return sqrt(sum(gaps) / len(gaps))


def _score(
    found: PolicySweep, bounds: Mapping[str, Bounds | None], weights: TieBreakWeights
) -> float | None:
    """The weighted mean over everything that differs at all; None when nothing does."""
    total = whole = 0.0
    for one in (*OBJECTIVES, *EXTRAS):
        scale = bounds[one.name]
        if scale is None or scale.high - scale.low <= 0:
            continue
        weight = getattr(weights, one.name)
        total += weight * _goodness(found, one, scale)
        whole += weight
    return total / whole if whole else None


def _ties(found: PolicySweep) -> tuple[float, float, float, str]:
    """Fewer openings, then larger pieces, then an earlier first one, then the smallest id."""
    chunk = found.chunk_p50 if found.chunk_p50 is not None else float("-inf")
    ttff = found.ttff_p50_ms if found.ttff_p50_ms is not None else float("inf")
    return found.flushes_mean, -chunk, ttff, found.policy.policy_id
