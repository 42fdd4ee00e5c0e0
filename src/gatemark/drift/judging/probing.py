"""Judging plain values by sigma; what several detectors have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatemark.drift.judging.detector import Readings, SeriesSample, readings_of
from gatemark.drift.judging.parts import values_of
from gatemark.statistics.control_chart import (
    deviations_each,
    mean_floor_each,
    moments_each,
    rate_floor_each,
)

Floats = NDArray[np.float64]


def judge_values(sample: SeriesSample, *, has_floor: bool) -> Readings:
    """Sigma of the judged window of each series, with or without a floor under the spread."""
    value = values_of(sample.form, sample.items, sample.current)
    history = values_of(sample.form, sample.baseline_items, sample.baseline)
    moments = moments_each(history, sample.baseline_items > 0)
    floor = noise_floor(sample) if has_floor else None
    return readings_of(value, moments.mean, deviations_each(value, moments, floor))


def noise_floor(sample: SeriesSample) -> Floats:
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
