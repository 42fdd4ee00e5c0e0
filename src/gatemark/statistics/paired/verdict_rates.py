"""Simulate how often a pack would pass, fail or stay inconclusive, with a fixed seed.

Items are binary. ``discordance`` is the share of items on which the arms differ; a candidate that
is truly worse by ``drop`` loses that much more than it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import half_width
from gatemark.statistics.significance import look_levels

DRAWS = 4_000
SEED = 16
_LINE = 1e-12


class SuiteDesign(msgspec.Struct, frozen=True):
    """A suite before it ran: its weight, its items and its own margin."""

    weight: float
    items: int
    guard: float
    discordance: float


class AdaptiveRates(NamedTuple):
    """Shares of simulated verdicts, and the mean number of items that each arm was asked."""

    passed: float
    failed: float
    left_open: float
    items: float


class _Moments(NamedTuple):
    drop: NDArray[np.float64]
    variance: NDArray[np.float64]
    third: NDArray[np.float64]
    leverage: float
    degrees: int

    def upper(self, alpha: float) -> NDArray[np.float64]:
        return self.drop + half_width(self.variance, self.third, self.leverage, alpha, self.degrees)

    def lower(self, alpha: float) -> NDArray[np.float64]:
        return self.drop - half_width(
            self.variance, -self.third, self.leverage, alpha, self.degrees
        )


def adaptive_rates(
    suites: Sequence[SuiteDesign],
    *,
    looks: int,
    margin: float,
    drop: float | Sequence[float],
    alpha: float = 0.05,
    draws: int = DRAWS,
) -> AdaptiveRates:
    """Return the verdicts of a pooled test at the margin with a limit for each suite.

    Items are asked in ``looks`` rounds, and the first clear verdict counts. ``drop`` is the true
    drop, the same for every suite or one per suite. A single suite is judged at the margin,
    without a pool.
    """
    drops = [drop] * len(suites) if isinstance(drop, int | float) else list(drop)
    if not suites or len(drops) != len(suites):
        raise InvalidValueError("verdict rates need one true drop for each suite")
    rng = np.random.default_rng(SEED)
    counts = [np.zeros((draws, 3)) for _ in suites]
    asked = [0] * len(suites)
    is_open = np.ones(draws, dtype=bool)
    passed, failed, items = np.zeros(draws, bool), np.zeros(draws, bool), np.zeros(draws)
    for number, level in enumerate(look_levels(looks, alpha), start=1):
        for place, (suite, true_drop) in enumerate(zip(suites, drops, strict=True)):
            due = -(-suite.items * number // looks)
            new = rng.multinomial(due - asked[place], _compute_shares(suite, true_drop), size=draws)
            counts[place] = counts[place] + new
            items += (due - asked[place]) * is_open
            asked[place] = due
        is_pass, is_fail = _decide_verdicts(suites, counts, asked, margin, level)
        failed |= is_open & is_fail
        passed |= is_open & is_pass & ~is_fail
        is_open &= ~(is_pass | is_fail)
    return AdaptiveRates(
        passed=float(passed.mean()),
        failed=float(failed.mean()),
        left_open=max(0.0, 1 - float(passed.mean()) - float(failed.mean())),
        items=float(items.mean()),
    )


def _decide_verdicts(
    suites: Sequence[SuiteDesign],
    counts: Sequence[NDArray[np.float64]],
    asked: Sequence[int],
    margin: float,
    level: float,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    weight = sum(suite.weight for suite in suites)
    parts = [
        _compute_moments(suite.weight / weight, found, n)
        for suite, found, n in zip(suites, counts, asked, strict=True)
    ]
    pool = _Moments(
        drop=np.sum([part.drop for part in parts], axis=0),
        variance=np.sum([part.variance for part in parts], axis=0),
        third=np.sum([part.third for part in parts], axis=0),
        leverage=max(part.leverage for part in parts),
        degrees=sum(part.degrees for part in parts),
    )
    claims = [(pool, margin)]
    if len(suites) > 1:
        # A suite's own drop is its share of the pool over its weight.
        claims += [
            (part, suite.guard * suite.weight / weight)
            for suite, part in zip(suites, parts, strict=True)
        ]
    is_pass = np.all([part.upper(level) <= bound + _LINE for part, bound in claims], axis=0)
    # Holm finds something exactly when the smallest p-value is at most alpha over the claims.
    each = level / len(claims)
    is_fail = np.any([part.lower(each) > bound + _LINE for part, bound in claims], axis=0)
    return is_pass, is_fail


def _compute_shares(suite: SuiteDesign, drop: float) -> list[float]:
    """Return the probabilities that an item is lost, gained or unchanged."""
    lost = max((suite.discordance + drop) / 2, drop, 0.0)
    gained = max(lost - drop, 0.0)
    if suite.items < 2 or lost + gained > 1 + _LINE:
        raise InvalidValueError(
            f"a simulated suite needs >= 2 items and shares within 1, got {suite.items} items, "
            f"discordance {suite.discordance:g} and drop {drop:g}"
        )
    return [lost, gained, max(0.0, 1 - lost - gained)]


def _compute_moments(weight: float, counts: NDArray[np.float64], n: int) -> _Moments:
    """Return the moments of ``weight`` times the mean drop of n items."""
    shares = counts / n
    mean, square = shares[:, 0] - shares[:, 1], shares[:, 0] + shares[:, 1]
    correction = n / (n - 1) if n > 1 else 1.0
    second = (square - mean**2) * correction
    third = (mean - 3 * mean * square + 2 * mean**3) * correction**1.5
    return _Moments(
        drop=weight * mean,
        variance=weight**2 * second / n,
        third=weight**3 * third / n**2,
        leverage=weight / n,
        degrees=max(n - 1, 1),
    )
