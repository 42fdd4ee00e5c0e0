"""Choose the best valid policy of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Final, Literal

from msgspec import Struct

from gatemark.exams.runlog.calibrate.sweep import PolicySweep, pick_at_share
from gatemark.exams.runlog.calibrate.sweep_config import TieBreakWeights

Method = Literal["pareto_utopia", "weighted_score", "lexicographic"]
FEW: Final = 5
"""Below this number of valid policies, bounds are extremes, not percentiles."""


class Objective(Struct, frozen=True):
    """An objective: its number, whether less is better, and which difference is negligible."""

    name: str
    number: str
    less_is_better: bool = True
    least_range: float = 0.0

    def value(self, found: PolicySweep) -> float | None:
        """Return the number of a policy; None if it was not measured."""
        value: float | None = getattr(found, self.number)
        return value


OBJECTIVES: Final = (
    Objective("ttff", "ttff_p50_ms", least_range=5.0),
    Objective("flushes", "flushes_mean", least_range=2.0),
    Objective("chunk", "chunk_p50", less_is_better=False, least_range=2.0),
)
EXTRAS: Final = (Objective("spam", "spam_rate"), Objective("wait", "wait_p95_ms"))


class Bounds(Struct, frozen=True):
    """The range that an objective is scaled to."""

    low: float
    high: float


class ChosenPolicy(Struct, frozen=True):
    """The chosen policy and why it was chosen."""

    chosen: PolicySweep
    method: Method
    bounds: Mapping[str, Bounds]
    dropped: tuple[str, ...]
    pareto: tuple[str, ...]
    distances: Mapping[str, float]
    scores: Mapping[str, float]


def choose_policy(
    survivors: Sequence[PolicySweep], weights: TieBreakWeights
) -> ChosenPolicy | None:
    """Return the best valid policy, if there is one."""
    if not survivors:
        return None
    bounds = {one.name: _find_bounds(one, survivors) for one in (*OBJECTIVES, *EXTRAS)}
    kept = [one for one in OBJECTIVES if _differs(one, bounds[one.name])]
    dropped = tuple(one.name for one in OBJECTIVES if one not in kept)
    scores = {
        found.policy.policy_id: _weigh_objectives(found, bounds, weights) for found in survivors
    }
    known = {name: score for name, score in scores.items() if score is not None}
    distances = {
        found.policy.policy_id: _measure_distance(found, kept, bounds)
        for found in survivors
        if kept
    }
    front = find_pareto_set(survivors, kept) if kept else []
    method: Method
    if front:
        method = "pareto_utopia"
        chosen = min(front, key=lambda one: (distances[one.policy.policy_id], *_rank_ties(one)))
    elif known:
        method = "weighted_score"
        chosen = min(survivors, key=lambda one: (-known[one.policy.policy_id], *_rank_ties(one)))
    else:
        method = "lexicographic"
        chosen = min(survivors, key=_rank_ties)
    return ChosenPolicy(
        chosen=chosen,
        method=method,
        bounds={name: found for name, found in bounds.items() if found is not None},
        dropped=dropped,
        pareto=tuple(one.policy.policy_id for one in front),
        distances=distances,
        scores=known,
    )


def find_pareto_set(
    survivors: Sequence[PolicySweep], objectives: Sequence[Objective]
) -> list[PolicySweep]:
    """Return the Pareto set."""
    points = [(found, _list_costs(found, objectives)) for found in survivors]
    return [
        found for found, mine in points if not any(_dominates(theirs, mine) for _, theirs in points)
    ]


def _list_costs(found: PolicySweep, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Return every objective as a value to minimise."""
    costs = []
    for one in objectives:
        value = one.value(found)
        worst = float("inf")
        costs.append(worst if value is None else value if one.less_is_better else -value)
    return tuple(costs)


def _dominates(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return left != right and all(a <= b for a, b in zip(left, right, strict=True))


def _find_bounds(objective: Objective, survivors: Sequence[PolicySweep]) -> Bounds | None:
    values = sorted(v for found in survivors if (v := objective.value(found)) is not None)
    if not values:
        return None
    if len(values) < FEW:
        return Bounds(values[0], values[-1])
    low, high = pick_at_share(values, 0.05), pick_at_share(values, 0.95)
    return None if low is None or high is None else Bounds(low, high)


def _differs(objective: Objective, bounds: Bounds | None) -> bool:
    return bounds is not None and bounds.high - bounds.low >= objective.least_range > 0


def _scale_objective(found: PolicySweep, objective: Objective, bounds: Bounds) -> float:
    """Scale an objective from 0 (worst) to 1 (best)."""
    value = objective.value(found)
    if value is None or bounds.high <= bounds.low:
        return 0.0
    share = min(1.0, max(0.0, (value - bounds.low) / (bounds.high - bounds.low)))
    return 1.0 - share if objective.less_is_better else share


def _measure_distance(
    found: PolicySweep, kept: Sequence[Objective], bounds: Mapping[str, Bounds | None]
) -> float:
    """Return the distance of a policy from the best value in every objective."""
    gaps = [
        (1.0 - _scale_objective(found, one, scale)) ** 2
        for one in kept
        if (scale := bounds[one.name]) is not None
    ]
    return sqrt(sum(gaps) / len(gaps))


def _weigh_objectives(
    found: PolicySweep, bounds: Mapping[str, Bounds | None], weights: TieBreakWeights
) -> float | None:
    """Return the weighted mean over objectives that differ; None if none does."""
    total = whole = 0.0
    for one in (*OBJECTIVES, *EXTRAS):
        scale = bounds[one.name]
        if scale is None or scale.high - scale.low <= 0:
            continue
        weight = getattr(weights, one.name)
        total += weight * _scale_objective(found, one, scale)
        whole += weight
    return total / whole if whole else None


def _rank_ties(found: PolicySweep) -> tuple[float, float, float, str]:
    """Return a sort key: fewer flushes, larger pieces, an earlier first one, the smallest id."""
    chunk = found.chunk_p50 if found.chunk_p50 is not None else float("-inf")
    ttff = found.ttff_p50_ms if found.ttff_p50_ms is not None else float("inf")
    return found.flushes_mean, -chunk, ttff, found.policy.policy_id
