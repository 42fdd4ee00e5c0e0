"""Exact McNemar test for two answers to the same items, and how small an effect n items can show.

``lost`` counts items that were right before and are wrong now, ``gained`` the other way round;
items on which both agree say nothing about the difference and enter only through n.
"""

from __future__ import annotations

import math

import msgspec
from scipy.special import betainc, ndtri

from gatemark.core.errors import InvalidValueError


class McNemar(msgspec.Struct, frozen=True):
    """Two-sided p-values; ``note`` says why a p of 1 rests on nothing, when it does."""

    lost: int
    gained: int
    p_value: float
    mid_p_value: float
    note: str | None = None


def mcnemar(lost: int, gained: int) -> McNemar:
    """The exact two-sided sign test on the discordant items, with its mid-p variant."""
    _refuse_negative(lost, gained)
    if lost + gained == 0:
        return McNemar(lost, gained, 1.0, 1.0, "no discordant items")
    smaller, larger = sorted((lost, gained))
    tail = half_binomial_cdf(smaller, smaller + larger)
    shorter_tail = half_binomial_cdf(smaller - 1, smaller + larger)
    return McNemar(lost, gained, min(1.0, 2 * tail), min(1.0, tail + shorter_tail))


def loss_p_value(lost: int, gained: int) -> float:
    """One-sided exact p for "more was lost than gained"."""
    _refuse_negative(lost, gained)
    return half_binomial_cdf(gained, lost + gained)


def half_binomial_cdf(k: int, n: int) -> float:
    """P(X <= k) for X ~ Binomial(n, 1/2), accurate far into the tail."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return float(betainc(n - k, k + 1, 0.5))


def minimum_detectable_effect(
    n: int, discordant_rate: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest true difference that n pairs show with this power, two-sided at alpha.

    The usual normal approximation with variance ``discordant_rate / n``; a value above
    ``discordant_rate`` means that n is too small to show any difference at all.
    """
    _refuse_bad_design(discordant_rate, alpha, power)
    if n < 1:
        raise InvalidValueError(f"a detectable effect needs n >= 1, got {n}")
    return detectable_effect(math.sqrt(discordant_rate / n), alpha=alpha, power=power)


def detectable_effect(standard_error: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference seen with this power when its estimate has this error."""
    return _z_sum(alpha / 2, power) * standard_error


def non_inferiority_items(
    margin: float, discordant_rate: float, *, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Items needed to show non-inferiority within the margin when the models are equal."""
    _refuse_bad_design(discordant_rate, alpha, power)
    if not 0 < margin < 1:
        raise InvalidValueError(f"margin must be inside (0, 1), got {margin}")
    return math.ceil(_z_sum(alpha, power) ** 2 * discordant_rate / margin**2)


def _z_sum(one_sided_alpha: float, power: float) -> float:
    return float(ndtri(1 - one_sided_alpha) + ndtri(power))


def _refuse_negative(lost: int, gained: int) -> None:
    if lost < 0 or gained < 0:
        raise InvalidValueError(f"counts must be >= 0, got lost={lost}, gained={gained}")


def _refuse_bad_design(discordant_rate: float, alpha: float, power: float) -> None:
    if not 0 < discordant_rate <= 1:
        raise InvalidValueError(f"discordant_rate must be inside (0, 1], got {discordant_rate}")
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise InvalidValueError(f"alpha and power must be inside (0, 1), got {alpha} and {power}")
