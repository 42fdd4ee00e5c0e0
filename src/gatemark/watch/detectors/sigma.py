"""The sigma probe: how many standard deviations a window is from its baseline."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.statistics.control_chart import (
    deviations_each,
    mean_floor_each,
    moments_each,
    rate_floor_each,
)
from gatemark.watch.detector import Detector, KnownReading, Readings, Sample, readings_of
from gatemark.watch.parts import values_of

Floats = NDArray[np.float64]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``floor`` lets the sampling noise of a window bound the spread from below."""

    floor: bool = True


def judge(sample: Sample, options: Options) -> Readings:
    """Sigma of the judged window of each series."""
    value = values_of(sample.form, sample.items, sample.current)
    history = values_of(sample.form, sample.baseline_items, sample.baseline)
    moments = moments_each(history, sample.baseline_items > 0)
    floor = noise_floor(sample) if options.floor else None
    return readings_of(value, moments.mean, deviations_each(value, moments, floor))


def noise_floor(sample: Sample) -> Floats:
    """The least spread to believe in: of a rate over so many items, of a mean, or as configured."""
    items = sample.items
    floor = np.full(items.shape, np.nan if sample.min_sd is None else sample.min_sd)
    if sample.form == "sum":
        both_items = np.concatenate([sample.baseline_items, items[:, None]], axis=1)
        both = np.concatenate([sample.baseline, sample.current[:, None]], axis=1)
        noise = mean_floor_each(both_items, both[..., 0], both[..., 1], items)
    elif sample.form == "k" or sample.is_rate:
        noise = rate_floor_each(
            sample.baseline[..., 0].sum(axis=1),
            sample.baseline_items.sum(axis=1),
            sample.current[:, 0],
            items,
        )
    else:
        return floor
    return np.asarray(np.fmax(floor, noise))


_RISING: Final = tuple((1.0, (float(value),)) for value in (1, 2, 3, 4, 5))
_FLAT: Final = ((100.0, (90.0,)),) * 14

DETECTOR: Final = Detector(
    name="sigma",
    summary="Distance from the baseline mean in the baseline's standard deviations.",
    options=Options,
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
