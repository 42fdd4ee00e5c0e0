"""The drop over all suites of a pack, and how sure one can be of several drops at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gatemark.core.measurement import Measurement, unmeasured
from gatemark.gating.decide import ITEMS_NEEDED, MAY_BE_CHANCE, MAY_BE_CHANCE_AMONG_CLAIMS
from gatemark.packs.answers import asked_rows
from gatemark.packs.arms import OpenPack, suite_plugin
from gatemark.packs.pack import FIRST_RULES, Pack, RegressionMode
from gatemark.packs.policy import POOLED
from gatemark.packs.suites.drops import HARM_P, MEASURE_VERSION, PairedItems, drop_numbers
from gatemark.packs.suites.suite import ArmsReport
from gatemark.statistics.multiplicity import holm

FEWEST_POOLED = 2


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
    opened: OpenPack, reports: Mapping[str, ArmsReport], pooled: frozenset[str]
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
    return drop_numbers(POOLED, None, items, margin=pack.regression_max, alpha=pack.level)


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
