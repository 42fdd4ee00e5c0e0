from __future__ import annotations

import math

import numpy as np
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.overhead.measure import MEASURE, OverheadState
from gatemark.testing.folds import check_fold


def test_the_laws_hold_for_noisy_windows() -> None:
    draw = np.random.default_rng(2)
    losses = [
        ("loss", int(draw.integers(1, 90)), 2.0, float(draw.normal(2, 0.1))) for _ in range(40)
    ]
    counts = [("count", 9, int(draw.integers(0, 10)), int(draw.integers(0, 10))) for _ in range(40)]
    check_fold(MEASURE, [losses, counts])


def test_equal_windows_are_held_once() -> None:
    one = MEASURE.step(OverheadState(), [("loss", 5, 2.0, 2.1)])
    many = MEASURE.step(OverheadState(), [("loss", 5, 2.0, 2.1)] * 1_000)
    assert len(many.runs[0]) == len(one.runs[0])


@pytest.mark.parametrize(
    "window",
    [
        ("ratio", 5, 2.0, 2.1),
        ("loss", 0, 2.0, 2.1),
        ("loss", 5, math.nan, 2.1),
        ("loss", 5, 2.0, math.inf),
    ],
)
def test_windows_without_a_value_are_refused(window: tuple[object, ...]) -> None:
    with pytest.raises(InvalidValueError):
        MEASURE.step(OverheadState(), [window])
