"""Did both arms get the share of traffic they were meant to? Safe to ask after every window."""

from __future__ import annotations

import math

import msgspec

from gatemark.core.errors import InvalidValueError


class SampleRatio(msgspec.Struct, frozen=True):
    """The evidence that traffic was not split as meant.

    ``p_value`` is the plain chi-square one, good for a single look; ``log_e_value`` stays valid
    however often one looks.
    """

    log_e_value: float
    p_value: float


def sample_ratio(canary: int, baseline: int, expected_share: float = 0.5) -> SampleRatio:
    """Judge how ``canary`` of ``canary + baseline`` fits an expected share.

    The e-value mixes over every other share evenly, a Beta(1, 1) mixture.
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
