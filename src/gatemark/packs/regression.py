"""The drop over all suites of a pack, and how sure one can be of several drops at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from gatemark.core.measurement import Measurement, unmeasured
from gatemark.evidence.rows import Row, Snapshot
from gatemark.gating.decide import ITEMS_NEEDED, MAY_BE_CHANCE, MAY_BE_CHANCE_AMONG_CLAIMS
from gatemark.packs.answers import asked_rows
from gatemark.packs.arms import OpenPack, suite_plugin
from gatemark.packs.pack import FIRST_RULES, Pack, RegressionMode
from gatemark.packs.policy import POOLED
from gatemark.packs.suites.drops import HARM_P, MEASURE_VERSION, PairedItems, drop_numbers
from gatemark.packs.suites.suite import ArmsReport
from gatemark.statistics.multiplicity import holm, look_levels

FEWEST_POOLED = 2


class Look(msgspec.Struct, frozen=True):
    """One of the rounds in which an adaptive pack is asked: the ids due by then, and its level."""

    number: int
    total: int
    alpha: float
    due: dict[str, frozenset[str]]

    @property
    def is_last(self) -> bool:
        """Whether nothing is asked after it."""
        return self.number == self.total

    @property
    def settings(self) -> dict[str, int | float]:
        """What a sealed policy says about it."""
        return {"look": self.number, "looks": self.total, "look_alpha": self.alpha}


def looks_of(
    opened: OpenPack, modes: Mapping[str, RegressionMode], compared: frozenset[str]
) -> tuple[Look, ...]:
    """The looks of an adaptive pack; none where it has nothing to compare item by item.

    Rounds take items of suites whose drop is judged with its noise; all other suites, and those
    that another suite looks at again, are asked in full. The order of items follows from the data
    alone, so that no score can bend it, and items of a cluster come together.
    """
    pack = opened.pack
    if pack.adaptive is None:
        return ()
    sources = {suite.source for suite in pack.suites}
    staged = [
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.id not in sources
        and modes[suite.id] == "non_inferiority"
        and suite_plugin(suite).is_paired
    ]
    if not staged:
        return ()
    order = {name: _order(opened.snapshots[name]) for name in staged}
    total, budget = sum(map(len, order.values())), pack.adaptive.budget
    if budget is not None and budget < total:
        order = {name: ids[: max(1, len(ids) * budget // total)] for name, ids in order.items()}
    whole = {s.id: opened.snapshots[s.id].ids for s in pack.suites if s.dataset is not None}
    count = pack.adaptive.looks
    return tuple(
        Look(
            number=number,
            total=count,
            alpha=alpha,
            due={
                **whole,
                **{
                    name: frozenset(ids[: -(-len(ids) * number // count)])
                    for name, ids in order.items()
                },
            },
        )
        for number, alpha in enumerate(look_levels(count, pack.alpha), start=1)
    )


def _order(snapshot: Snapshot) -> list[str]:
    def place(row: Row) -> tuple[bytes, str]:
        group = f"id:{row.id}" if row.cluster is None else f"cluster:{row.cluster}"
        return hashlib.sha256(f"{snapshot.digest}\x00{group}".encode()).digest(), row.id

    return [row.id for row in sorted(snapshot.rows, key=place)]


def pooled_suites(
    pack: Pack, modes: Mapping[str, RegressionMode], compared: frozenset[str], rules: int
) -> frozenset[str]:
    """The suites that one test judges together: compared item by item, and with a weight.

    A pool of one would say the same twice; then that suite is judged on its own.
    """
    if rules == FIRST_RULES:
        return frozenset()
    found = frozenset(
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.weight > 0
        and modes[suite.id] == "non_inferiority"
        and suite_plugin(suite).is_paired
    )
    return found if len(found) >= FEWEST_POOLED else frozenset()


def pooled_numbers(
    opened: OpenPack, reports: Mapping[str, ArmsReport], pooled: frozenset[str], alpha: float
) -> list[Measurement]:
    """The weighted drop over the pooled suites; one without a drop of its own leaves none."""
    if not pooled:
        return []
    pack = opened.pack
    suites = [suite for suite in pack.suites if suite.id in pooled]
    for suite in suites:
        missing = next(
            (n for n in reports[suite.id].measurements if n.name == "regression" and n.reason), None
        )
        if missing is not None:
            reason = f"{suite.id}: {missing.reason}"
            return [
                unmeasured(HARM_P, reason, direction="neutral"),
                unmeasured(POOLED, reason, direction="lower_is_better", version=MEASURE_VERSION),
                unmeasured(POOLED + ITEMS_NEEDED, reason, direction="neutral", unit="count"),
            ]
    items = [
        PairedItems(
            lane=suite.id,
            weight=suite.weight,
            pairs=reports[suite.id].pairs,
            rows=asked_rows(suite.kind, opened.snapshots[suite.id].rows),
            largest_drop=suite.largest_drop or 1.0,
        )
        for suite in sorted(suites, key=lambda suite: suite.id)
    ]
    return drop_numbers(POOLED, None, items, margin=pack.regression_max, alpha=alpha)


def with_chance(
    numbers: Sequence[Measurement], alpha: float, rules: int
) -> tuple[Measurement, ...]:
    """Mark the drops that are no longer sure once one counts how many were looked at.

    Passing needs no such care: every drop must pass. Failing does, or a pack of many suites would
    fail good candidates ever more often.
    """
    if rules == FIRST_RULES:
        return _first_with_chance(numbers, alpha)
    claims = [n for n in numbers if n.name == HARM_P and n.value is not None]
    adjusted = holm([claim.value or 0.0 for claim in claims])
    doubtful = {
        claim.lane
        for claim, p in zip(claims, adjusted, strict=True)
        if p > alpha >= (claim.value or 0.0)
    }
    return _marked(numbers, {"regression", POOLED}, doubtful, MAY_BE_CHANCE_AMONG_CLAIMS)


def _first_with_chance(numbers: Sequence[Measurement], alpha: float) -> tuple[Measurement, ...]:
    claims = [n for n in numbers if n.name == "drop_p" and n.value is not None]
    adjusted = holm([claim.value or 0.0 for claim in claims])
    doubtful = {claim.lane for claim, p in zip(claims, adjusted, strict=True) if p > alpha}
    return _marked(numbers, {"regression"}, doubtful, MAY_BE_CHANCE)


def _marked(
    numbers: Sequence[Measurement], names: set[str], lanes: set[str | None], caveat: str
) -> tuple[Measurement, ...]:
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, caveat))
        if number.name in names and number.lane in lanes and (number.value or 0.0) > 0
        else number
        for number in numbers
    )
