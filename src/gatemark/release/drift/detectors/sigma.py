"""The sigma probe: the distance of a window from its baseline in standard deviations."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    judge_values,
)


class SigmaOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``floor`` uses the sampling noise of a window as the minimum spread.

    ``correlation`` widens the spread where neighbouring windows are correlated.
    """

    floor: bool = True
    correlation: bool = False


def judge(sample: SeriesSample, options: SigmaOptions) -> Readings:
    """Return the sigma of the judged window of each series."""
    return judge_values(sample, has_floor=options.floor, widens_by_correlation=options.correlation)


_RISING: Final = tuple((1.0, (float(value),)) for value in (1, 2, 3, 4, 5))
_FLAT: Final = ((100.0, (90.0,)),) * 14

DETECTOR: Final = Detector(
    name="sigma",
    summary="Distance from the baseline mean in the baseline's standard deviations.",
    options=SigmaOptions,
    forms=frozenset({"value", "sum", "k"}),
    judge=judge,
    formula=(
        "sigma = (x - mean(b)) / max(sd(b), floor), sd with ddof 1; "
        "t = sigma / sqrt(1 + 1/n) on n - 1 degrees of freedom; z = Phi^-1(T(t)). "
        "The floor of a rate is sqrt(p(1-p)/m), p = (k_b + k + 1)/(N_b + m + 2)."
    ),
    references=(
        "W. A. Shewhart, Economic Control of Quality of Manufactured Product, 1931",
        "D. C. Montgomery, Introduction to Statistical Quality Control, chapter 6",
    ),
    known=(
        KnownReading(
            title="six after one to five is (6 - 3) / sqrt(2.5)",
            form="value",
            baseline=_RISING,
            recent=((1.0, (6.0,)),),
            expected={"value": 6, "mu": 3, "sd": 2.5**0.5, "sigma": 3 / 2.5**0.5},
        ),
        KnownReading(
            title="a constant baseline and the same value",
            form="value",
            baseline=_FLAT,
            recent=((50.0, (45.0,)),),
            expected={"sigma": 0, "z": 0, "p_value": 1, "is_degenerate": False},
        ),
        KnownReading(
            title="a constant baseline and another value",
            form="value",
            baseline=_FLAT,
            recent=((50.0, (40.0,)),),
            expected={"sigma": None, "z": None, "p_value": None, "is_degenerate": True},
        ),
        KnownReading(
            title="the same as a rate has the noise of 50 items at 131/1452",
            form="value",
            baseline=_FLAT,
            recent=((50.0, (40.0,)),),
            is_rate=True,
            expected={
                "sigma": -0.1 / (1301 / 1452 * 151 / 1452 / 50) ** 0.5,
                "is_degenerate": False,
            },
        ),
        KnownReading(
            title="one window has no spread",
            form="value",
            baseline=_RISING[:1],
            recent=((1.0, (6.0,)),),
            expected={"mu": 1, "sd": None, "sigma": None, "z": None, "is_degenerate": False},
        ),
    ),
)
