"""Compare two arms window by window, valid however often one looks.

Each window gives a difference of means between arms that ran at the same time, so that what both
saw in that window cancels out. The differences are added up with weights that depend on the counts
only. Under "no harm" the sum has no drift, and a mixture over positive drifts of its likelihood
ratio is a supermartingale: it exceeds 1/alpha at any time with probability at most alpha (Ville).
Variances are estimated, so the level holds for large samples, not exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.errors import InvalidValueError


class SampleRatio(msgspec.Struct, frozen=True):
    """The evidence that traffic was not split as intended.

    ``p_value`` is from the chi-square test, valid for a single look; ``log_e_value`` is valid
    however often one looks.
    """

    log_e_value: float
    p_value: float


def sample_ratio(canary: int, baseline: int, expected_share: float = 0.5) -> SampleRatio:
    """Test how ``canary`` of ``canary + baseline`` fits an expected share.

    The e-value is a uniform (Beta(1, 1)) mixture over all other shares.
    """
    if min(canary, baseline) < 0:
        raise InvalidValueError(f"counts must be >= 0, got {canary}, {baseline}")
    if not 0 < expected_share < 1:
        raise InvalidValueError(f"a share must be inside (0, 1), got {expected_share}")
    total = canary + baseline
    if total == 0:
        return SampleRatio(0.0, 1.0)
    log_mixture = math.lgamma(canary + 1) + math.lgamma(baseline + 1) - math.lgamma(total + 2)
    log_expected = canary * math.log(expected_share) + baseline * math.log1p(-expected_share)
    gap = canary - total * expected_share
    chi_square = gap * gap / (total * expected_share * (1 - expected_share))
    return SampleRatio(log_mixture - log_expected, math.erfc(math.sqrt(chi_square / 2)))


MIN_EVENTS: Final = 10
"""With fewer events of the rarer outcome, a 0/1 metric is too far from normal to report harm."""


class ArmMoments(msgspec.Struct, frozen=True):
    """Count, sum and sum of squares of a sample."""

    n: int
    sum: float
    sum_squares: float


class ArmPair(msgspec.Struct, frozen=True):
    """Both arms of one window."""

    canary: ArmMoments
    baseline: ArmMoments


class Harm(msgspec.Struct, frozen=True):
    """The evidence for harm after all windows so far.

    ``difference`` is the weighted mean difference towards harm, ``log_e_value`` the evidence that
    it exceeds the tolerance, ``upper`` the bound that it stays below at every look.
    """

    difference: float
    log_e_value: float
    upper: float
    canary_n: int
    baseline_n: int


def mixture_variance(tuned_for: int, alpha: float) -> float:
    """Return the mixing parameter that makes the bound tightest near ``tuned_for`` samples."""
    if tuned_for < 1:
        raise InvalidValueError(f"tuned_for must be >= 1, got {tuned_for}")
    log_odds = -2 * math.log(alpha)
    return tuned_for / 2 / (log_odds + math.log1p(log_odds))


def measure_harm(
    windows: Sequence[ArmPair], *, towards: int, tolerance: float, rho: float, alpha: float
) -> Harm | str:
    """Return the evidence for harm, or the reason why there is none.

    ``towards`` is 1 if more is harm and -1 if less is; ``alpha`` is the level of ``upper``.
    """
    pairs = [pair for pair in windows if pair.canary.n > 0 and pair.baseline.n > 0]
    if not pairs:
        return "no window has samples in both arms"
    canary = _pool_arms([pair.canary for pair in pairs])
    baseline = _pool_arms([pair.baseline for pair in pairs])
    variances = _estimate_variances(canary, baseline)
    information = drift = noise = 0.0
    for pair in pairs:
        weight = pair.canary.n * pair.baseline.n / (pair.canary.n + pair.baseline.n)
        gap = pair.canary.sum / pair.canary.n - pair.baseline.sum / pair.baseline.n
        information += weight
        drift += weight * gap * towards
        noise += weight**2 * (variances[0] / pair.canary.n + variances[1] / pair.baseline.n)
    difference = drift / information
    if noise <= 0:
        if difference == 0:
            return Harm(0.0, 0.0, 0.0, canary.n, baseline.n)
        return "both arms are constant and differ"
    # In units in which one piece of information has variance one.
    scale = math.sqrt(noise / information)
    excess = (difference - tolerance) * information / scale
    log_e = _compute_one_sided_log_e(excess, information, rho)
    if _is_too_rare(canary, baseline):
        log_e = min(log_e, 0.0)
    half_width = _compute_two_sided_bound(information, rho, alpha) * scale / information
    return Harm(difference, log_e, difference + half_width, canary.n, baseline.n)


def _pool_arms(arms: Sequence[ArmMoments]) -> ArmMoments:
    return ArmMoments(
        sum(arm.n for arm in arms),
        math.fsum(arm.sum for arm in arms),
        math.fsum(arm.sum_squares for arm in arms),
    )


def _is_binary(arm: ArmMoments) -> bool:
    """Return whether a sample can be only zeros and ones, judged by three numbers."""
    return arm.sum == arm.sum_squares and arm.sum == int(arm.sum) and 0 <= arm.sum <= arm.n


def _is_too_rare(canary: ArmMoments, baseline: ArmMoments) -> bool:
    if not (_is_binary(canary) and _is_binary(baseline)):
        return False
    ones = canary.sum + baseline.sum
    return min(ones, canary.n + baseline.n - ones) < MIN_EVENTS


def _estimate_variances(canary: ArmMoments, baseline: ArmMoments) -> tuple[float, float]:
    """Return each arm's variance; for 0/1 samples that of a shared rate, above zero."""
    if _is_binary(canary) and _is_binary(baseline):
        rate = (canary.sum + baseline.sum + 1) / (canary.n + baseline.n + 2)
        return rate * (1 - rate), rate * (1 - rate)
    return _estimate_variance(canary), _estimate_variance(baseline)


def _estimate_variance(arm: ArmMoments) -> float:
    if arm.n < 2:
        return 0.0
    spread = arm.sum_squares - arm.sum**2 / arm.n
    # Rounding alone can leave a tiny remainder if all values are equal.
    if spread <= 1e-12 * arm.sum_squares:
        return 0.0
    return spread / (arm.n - 1)


def _compute_one_sided_log_e(excess: float, information: float, rho: float) -> float:
    """Return the log likelihood ratio of a half-normal mixture of positive drifts against none."""
    total = information + rho
    z = excess / math.sqrt(total)
    return math.log(2) + 0.5 * math.log(rho / total) + z * z / 2 + _log_normal_cdf(z)


def _log_normal_cdf(z: float) -> float:
    if z > -30:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2)))
    return -z * z / 2 - math.log(-z * math.sqrt(2 * math.pi))


def _compute_two_sided_bound(information: float, rho: float, alpha: float) -> float:
    """Return the time-uniform bound of a driftless sum, at level alpha."""
    total = information + rho
    return math.sqrt(total * (math.log(total / rho) - 2 * math.log(alpha)))
