"""Expected calibration error beyond that of a perfectly calibrated model."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    make_readings,
)
from gatemark.release.drift.judging.parts import FormName, values_of
from gatemark.statistics.confidence.binned_calibration import binned_ece_each
from gatemark.statistics.control_chart import deviations_each, moments_each

Floats = NDArray[np.float64]


class EceExcessOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``floor`` uses the spread of a calibrated model as the minimum spread."""

    floor: bool = True


def reduce(form: FormName, items: Floats, parts: Floats) -> tuple[FormName, Floats]:
    """Replace the bins of each window by excess error, calibrated spread and plain error."""
    if form == "value":
        value = values_of(form, items, parts)
        unknown = np.full(value.shape, np.nan)
        return form, np.stack([value, unknown, value], axis=-1)
    bins = parts.shape[-1] // 3
    found = binned_ece_each(parts[..., :bins], parts[..., bins : 2 * bins], parts[..., 2 * bins :])
    return form, np.stack([found.excess, found.twin_sd, found.ece], axis=-1)


def judge(sample: SeriesSample, options: EceExcessOptions) -> Readings:
    """Return the sigma of the excess error of each judged window."""
    present = sample.baseline_items > 0
    moments = moments_each(np.where(present, sample.baseline[..., 0], 0.0), present)
    value = np.where(sample.items > 0, sample.current[:, 0], np.nan)
    floor = sample.current[:, 1] if options.floor else np.full(value.shape, np.nan)
    if sample.min_sd is not None:
        floor = np.fmax(floor, sample.min_sd)
    extras = {"ece": sample.current[:, 2]}
    return make_readings(value, moments.mean, deviations_each(value, moments, floor), extras)


_HALF: Final = (4.0, (4.0, 2.0, 2.0))
_WRONG: Final = (4.0, (4.0, 2.0, 0.0))

DETECTOR: Final = Detector(
    name="ece_excess",
    summary="Sigma of the expected calibration error, less that of a calibrated twin.",
    options=EceExcessOptions,
    forms=frozenset({"calibration", "value"}),
    named_forms=frozenset({"value"}),
    judge=judge,
    reduce=reduce,
    formula=(
        "ECE = sum |correct_b - confidence_b| / N over bins, less E0, the mean of the same for "
        "outcomes that come true exactly as promised: "
        "E|X - np| = 2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m), m = floor(np); "
        "sigma of it over the baseline, with the twin's standard deviation as floor."
    ),
    references=(
        "C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "
        "On Calibration of Modern Neural Networks, ICML 2017",
        "P. Diaconis and S. Zabell, Closed Form Summation for Classical Distributions, "
        "Statistical Science 6(3), 1991",
    ),
    known=(
        KnownReading(
            title="four of four wrong at 0.5; a calibrated twin is off by 0.75 hits of four",
            form="calibration",
            baseline=(_HALF,) * 3,
            recent=(_WRONG,),
            expected={
                "value": 0.5 - 0.75 / 4,
                "mu": -0.75 / 4,
                "sd": (1 - 0.75**2) ** 0.5 / 4,
                "sigma": 2 / (1 - 0.75**2) ** 0.5,
            },
        ),
        KnownReading(
            title="errors that were computed elsewhere are used as they are",
            form="value",
            baseline=tuple((1.0, (float(value),)) for value in (1, 2, 3, 4, 5)),
            recent=((1.0, (6.0,)),),
            expected={"value": 6, "mu": 3, "sd": 2.5**0.5, "sigma": 3 / 2.5**0.5},
        ),
    ),
)
