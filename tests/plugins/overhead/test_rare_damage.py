"""How often guards with rare damage over the budget pass by interval: computed, not sampled.

The damage of a sample is known by how many of its windows are damaged, so each number of damaged
windows is judged once, and its binomial chance is added up when it passes.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from gatemark.core.policy import judge
from gatemark.plugins.overhead.options import OverheadOptions
from gatemark.plugins.overhead.overhead_exam import OverheadExam, OverheadExamState
from gatemark.plugins.overhead.settings import Override
from gatemark.plugins.overhead.window_numbers import WindowPair

CASES = (
    (30, 1.5, 0.01),
    (200, 1.5, 0.01),
    (460, 1.5, 0.01),
    (460, 1.5, 0.0067),
    (1_000, 1.5, 0.0067),
    (460, 0.5, 0.0201),
    (460, 0.1, 0.1),
)
"""Windows, nats of damage in a damaged window, share of damaged windows."""
LEVEL = 0.05
UNHARMED = 1e-6
"""The shift of other windows, in nats: not 0, which would be a toggle that does nothing."""
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "overhead.md"


def passing(windows: int, damage: float, damaged: int) -> tuple[bool, bool]:
    """Whether the interval alone is within the budget, and whether every rule holds."""
    mode = Override("mode", "interval")
    exam = OverheadExam(OverheadOptions(profile="ci", overrides=(mode,)))
    shifts = [damage] * damaged + [UNHARMED] * (windows - damaged)
    rows = [WindowPair("loss", f"w{at}", 64.0, 2.0, 2.0 + shift) for at, shift in enumerate(shifts)]
    report = exam.finish(OverheadExamState(shard=0, rows={0: rows}))
    numbers = {(number.name, number.scope): number for number in report.measurements}
    held = {rule.id: judge(rule, numbers)[0].verdict == "pass" for rule in exam.policy().rules}
    return held["overhead.quality"], all(held.values())


def pass_rates(windows: int, damage: float, share: float) -> tuple[float, float]:
    """The chance that such guards pass: by the interval alone, and by every rule."""
    alone = whole = 0.0
    for damaged in range(windows + 1):
        by_interval, by_all = passing(windows, damage, damaged)
        chance = float(binom.pmf(damaged, windows, share))
        alone += chance * by_interval
        whole += chance * by_all
        if not by_interval and damaged / windows > share:
            break
    return alone, whole


@pytest.mark.parametrize(("windows", "damage", "share"), CASES)
def test_rare_damage_over_the_budget_passes_in_at_most_five_percent_of_samples(
    windows: int, damage: float, share: float
) -> None:
    assert math.expm1(damage * share) > 0.01
    assert pass_rates(windows, damage, share)[1] <= LEVEL


def test_the_page_states_these_chances() -> None:
    rows = re.findall(
        r"\| ([\d,]+) \| ([\d.]+) nats \| ([\d.]+) % \| [\d.]+ % \| ([\d.]+) % \| (\S+)(?: %)? \|",
        PAGE.read_text(encoding="utf-8"),
    )
    cases = tuple((int(n.replace(",", "")), float(d), float(s) / 100) for n, d, s, *_ in rows)
    assert len(cases) == len(CASES)
    assert np.allclose(cases, CASES)
    for case, (*_, alone, whole) in zip(CASES, rows, strict=True):
        found = pass_rates(*case)
        assert 100 * found[0] == pytest.approx(float(alone), abs=0.06)
        assert (whole == "never") is (found[1] == 0)
        if whole != "never":
            assert 100 * found[1] == pytest.approx(float(whole), abs=0.06)
