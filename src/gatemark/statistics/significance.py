"""The exact McNemar test, detectable effects, and p-values for several questions.

``lost`` counts items that were right before and are wrong now, ``gained`` the reverse; items on
which both agree say nothing about the difference and count only in n. Adjusted p-values are Holm's
and Benjamini and Hochberg's; looks at growing data share a level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]

NODES = 200
BISECTIONS = 48
SECANTS = 12


def drop_bounds(
    lost: int, gained: int, n: int, *, one_sided_alpha: float = 0.05
) -> tuple[float, float]:
    """Return the bounds of the drop (lost - gained) / n, each one-sided at alpha.

    Together they are a two-sided interval of level 1 - 2 * alpha.
    """
    if min(lost, gained) < 0 or n < max(1, lost + gained):
        raise InvalidValueError(
            f"lost and gained must be counts within n, got lost={lost}, gained={gained}, n={n}"
        )
    if not 0 < one_sided_alpha < 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5), got {one_sided_alpha}")
    return -_find_upper(gained, lost, n, one_sided_alpha), _find_upper(
        lost, gained, n, one_sided_alpha
    )


def _find_upper(lost: int, gained: int, n: int, alpha: float) -> float:
    changed = lost + gained
    if gained == 0:
        return 1.0 if lost == n else float(scipy.special.betaincinv(lost + 1, n - lost, 1 - alpha))
    if scipy.special.betainc(lost + 1, gained, 0.5) <= 1 - alpha:
        low, high = 0.0, 1.0
        rates = _compute_rate_quantiles(changed + 1, n - changed)
    else:
        low, high = -1.0, 0.0
        rates = _compute_rate_quantiles(changed, n - changed + 1)
    _, weights = _make_gauss_nodes()

    def share_at(drop: float) -> float:
        split = (1 + np.clip(drop / rates, -1, 1)) / 2
        return float(weights @ scipy.special.betainc(lost + 1, gained, split))

    drop = (lost - gained) / n
    error = math.sqrt(changed / n - drop**2 + 1 / n**2) / math.sqrt(n)
    below, above = _narrow_interval(share_at, 1 - alpha, drop, error)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle <= below or (middle < above and share_at(middle) < 1 - alpha):
            low = middle
        else:
            high = middle
    return high


def _narrow_interval(
    share_at: Callable[[float], float], share: float, middle: float, error: float
) -> tuple[float, float]:
    """Return a narrow interval in which an increasing share is reached.

    It answers most steps of a bisection in advance, without changing its result. On the normal
    scale the share is nearly a line.
    """
    wanted = float(scipy.special.ndtri(share))
    at, slope, last, last_z = middle + wanted * error, error, middle, 0.0
    for _ in range(SECANTS):
        z = float(scipy.special.ndtri(share_at(at)))
        if not math.isfinite(z) or z == last_z or at == last:
            break
        slope, last, last_z = (at - last) / (z - last_z), at, z
        at += (wanted - z) * slope
        if abs(at - last) <= 1e-8 * error:
            break
    for width in (2.0**-46, 2.0**-40, 2.0**-30):
        if share_at(at - width) < share <= share_at(at + width):
            return at - width, at + width
    return -math.inf, math.inf


def _compute_rate_quantiles(a: int, b: int) -> Floats:
    """Return the confidence distribution Beta(a, b) of the discordant rate at the nodes."""
    nodes, _ = _make_gauss_nodes()
    return np.ones_like(nodes) if b == 0 else np.asarray(scipy.special.betaincinv(a, b, nodes))


@cache
def _make_gauss_nodes() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    t = (nodes + 1) / 2
    # Quantile functions bend sharply at 0 and 1; this substitution puts more nodes there.
    return t**2 * (3 - 2 * t), 3 * t * (1 - t) * weights


class McNemar(msgspec.Struct, frozen=True):
    """Two-sided p-values; ``note`` says why if a p-value of 1 is not based on data."""

    lost: int
    gained: int
    p_value: float
    mid_p_value: float
    note: str | None = None


def mcnemar_test(lost: int, gained: int) -> McNemar:
    """Return the exact two-sided sign test on the discordant items, with its mid-p variant."""
    _refuse_negative(lost, gained)
    if lost + gained == 0:
        return McNemar(lost, gained, 1.0, 1.0, "no discordant items")
    smaller, larger = sorted((lost, gained))
    tail = half_binomial_cdf(smaller, smaller + larger)
    shorter_tail = half_binomial_cdf(smaller - 1, smaller + larger)
    return McNemar(lost, gained, min(1.0, 2 * tail), min(1.0, tail + shorter_tail))


def half_binomial_cdf(k: int, n: int) -> float:
    """Return P(X <= k) for X ~ Binomial(n, 1/2), accurate far into the tail."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return float(scipy.special.betainc(n - k, k + 1, 0.5))


def minimum_detectable_effect(
    n: int, discordant_rate: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Return the smallest true difference that n pairs detect, two-sided at alpha.

    The usual normal approximation with variance ``discordant_rate / n``; a value above
    ``discordant_rate`` means that n is too small to show any difference at all.
    """
    _refuse_bad_design(discordant_rate, alpha, power)
    if n < 1:
        raise InvalidValueError(f"a detectable effect needs n >= 1, got {n}")
    return detectable_effect(math.sqrt(discordant_rate / n), alpha=alpha, power=power)


def detectable_effect(standard_error: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest true difference detected with this power, given its standard error."""
    return _sum_z(alpha / 2, power) * standard_error


def _sum_z(one_sided_alpha: float, power: float) -> float:
    return float(scipy.special.ndtri(1 - one_sided_alpha) + scipy.special.ndtri(power))


def _refuse_negative(lost: int, gained: int) -> None:
    if lost < 0 or gained < 0:
        raise InvalidValueError(f"counts must be >= 0, got lost={lost}, gained={gained}")


def _refuse_bad_design(discordant_rate: float, alpha: float, power: float) -> None:
    if not 0 < discordant_rate <= 1:
        raise InvalidValueError(f"discordant_rate must be inside (0, 1], got {discordant_rate}")
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise InvalidValueError(f"alpha and power must be inside (0, 1), got {alpha} and {power}")


def holm_p_values(p_values: Sequence[float] | Floats) -> Floats:
    """Return Holm's step-down p-values in the given order, for the chance of any false claim."""
    p = _check_p_values(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return _restore_order(stepped, order)


def look_levels(looks: int, alpha: float) -> tuple[float, ...]:
    """Return the level of each of some equally spaced looks at growing data; they sum to alpha.

    They are the increments of the Lan-DeMets spending function that resembles the bounds of O'Brien
    and Fleming: early looks get little, the last one most. Each look may use its increment as its
    own level, however the looks are correlated, because error probabilities at most add up.
    """
    if looks < 1 or not 0 < alpha < 0.5:
        raise InvalidValueError(f"needs a look and alpha inside (0, 0.5), got {looks} and {alpha}")
    shares = np.arange(1, looks) / looks
    spent = 2 * scipy.special.ndtr(scipy.special.ndtri(alpha / 2) / np.sqrt(shares))
    return tuple(np.diff(np.concatenate([[0.0], spent, [alpha]])).tolist())


def benjamini_hochberg_p_values(p_values: Sequence[float] | Floats) -> Floats:
    """Return Benjamini-Hochberg p-values in the given order, for the share of false claims."""
    p = _check_p_values(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (p.size / np.arange(1, p.size + 1))
    return _restore_order(np.minimum.accumulate(scaled[::-1])[::-1], order)


def _check_p_values(p_values: Sequence[float] | Floats) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not bool(np.all((p >= 0) & (p <= 1))):
        raise InvalidValueError("p-values must be one list of numbers inside [0, 1]")
    return p


def _restore_order(adjusted: Floats, order: NDArray[np.intp]) -> Floats:
    out = np.empty_like(adjusted)
    out[order] = np.minimum(adjusted, 1.0)
    return out
