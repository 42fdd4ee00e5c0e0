"""Lasting shifts: the latest windows against all earlier ones, over several change points."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import msgspec
import numpy as np

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    noise_floor,
)
from gatemark.release.drift.judging.parts import values_of
from gatemark.statistics.change_point import CUTS, find_shifts_each, remove_season


class ShiftOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``floor`` uses the sampling noise of a window as the minimum spread.

    ``season`` is the number of windows in a season, such as 7 days; 0 means none. Its pattern is
    subtracted once there are three seasons.
    """

    floor: bool = True
    season: Annotated[int, msgspec.Meta(ge=0, le=60)] = 0


def judge(sample: SeriesSample, options: ShiftOptions) -> Readings:
    """Return the best split of the baseline and the judged window."""
    baseline = values_of(sample.form, sample.baseline_items, sample.baseline)
    current = values_of(sample.form, sample.items, sample.current)
    present = sample.baseline_items > 0
    number = sample.baseline_number
    if not present.all():
        # Missing windows are at the end of a baseline; move them to the front. Most series miss the
        # same ones, and an order for each is a large part of the search.
        if (present == present[0]).all():
            at_end = partial(np.take, indices=np.argsort(present[0], kind="stable"), axis=1)
        else:
            order = np.argsort(present, axis=1, kind="stable")
            at_end = partial(np.take_along_axis, indices=order, axis=1)
        baseline, present = at_end(baseline), at_end(present)
        number = None if number is None else at_end(number)
    values = np.concatenate([np.where(present, baseline, 0.0), current[:, None]], axis=1)
    present = np.concatenate([present, np.isfinite(current)[:, None]], axis=1)
    if options.season > 1 and number is not None and sample.number is not None:
        places = np.concatenate([number, sample.number[:, None]], axis=1)
        values = remove_season(values, present, places, options.season)
    floor = noise_floor(sample) if options.floor else None
    fitted = max(options.season - 1, 0)
    found = find_shifts_each(values, present, floor, parameters=fitted)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = (current - found.before) / found.sd
    return Readings(
        value=current,
        mu=found.before,
        sd=found.sd,
        sigma=np.where(np.isfinite(sigma), sigma, np.nan),
        z=found.z,
        p_value=np.where(np.isfinite(found.z), found.p_value, np.nan),
        is_degenerate=found.is_flat,
        is_new=np.zeros(current.shape, dtype=bool),
        is_material=np.ones(current.shape, dtype=bool),
        extras={
            "shift": found.moved,
            "shift_windows": found.windows,
            "correlation": found.correlation,
        },
    )


_STEADY: Final = tuple((1.0, (float(value),)) for value in (9, 11, 10, 9, 11, 10, 9, 11, 10, 10))

DETECTOR: Final = Detector(
    name="shift",
    summary="The latest windows against all before them, wherever the change began.",
    options=ShiftOptions,
    forms=frozenset({"value", "sum", "k"}),
    judge=judge,
    is_self_starting=True,
    windows_per_look=2.5,
    formula=(
        f"For each j of {', '.join(map(str, CUTS))}: t_j = (mean of the last j - mean before) / "
        "sqrt(s^2 (w_j / j + w_m / m)), s the spread within both parts, m the windows before "
        "(10 at least), w the widening by correlation of neighbours. Values are cut off 4 robust "
        "deviations from the median. p = min(1, number of cuts * p of the largest |t_j|), z its "
        "normal score."
    ),
    references=(
        "D. M. Hawkins, P. Qiu, C. W. Kang, The Changepoint Model for Statistical Process Control, "
        "Journal of Quality Technology 35(4), 2003",
        "T. L. Lai, Sequential Changepoint Detection in Quality Control and Dynamical Systems, "
        "Journal of the Royal Statistical Society B 57(4), 1995",
    ),
    known=(
        KnownReading(
            title="nothing changed",
            form="value",
            baseline=_STEADY * 2,
            recent=((1.0, (10.0,)),),
            expected={"value": 10, "z": 0, "p_value": 1, "is_degenerate": False},
        ),
        KnownReading(
            title="too few windows to cut",
            form="value",
            baseline=_STEADY,
            recent=((1.0, (16.0,)),),
            expected={"value": 16, "z": None, "p_value": None, "is_degenerate": False},
        ),
        KnownReading(
            title="two windows elsewhere than twenty that never changed",
            form="value",
            baseline=((1.0, (2.0,)),) * 20 + ((1.0, (3.0,)),),
            recent=((1.0, (3.0,)),),
            expected={"mu": 2, "z": None, "p_value": None, "is_degenerate": True},
        ),
    ),
)
