"""Slices of a suite: the items that share a tag, each judged as a scope of its own.

Slices with fewer items than ``slice_min_items`` are judged together as ``(other)``. If even these
are too few, a rule on slices is inconclusive. Items without the tag are the slice ``(none)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import (
    NOTHING_ANSWERED,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import LINE_TOLERANCE, WORST_IN
from gatemark.core.reason import Reason, ReasonKind
from gatemark.core.result import Cell, Figure, Table
from gatemark.packs.item_scores import AnswerPair, ItemScore
from gatemark.packs.suite_spec import WORST_SLICE_DROP, WORST_SLICE_SCORE
from gatemark.packs.suites.arms import (
    IN_PART,
    METHOD,
    PairedItems,
    find_unpaired_reason,
    make_strata,
    measure_mean_score,
)
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.clustered_means import PooledDrop, pooled_drop

UNTAGGED: Final = "(none)"
OTHER: Final = "(other)"
DEFAULT_MIN_ITEMS: Final = 20
SCORE: Final = "slice_score"
DROP: Final = "slice_regression"
NO_SUCH_TAG: Final = ReasonKind(
    "no_such_tag", "no item has the tag {tag!r}, so there are no slices by it"
)
SLICE_TOO_SMALL: Final = ReasonKind(
    "slice_too_small",
    "{slice} has {n} items, too few for slice_min_items {needed}; "
    "add items or lower slice_min_items",
)
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


def find_min_items(evidence: ArmsEvidence) -> int:
    """Return how many items a slice needs to be judged on its own."""
    return evidence.spec.slice_min_items or DEFAULT_MIN_ITEMS


def find_slices(
    tag: str, tags: Mapping[str, Sequence[Mapping[str, str]]], least: int
) -> list[Slice]:
    """Return the slices of one tag over items by id; small ones are joined, none dropped.

    An item whose copies have several values of the tag is in the slice of each.
    """
    groups: dict[str, set[str]] = {}
    for name, copies in tags.items():
        for found in copies:
            groups.setdefault(found.get(tag, UNTAGGED), set()).add(name)
    small = [value for value in groups if value != OTHER and len(groups[value]) < least]
    if len(small) > 1 or (small and OTHER in groups):
        for value in small:
            groups.setdefault(OTHER, set()).update(groups.pop(value))
    return [Slice(tag, value, tuple(sorted(ids))) for value, ids in sorted(groups.items())]


def measure_slices(
    evidence: ArmsEvidence, candidate: Items, pairs: Sequence[AnswerPair]
) -> list[Measurement]:
    """Return score and drop of every slice, and the worst of each over all slices of the suite."""
    if not evidence.spec.slices:
        return []
    slices = _find_suite_slices(evidence, candidate)
    scores = [_measure_score(evidence, one, candidate) for one in slices]
    found = [*scores, _find_worst_score(evidence, slices, scores)]
    if evidence.baseline is None:
        return found
    drops = {one.name: _estimate_drop(evidence, one, pairs) for one in slices}
    judged = [one for one in drops.values() if not isinstance(one, Reason)]
    # Several slices could fail, and the one with the smallest p-value decides. Holm's method
    # requires it to be below alpha divided by their number.
    alpha = evidence.alpha / max(1, len(judged))
    numbers = [_measure_drop(evidence, one, drops[one.name], alpha) for one in slices]
    return [*found, *numbers, _find_worst_drop(evidence, slices, numbers)]


def _find_suite_slices(evidence: ArmsEvidence, candidate: Items) -> list[Slice]:
    tags = {name: item.tags for name, item in candidate.items()}
    least = find_min_items(evidence)
    return [
        one for tag in dict.fromkeys(evidence.spec.slices) for one in find_slices(tag, tags, least)
    ]


def _explain_unknown(evidence: ArmsEvidence, numbers: Sequence[Measurement]) -> Reason | None:
    """Return why slices are unknown; a tag that no item has would hide all of them."""
    for tag in evidence.spec.slices:
        if not any(tag in row.tags for row in evidence.rows):
            return NO_SUCH_TAG(tag=tag)
    return next((number.reason for number in numbers if number.value is None), None)


def _name_scope(evidence: ArmsEvidence, one: Slice) -> str:
    return f"{evidence.spec.id}/{one.name}"


def _find_too_small_reason(evidence: ArmsEvidence, one: Slice) -> Reason | None:
    least = find_min_items(evidence)
    if len(one.ids) >= least:
        return None
    return SLICE_TOO_SMALL(slice=one.name, n=len(one.ids), needed=least)


def _measure_score(evidence: ArmsEvidence, one: Slice, candidate: Items) -> Measurement:
    why = _find_too_small_reason(evidence, one)
    scope = _name_scope(evidence, one)
    if why is not None:
        return unmeasured(SCORE, why, direction="higher_is_better", n=len(one.ids), scope=scope)
    return measure_mean_score(SCORE, scope, [candidate[name] for name in one.ids])


def _find_worst_score(
    evidence: ArmsEvidence, slices: Sequence[Slice], scores: Sequence[Measurement]
) -> Measurement:
    scope = evidence.spec.id
    known = [
        (n.value, n, one) for one, n in zip(slices, scores, strict=True) if n.value is not None
    ]
    missing = _explain_unknown(evidence, scores)
    floor = evidence.spec.slice_min
    lowest = min(known, key=lambda found: (found[0], found[2].name), default=None)
    if lowest is None or (missing is not None and (floor is None or lowest[0] >= floor - _NEAR)):
        reason = missing or NOTHING_ANSWERED()
        return unmeasured(WORST_SLICE_SCORE, reason, direction="higher_is_better", scope=scope)
    value, number, one = lowest
    return measured(
        WORST_SLICE_SCORE,
        value,
        n=number.n,
        direction="higher_is_better",
        interval=number.interval,
        caveats=(f"{WORST_IN}{one.name}",),
        scope=scope,
    )


def _estimate_drop(
    evidence: ArmsEvidence, one: Slice, pairs: Sequence[AnswerPair]
) -> PooledDrop | Reason:
    why = _find_too_small_reason(evidence, one)
    if why is not None:
        return why
    ids = set(one.ids)
    chosen = tuple(pair for pair in pairs if pair.id in ids)
    why = find_unpaired_reason(chosen)
    if why is not None:
        return IN_PART(part=one.name, because=why)
    spec = evidence.spec
    items = PairedItems(
        _name_scope(evidence, one), 1.0, chosen, evidence.rows, spec.largest_drop or 1.0
    )
    return pooled_drop(make_strata((items,)))


def _measure_drop(
    evidence: ArmsEvidence, one: Slice, found: PooledDrop | Reason, claim_alpha: float
) -> Measurement:
    """Return the drop in a slice; its lower bound is at the level that all slices share."""
    scope = _name_scope(evidence, one)
    if isinstance(found, Reason):
        return unmeasured(DROP, found, direction="lower_is_better", n=len(one.ids), scope=scope)
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
        scope=scope,
    )


def _find_worst_drop(
    evidence: ArmsEvidence, slices: Sequence[Slice], numbers: Sequence[Measurement]
) -> Measurement:
    """Return the worst ends of all slices: pass if all do, fail if one surely does."""
    scope = evidence.spec.id
    known = [
        (n.interval, n, one)
        for one, n in zip(slices, numbers, strict=True)
        if n.value is not None and n.interval is not None
    ]
    missing = _explain_unknown(evidence, numbers)
    bound = evidence.spec.slice_regression_max
    low = max((interval.low for interval, _, _ in known), default=None)
    if low is None or (missing is not None and (bound is None or low <= bound + _NEAR)):
        reason = missing or NOTHING_ANSWERED()
        return unmeasured(WORST_SLICE_DROP, reason, direction="lower_is_better", scope=scope)
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
        scope=scope,
    )


def make_slice_tables(
    evidence: ArmsEvidence, candidate: Items, baseline: Items
) -> tuple[Figure, ...]:
    """Return both arms by every value of a tag, including those judged together."""
    tables = []
    tags = {name: item.tags for name, item in candidate.items()}
    for tag in evidence.spec.slices:
        rows: list[tuple[Cell, ...]] = [
            (
                one.value,
                len(one.ids),
                _compute_mean(candidate, one.ids),
                _compute_mean(baseline, one.ids),
            )
            for one in find_slices(tag, tags, 0)
        ]
        title = f"{evidence.spec.id} by {tag}"
        columns = (tag, "items", "candidate", "baseline")
        tables.append(Table(title, columns, tuple(rows), len(rows)))
    return tuple(tables)


def _compute_mean(items: Items, names: Sequence[str]) -> float | None:
    known = [items[name].mean for name in names if name in items]
    return round(sum(known) / len(known), 4) if known else None
