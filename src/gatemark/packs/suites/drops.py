"""Drops between two arms: how large, within which bounds, and how many items would decide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.evidence.rows import Row
from gatemark.gating.decide import ITEMS_NEEDED
from gatemark.packs.answers import AnswerPair
from gatemark.packs.pack import FIRST_RULES
from gatemark.packs.suites.arms import unpaired_reason, unscored_counts
from gatemark.packs.suites.first_rules import chance_of_drop, first_drop
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.paired.score_bound import PooledDrop, Stratum, pooled_drop

HARM_P = "harm_p"
MEASURE_VERSION = 2
METHOD = "score"


class PairedItems(msgspec.Struct, frozen=True):
    """The items of one suite that both arms answered, with what tells them apart."""

    lane: str
    weight: float
    pairs: tuple[AnswerPair, ...]
    rows: tuple[Row, ...]
    largest_drop: float = 1.0


def suite_drop(
    evidence: ArmsEvidence, pairs: tuple[AnswerPair, ...], *, with_chance: bool = True
) -> list[Measurement]:
    """The drop of one suite by the rules that judge it.

    ``with_chance`` asks for the p-value that the first rules gave for all kinds but one.
    """
    spec = evidence.spec
    if evidence.rules == FIRST_RULES:
        chance = [chance_of_drop(spec.id, pairs)] if with_chance else []
        return [*chance, first_drop(spec.id, pairs, margin=evidence.margin, alpha=evidence.alpha)]
    items = PairedItems(spec.id, 1.0, pairs, evidence.rows, spec.largest_drop or 1.0)
    return drop_numbers(
        "regression", spec.id, (items,), margin=evidence.margin, alpha=evidence.alpha
    )


def drop_numbers(
    name: str, lane: str | None, suites: Sequence[PairedItems], *, margin: float, alpha: float
) -> list[Measurement]:
    """The weighted drop over suites: its p-value, the drop itself, and the items it would take."""
    needed = name + ITEMS_NEEDED
    for items in suites:
        reason = unpaired_reason(items.pairs)
        if reason is not None:
            why = reason if lane is not None else f"{items.lane}: {reason}"
            return [
                unmeasured(HARM_P, why, direction="neutral", lane=lane),
                unmeasured(
                    name, why, direction="lower_is_better", version=MEASURE_VERSION, lane=lane
                ),
                unmeasured(needed, why, direction="neutral", unit="count", lane=lane),
            ]
    strata = strata_of(suites)
    found = pooled_drop(strata)
    low, high = found.bounds(alpha)
    counts: dict[str, int] = {}
    for items in suites:
        for how, count in unscored_counts(items.pairs).items():
            counts[how] = counts.get(how, 0) + count
    drop = measured(
        name,
        found.drop,
        n=found.n,
        direction="lower_is_better",
        version=MEASURE_VERSION,
        interval=Interval(
            low=min(low, found.drop),
            high=max(high, found.drop),
            level=1 - 2 * alpha,
            method=METHOD,
        ),
        excluded=counts,
        caveats=_caveats(suites, strata),
        lane=lane,
    )
    chance = measured(
        HARM_P, found.beyond_p_value(margin), n=found.n, direction="neutral", lane=lane
    )
    return [chance, drop, _items_needed(needed, lane, found, margin, alpha)]


def _caveats(suites: Sequence[PairedItems], strata: Sequence[Stratum]) -> tuple[str, ...]:
    return tuple(
        f"{items.lane}: an item moved by more than largest_drop {items.largest_drop:g}, "
        "so 1 is used instead"
        for items, stratum in zip(suites, strata, strict=True)
        if stratum.item_range != stratum.largest_drop
    )


def _items_needed(
    name: str, lane: str | None, found: PooledDrop, margin: float, alpha: float
) -> Measurement:
    """How many items like these would decide, with 80 % power."""
    growth = found.growth_to_decide(margin, alpha)
    if growth is None:
        reason = "the drop lies on the bound, which no number of items settles"
        return unmeasured(name, reason, direction="neutral", n=found.n, unit="count", lane=lane)
    count = max(1, math.ceil(growth * found.n))
    return measured(name, count, n=found.n, direction="neutral", unit="count", lane=lane)


def strata_of(suites: Sequence[PairedItems]) -> list[Stratum]:
    """Suites as strata. Items that share a cluster or an input stand or fall together."""
    keys = [
        _keys(items.lane, pair, row)
        for items in suites
        for pair, row in _with_rows(items.pairs, items.rows)
    ]
    units = joined_units(keys)
    strata, start = [], 0
    for items in suites:
        end = start + len(items.pairs)
        drops = [pair.baseline.mean - pair.candidate.mean for pair in items.pairs]
        strata.append(Stratum(items.weight, np.array(drops), units[start:end], items.largest_drop))
        start = end
    return strata


def _with_rows(
    pairs: Sequence[AnswerPair], rows: Sequence[Row]
) -> Iterable[tuple[AnswerPair, Row | None]]:
    by_id = {row.id: row for row in rows}
    return ((pair, by_id.get(pair.id)) for pair in pairs)


def _keys(lane: str, pair: AnswerPair, row: Row | None) -> tuple[str, ...]:
    cluster = () if pair.candidate.cluster is None else (f"cluster:{pair.candidate.cluster}",)
    if row is None:
        return (*cluster, f"item:{lane}/{pair.id}")
    asked = msgspec.json.encode([row.input, row.extra], order="deterministic").decode()
    return (*cluster, f"input:{asked}")


def joined_units(keys: Sequence[tuple[str, ...]]) -> list[str]:
    """One name per item; items that share a key, also by way of others, share their name."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for first, *others in keys:
        for other in others:
            parent[root(other)] = root(first)
    numbers: dict[str, str] = {}
    return [numbers.setdefault(root(first), str(len(numbers))) for first, *_ in keys]
