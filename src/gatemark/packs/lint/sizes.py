"""Margins that the suites are too small to judge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from gatemark.packs.arms import OpenPack, suite_plugin
from gatemark.packs.lint.report import LintWarning
from gatemark.packs.policy import margin_of, regression_mode
from gatemark.statistics.paired.mcnemar import minimum_detectable_effect, non_inferiority_items
from gatemark.statistics.paired.noninferiority import non_inferiority_of_counts

SMALLEST_MARGIN: Final = 1e-6
ASSUMED_DISCORDANCE: Final = 0.10
"""How often two similar models are taken to differ on an item while nothing is known."""


def least_items(margin: float, alpha: float) -> int | None:
    """The fewest items on which arms that never differ can be shown to be within the margin."""
    if margin < SMALLEST_MARGIN:
        return None
    n = max(1, math.floor(-math.log(alpha) / margin) - 2)
    while non_inferiority_of_counts(0, 0, n, margin=margin, alpha=alpha).outcome != "pass":
        n += 1
    return n


def margin_warnings(opened: OpenPack) -> Iterator[LintWarning]:
    """Margins that the suites are too small to judge."""
    pack = opened.pack
    for number, suite in enumerate(pack.suites):
        if not pack.has_baseline or suite.dataset is None:
            continue
        n, margin = len(opened.snapshots[suite.id].rows), margin_of(pack, suite)
        own = f"$.suites[{number}].regression_max"
        path = "$.regression_max" if suite.regression_max is None else own
        mode = regression_mode(pack, suite, suite_plugin(suite).default_regression)
        if mode != "non_inferiority":
            continue
        least = least_items(margin, pack.alpha)
        if least is None or n < least:
            wish = f"it takes {least}" if least else "no number of items would do"
            yield LintWarning(
                path,
                f"suite {suite.id}: {n} items cannot show that an identical candidate stays within "
                f"regression_max {margin:g} ({wish}); only one that is clearly better could pass"
                "; add items, or raise regression_max",
            )
            continue
        visible = minimum_detectable_effect(n, ASSUMED_DISCORDANCE)
        if margin < visible:
            needed = non_inferiority_items(margin, ASSUMED_DISCORDANCE)
            yield LintWarning(
                path,
                f"suite {suite.id}: regression_max {margin:g} is below the smallest drop that "
                f"{n} items can show ({visible:.3f} at 10 % discordance); about {needed} would do"
                "; add items, or raise regression_max",
            )
