"""The exponentially weighted moving average, for small shifts that last."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    make_readings,
    noise_floor,
)
from gatemark.release.drift.judging.parts import values_of
from gatemark.statistics.control_chart import ewma_each, ewma_weights, moments_each


class EwmaOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``smoothing`` is the weight of the latest window; ``memory`` is the number averaged."""

    smoothing: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.3
    memory: Annotated[int, msgspec.Meta(ge=1, le=60)] = 8
    floor: bool = True


def judge(sample: SeriesSample, options: EwmaOptions) -> Readings:
    """Return the sigma of the weighted average of the latest windows of each series."""
    recent = values_of(sample.form, sample.recent_items, sample.recent)
    history = values_of(sample.form, sample.baseline_items, sample.baseline)
    moments = moments_each(history, sample.baseline_items > 0)
    floor = noise_floor(sample) if options.floor else None
    found = ewma_each(recent, sample.recent_items > 0, moments, floor, options.smoothing)
    return make_readings(recent[:, -1], moments.mean, found)


_WEIGHTS: Final = ewma_weights(0.3, 3)
_NOISE: Final = float((_WEIGHTS**2).sum() + _WEIGHTS.sum() ** 2 / 5) ** 0.5

DETECTOR: Final = Detector(
    name="ewma",
    summary="Distance of an exponentially weighted average of the latest windows; for warnings.",
    options=EwmaOptions,
    forms=frozenset({"value", "sum", "k"}),
    judge=judge,
    recent=lambda options: int(options.memory),
    formula=(
        "e_t = l x_t + (1 - l) e_(t-1), e_0 = mean(b); sigma = (e - mean(b)) / "
        "(sd sqrt(sum of squared weights + (sum of weights)^2 / n)); "
        "t = sigma on n - 1 degrees of freedom."
    ),
    references=(
        "S. W. Roberts, Control Chart Tests Based on Geometric Moving Averages, "
        "Technometrics 1(3), 1959",
        "J. M. Lucas and M. S. Saccucci, Exponentially Weighted Moving Average Control Schemes, "
        "Technometrics 32(1), 1990",
    ),
    known=(
        KnownReading(
            title="three windows at 6 after one to five",
            form="value",
            baseline=tuple((1.0, (float(value),)) for value in (1, 2, 3, 4, 5)),
            recent=((1.0, (6.0,)),) * 3,
            options={"memory": 3},
            expected={
                "mu": 3,
                "sd": 2.5**0.5,
                "sigma": float(_WEIGHTS.sum()) * 3 / (2.5**0.5 * _NOISE),
            },
        ),
        KnownReading(
            title="a constant baseline and another value",
            form="value",
            baseline=((1.0, (2.0,)),) * 5,
            recent=((1.0, (2.5,)),) * 3,
            options={"memory": 3},
            expected={"sigma": None, "z": None, "is_degenerate": True},
        ),
    ),
)
