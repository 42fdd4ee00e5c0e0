"""Slices of a suite: the items that share a tag, each judged as a lane of its own.

Slices with fewer items than ``slice_min_items`` are judged together as ``(other)``. If even these
are too few, a rule on slices is inconclusive. Items without the tag are the slice ``(none)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.policy import LINE_TOLERANCE, WORST_IN
from gatemark.core.result import Cell, Figure, Table
from gatemark.packs.answers import AnswerPair, ItemScore
from gatemark.packs.pack import FIRST_RULES, WORST_SLICE_DROP, WORST_SLICE_SCORE
from gatemark.packs.suites.arms import METHOD, PairedItems, mean_score, strata_of, unpaired_reason
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.clustered_means import PooledDrop, pooled_drop

UNTAGGED: Final = "(none)"
OTHER: Final = "(other)"
DEFAULT_MIN_ITEMS: Final = 20
SCORE: Final = "slice_score"
DROP: Final = "slice_regression"
_NEAR: Final = 2 * LINE_TOLERANCE
"""The gate's tolerance at a limit must not hide that another slice is too small."""

Items = Mapping[str, ItemScore]


class Slice(msgspec.Struct, frozen=True):
    """The items that share the value of a tag."""

    tag: str
    value: str
    ids: tuple[str, ...]

    @property
    def name(self) -> str:
        """The slice as ``tag=value``."""
        return f"{self.tag}={self.value}"


def min_items(evidence: ArmsEvidence) -> int:
    """Return how many items a slice needs to be judged on its own."""
    return evidence.spec.slice_min_items or DEFAULT_MIN_ITEMS


def slices_of(tag: str, tags: Mapping[str, Mapping[str, str]], least: int) -> list[Slice]:
    """Return the slices of one tag over items by id; small ones are joined, none dropped."""
    groups: dict[str, list[str]] = {}
    for name, found in tags.items():
        groups.setdefault(found.get(tag, UNTAGGED), []).append(name)
    small = [value for value in groups if value != OTHER and len(groups[value]) < least]
    if len(small) > 1 or (small and OTHER in groups):
        for value in small:
            groups.setdefault(OTHER, []).extend(groups.pop(value))
    return [Slice(tag, value, tuple(sorted(ids))) for value, ids in sorted(groups.items())]


def slice_numbers(
    evidence: ArmsEvidence, candidate: Items, pairs: Sequence[AnswerPair]
) -> list[Measurement]:
    """Return score and drop of every slice, and the worst of each over all slices of the suite."""
    if not evidence.spec.slices or evidence.rules == FIRST_RULES:
        return []
    slices = _slices(evidence, candidate)
    scores = [_score(evidence, one, candidate) for one in slices]
    found = [*scores, _worst_score(evidence, slices, scores)]
    if evidence.baseline is None:
        return found
    drops = {one.name: _drop(evidence, one, pairs) for one in slices}
    judged = [one for one in drops.values() if not isinstance(one, str)]
    # Several slices could fail, and the one with the smallest p-value decides. Holm's method
    # requires it to be below alpha divided by their number.
    alpha = evidence.alpha / max(1, len(judged))
    numbers = [_drop_number(evidence, one, drops[one.name], alpha) for one in slices]
    return [*found, *numbers, _worst_drop(evidence, slices, numbers)]


def _slices(evidence: ArmsEvidence, candidate: Items) -> list[Slice]:
    tags = {name: item.tags for name, item in candidate.items()}
    least = min_items(evidence)
    return [
        one for tag in dict.fromkeys(evidence.spec.slices) for one in slices_of(tag, tags, least)
    ]


def _missing(evidence: ArmsEvidence, numbers: Sequence[Measurement]) -> str | None:
    """Return why slices are unknown; a tag that no item has would hide all of them."""
    for tag in evidence.spec.slices:
        if not any(tag in row.tags for row in evidence.rows):
            return f"no item has the tag {tag!r}, so there are no slices by it"
    return next((number.reason for number in numbers if number.value is None), None)


def _lane(evidence: ArmsEvidence, one: Slice) -> str:
    return f"{evidence.spec.id}/{one.name}"


def _too_small(evidence: ArmsEvidence, one: Slice) -> str | None:
    least = min_items(evidence)
    if len(one.ids) >= least:
        return None
    return (
        f"{one.name} has {len(one.ids)} items, too few for slice_min_items {least}; "
        "add items or lower slice_min_items"
    )


def _score(evidence: ArmsEvidence, one: Slice, candidate: Items) -> Measurement:
    why = _too_small(evidence, one)
    lane = _lane(evidence, one)
    if why is not None:
        return unmeasured(SCORE, why, direction="higher_is_better", n=len(one.ids), lane=lane)
    return mean_score(SCORE, lane, [candidate[name] for name in one.ids])


def _worst_score(
    evidence: ArmsEvidence, slices: Sequence[Slice], scores: Sequence[Measurement]
) -> Measurement:
    lane = evidence.spec.id
    known = [
        (n.value, n, one) for one, n in zip(slices, scores, strict=True) if n.value is not None
    ]
    missing = _missing(evidence, scores)
    floor = evidence.spec.slice_min
    lowest = min(known, key=lambda found: (found[0], found[2].name), default=None)
    if lowest is None or (missing is not None and (floor is None or lowest[0] >= floor - _NEAR)):
        reason = missing or "no items were answered"
        return unmeasured(WORST_SLICE_SCORE, reason, direction="higher_is_better", lane=lane)
    value, number, one = lowest
    return measured(
        WORST_SLICE_SCORE,
        value,
        n=number.n,
        direction="higher_is_better",
        interval=number.interval,
        caveats=(f"{WORST_IN}{one.name}",),
        lane=lane,
    )


def _drop(evidence: ArmsEvidence, one: Slice, pairs: Sequence[AnswerPair]) -> PooledDrop | str:
    why = _too_small(evidence, one)
    if why is not None:
        return why
    ids = set(one.ids)
    chosen = tuple(pair for pair in pairs if pair.id in ids)
    why = unpaired_reason(chosen)
    if why is not None:
        return f"{one.name}: {why}"
    spec = evidence.spec
    items = PairedItems(_lane(evidence, one), 1.0, chosen, evidence.rows, spec.largest_drop or 1.0)
    return pooled_drop(strata_of((items,)))


def _drop_number(
    evidence: ArmsEvidence, one: Slice, found: PooledDrop | str, claim_alpha: float
) -> Measurement:
    """Return the drop in a slice; its lower bound is at the level that all slices share."""
    lane = _lane(evidence, one)
    if isinstance(found, str):
        return unmeasured(DROP, found, direction="lower_is_better", n=len(one.ids), lane=lane)
    low, _ = found.bounds(claim_alpha)
    _, high = found.bounds(evidence.alpha)
    return measured(
        DROP,
        found.drop,
        n=found.n,
        direction="lower_is_better",
        interval=Interval(
            low=min(low, found.drop),
            high=max(high, found.drop),
            level=1 - evidence.alpha - claim_alpha,
            method=METHOD,
        ),
        lane=lane,
    )


def _worst_drop(
    evidence: ArmsEvidence, slices: Sequence[Slice], numbers: Sequence[Measurement]
) -> Measurement:
    """Return the worst ends of all slices: pass if all do, fail if one surely does."""
    lane = evidence.spec.id
    known = [
        (n.interval, n, one)
        for one, n in zip(slices, numbers, strict=True)
        if n.value is not None and n.interval is not None
    ]
    missing = _missing(evidence, numbers)
    bound = evidence.spec.slice_regression_max
    low = max((interval.low for interval, _, _ in known), default=None)
    if low is None or (missing is not None and (bound is None or low <= bound + _NEAR)):
        reason = missing or "no items were answered"
        return unmeasured(WORST_SLICE_DROP, reason, direction="lower_is_better", lane=lane)
    # Names the slice that fails, or else the one that is furthest from passing.
    fails = bound is not None and low > bound + _NEAR
    interval, number, one = max(
        known, key=lambda found: (found[0].low if fails else found[0].high, found[2].name)
    )
    return measured(
        WORST_SLICE_DROP,
        number.value or 0.0,
        n=number.n,
        direction="lower_is_better",
        interval=interval,
        caveats=(f"{WORST_IN}{one.name}",),
        lane=lane,
    )


def slice_tables(evidence: ArmsEvidence, candidate: Items, baseline: Items) -> tuple[Figure, ...]:
    """Return both arms by every value of a tag, including those judged together."""
    tables = []
    tags = {name: item.tags for name, item in candidate.items()}
    for tag in evidence.spec.slices:
        rows: list[tuple[Cell, ...]] = [
            (one.value, len(one.ids), _mean_of(candidate, one.ids), _mean_of(baseline, one.ids))
            for one in slices_of(tag, tags, 0)
        ]
        title = f"{evidence.spec.id} by {tag}"
        columns = (tag, "items", "candidate", "baseline")
        tables.append(Table(title, columns, tuple(rows), len(rows)))
    return tuple(tables)


def _mean_of(items: Items, names: Sequence[str]) -> float | None:
    known = [items[name].mean for name in names if name in items]
    return round(sum(known) / len(known), 4) if known else None
