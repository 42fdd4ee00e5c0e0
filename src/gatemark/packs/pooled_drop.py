"""The drop over all suites in one test, and the correction for several drops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.policy import MAY_BE_CHANCE_AMONG_CLAIMS
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.questions import make_asked_rows
from gatemark.packs.suite_plugins import find_suite_plugin
from gatemark.packs.suite_spec import RegressionMode
from gatemark.packs.suites.arms import HARM_P, IN_PART, PairedItems, make_missing_drop, measure_drop
from gatemark.packs.suites.suite import ArmsReport
from gatemark.statistics.significance import holm_p_values

POOLED = "bench_regression"
FEWEST_POOLED = 2


def choose_pooled_suites(
    pack: Pack, modes: Mapping[str, RegressionMode], compared: frozenset[str]
) -> frozenset[str]:
    """Return the suites that one test judges together: compared item by item, and with a weight.

    A pool of one would say the same twice; then that suite is judged on its own.
    """
    found = frozenset(
        suite.id
        for suite in pack.suites
        if suite.id in compared
        and suite.dataset is not None
        and suite.weight > 0
        and modes[suite.id] == "non_inferiority"
        and find_suite_plugin(suite).is_paired
    )
    return found if len(found) >= FEWEST_POOLED else frozenset()


def measure_pooled_drop(
    opened: OpenPack, reports: Mapping[str, ArmsReport], pooled: frozenset[str], alpha: float
) -> list[Measurement]:
    """Return the weighted drop over the pooled suites; none if one suite has no drop."""
    if not pooled:
        return []
    pack = opened.pack
    suites = [suite for suite in pack.suites if suite.id in pooled]
    for suite in suites:
        missing = next(
            (n for n in reports[suite.id].measurements if n.name == "regression" and n.reason), None
        )
        if missing is not None:
            return make_missing_drop(POOLED, None, IN_PART(part=suite.id, because=missing.reason))
    items = [
        PairedItems(
            scope=suite.id,
            weight=suite.weight,
            pairs=reports[suite.id].pairs,
            rows=make_asked_rows(suite.kind, opened.snapshots[suite.id].rows),
            largest_drop=suite.largest_drop or 1.0,
        )
        for suite in sorted(suites, key=lambda suite: suite.id)
    ]
    return measure_drop(POOLED, None, items, margin=pack.regression_max, alpha=alpha)


def mark_chance_drops(numbers: Sequence[Measurement], alpha: float) -> tuple[Measurement, ...]:
    """Mark drops that are not significant after correction for the number of drops tested.

    Passing needs no correction: every drop must pass. Failing does, or a pack of many suites would
    fail good candidates more and more often.
    """
    claims = [n for n in numbers if n.name == HARM_P and n.value is not None]
    adjusted = holm_p_values([claim.value or 0.0 for claim in claims])
    doubtful = {
        claim.scope
        for claim, p in zip(claims, adjusted, strict=True)
        if p > alpha >= (claim.value or 0.0)
    }
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, MAY_BE_CHANCE_AMONG_CLAIMS))
        if number.name in {"regression", POOLED}
        and number.scope in doubtful
        and (number.value or 0.0) > 0
        else number
        for number in numbers
    )
