"""Several attempts at one item: would one of k succeed, would all of k, did a probe hold.

``pass@k`` is the chance that at least one of k attempts drawn from the n recorded ones is right;
``pass^k`` the chance that all k are. Both are counted over every choice of k out of n, which is
the unbiased estimate; the ratios are exact up to the last division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import comb
from typing import Final, Literal

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.proportion import Estimate

MAX_ATTEMPTS: Final = 10_000
NO_ITEMS: Final = "no items to repeat"

ProbeOutcome = Literal["held", "broken", "undecided"]


def pass_at_k(n: int, right_count: int, k: int) -> Estimate:
    """``1 - C(n - c, k) / C(n, k)``: at least one of k attempts is right."""
    return _of_one(_at_least_one, n, right_count, k)


def pass_hat_k(n: int, right_count: int, k: int) -> Estimate:
    """``C(c, k) / C(n, k)``, also written pass^k: all of k attempts are right."""
    return _of_one(_all, n, right_count, k)


def mean_pass_at_k(items: Iterable[tuple[int, int]], k: int) -> Estimate:
    """The mean of pass@k over items given as (attempts, right ones)."""
    return _mean(_at_least_one, items, k)


def mean_pass_hat_k(items: Iterable[tuple[int, int]], k: int) -> Estimate:
    """The mean of pass^k over items given as (attempts, right ones)."""
    return _mean(_all, items, k)


def probe_outcome(broken_count: int, unscored_count: int, reruns: int, k: int) -> ProbeOutcome:
    """Whether a probe is broken: the attack succeeded in at least ``k`` of ``reruns`` runs.

    Runs without a score decide nothing: where they could have made the difference the probe is
    undecided.
    """
    if not 1 <= k <= reruns:
        raise InvalidValueError(f"k of reruns must be in [1, {reruns}], got {k}")
    if min(broken_count, unscored_count) < 0 or broken_count + unscored_count > reruns:
        raise InvalidValueError(
            f"broken and unscored runs must fit into {reruns} reruns, "
            f"got {broken_count} and {unscored_count}"
        )
    if broken_count >= k:
        return "broken"
    return "held" if broken_count + unscored_count < k else "undecided"


def _at_least_one(n: int, right_count: int, k: int) -> Fraction:
    return 1 - Fraction(comb(n - right_count, k), comb(n, k))


def _all(n: int, right_count: int, k: int) -> Fraction:
    return Fraction(comb(right_count, k), comb(n, k))


_Share = Callable[[int, int, int], Fraction]


def _of_one(share: _Share, n: int, right_count: int, k: int) -> Estimate:
    _check(n, right_count, k)
    if k > n:
        return Estimate(None, f"k must be <= the number of attempts, got k={k}, n={n}")
    return Estimate(float(share(n, right_count, k)))


def _mean(share: _Share, items: Iterable[tuple[int, int]], k: int) -> Estimate:
    total, item_count, short_count = Fraction(0), 0, 0
    known: dict[tuple[int, int], Fraction] = {}
    for n, right_count in items:
        _check(n, right_count, k)
        item_count += 1
        if k > n:
            short_count += 1
            continue
        if (n, right_count) not in known:
            known[n, right_count] = share(n, right_count, k)
        total += known[n, right_count]
    if short_count:
        return Estimate(None, f"{short_count} of {item_count} items have fewer than {k} attempts")
    return Estimate(float(total / item_count)) if item_count else Estimate(None, NO_ITEMS)


def _check(n: int, right_count: int, k: int) -> None:
    if k < 1:
        raise InvalidValueError(f"k must be >= 1, got {k}")
    if not 0 <= n <= MAX_ATTEMPTS:
        raise InvalidValueError(f"attempts must be in [0, {MAX_ATTEMPTS}], got {n}")
    if not 0 <= right_count <= n:
        raise InvalidValueError(f"right attempts must be in [0, {n}], got {right_count}")
