"""How often a pack would pass, fail or stay open, by simulation with a fixed seed.

Items are right or wrong. ``discordance`` is the share of items on which the arms differ; a
candidate that is truly worse by ``drop`` loses that much more than it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import half_width

DRAWS = 4_000
SEED = 16
_LINE = 1e-12


class SuiteDesign(msgspec.Struct, frozen=True):
    """A suite before it ran: its weight, its items and how far it may drop by itself."""

    weight: float
    items: int
    guard: float
    discordance: float


class VerdictRates(NamedTuple):
    """Shares of simulated verdicts."""

    passed: float
    failed: float
    left_open: float


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


def verdict_rates(
    suites: Sequence[SuiteDesign],
    *,
    margin: float,
    drop: float | Sequence[float],
    alpha: float = 0.05,
    draws: int = DRAWS,
    seed: int = SEED,
) -> VerdictRates:
    """The verdicts of a pooled test at the margin with a guard for each suite.

    ``drop`` is the true drop, of every suite alike or one by one. With one suite there is no
    pool: it is judged at the margin.
    """
    drops = [drop] * len(suites) if isinstance(drop, int | float) else list(drop)
    if not suites or len(drops) != len(suites):
        raise InvalidValueError("verdict rates need one true drop for each suite")
    rng = np.random.default_rng(seed)
    weight = sum(suite.weight for suite in suites)
    parts = [
        _simulated(suite, suite.weight / weight, true_drop, draws, rng)
        for suite, true_drop in zip(suites, drops, strict=True)
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
    passed = np.all([part.upper(alpha) <= bound + _LINE for part, bound in claims], axis=0)
    # Holm finds something exactly when the smallest p-value is at most alpha over the claims.
    each = alpha / len(claims)
    failed = np.any([part.lower(each) > bound + _LINE for part, bound in claims], axis=0)
    share = float(passed.mean()), float(failed.mean())
    return VerdictRates(*share, max(0.0, 1 - sum(share)))


def _simulated(
    suite: SuiteDesign, weight: float, drop: float, draws: int, rng: np.random.Generator
) -> _Moments:
    """Moments of ``weight`` times the mean drop."""
    lost = max((suite.discordance + drop) / 2, drop, 0.0)
    gained = max(lost - drop, 0.0)
    if suite.items < 2 or lost + gained > 1 + _LINE:
        raise InvalidValueError(
            f"a simulated suite needs >= 2 items and shares within 1, got {suite.items} items, "
            f"discordance {suite.discordance:g} and drop {drop:g}"
        )
    n, same = suite.items, max(0.0, 1 - lost - gained)
    counts = rng.multinomial(n, [lost, gained, same], size=draws) / n
    mean, square = counts[:, 0] - counts[:, 1], counts[:, 0] + counts[:, 1]
    correction = n / (n - 1)
    second = (square - mean**2) * correction
    third = (mean - 3 * mean * square + 2 * mean**3) * correction**1.5
    return _Moments(
        drop=weight * mean,
        variance=weight**2 * second / n,
        third=weight**3 * third / n**2,
        leverage=weight / n,
        degrees=n - 1,
    )
