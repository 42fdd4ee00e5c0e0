"""Exact-style bounds for the difference of two proportions measured on the same items.

These are the melded bounds of Fay and Lumbard (2021). The share of discordant items and the split
of the discordant items each have a Clopper-Pearson confidence distribution; their product is
bounded. The bounds agree with the exact McNemar test about zero, and with no discordant item at
all they give the "three over n" bound of zero failures in n trials.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]

NODES = 200
BISECTIONS = 48


def drop_bounds(
    lost: int, gained: int, n: int, *, one_sided_alpha: float = 0.05
) -> tuple[float, float]:
    """Lower and upper bound of the drop (lost - gained) / n, each one-sided at alpha.

    Together they are a two-sided interval of level 1 - 2 * alpha.
    """
    if min(lost, gained) < 0 or n < max(1, lost + gained):
        raise InvalidValueError(
            f"lost and gained must be counts within n, got lost={lost}, gained={gained}, n={n}"
        )
    if not 0 < one_sided_alpha < 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5), got {one_sided_alpha}")
    return -_upper(gained, lost, n, one_sided_alpha), _upper(lost, gained, n, one_sided_alpha)


def _upper(lost: int, gained: int, n: int, alpha: float) -> float:
    changed = lost + gained
    if gained == 0:
        return 1.0 if lost == n else float(betaincinv(lost + 1, n - lost, 1 - alpha))
    if betainc(lost + 1, gained, 0.5) <= 1 - alpha:
        low, high = 0.0, 1.0
        rates = _rate_quantiles(changed + 1, n - changed)
    else:
        low, high = -1.0, 0.0
        rates = _rate_quantiles(changed, n - changed + 1)
    _, weights = _gauss_nodes()
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        split = (1 + np.clip(middle / rates, -1, 1)) / 2
        if float(weights @ betainc(lost + 1, gained, split)) < 1 - alpha:
            low = middle
        else:
            high = middle
    return high


def _rate_quantiles(a: int, b: int) -> Floats:
    """The confidence distribution Beta(a, b) of the discordant rate, at the quadrature nodes."""
    nodes, _ = _gauss_nodes()
    return np.ones_like(nodes) if b == 0 else np.asarray(betaincinv(a, b, nodes))


@cache
def _gauss_nodes() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    t = (nodes + 1) / 2
    # Quantile functions bend sharply at 0 and 1; this substitution puts more nodes there.
    return t**2 * (3 - 2 * t), 3 * t * (1 - t) * weights
