from __future__ import annotations

import numpy as np
import pytest

from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.cohort import Cohort, baseline_width
from gatemark.release.drift.judging.detector import SeriesSample
from gatemark.release.drift.judging.parts import FormName, Series
from gatemark.release.drift.judging.policy import DriftPolicy, Watch

from .series import DAY, day

ROWS = 40


def _sample(form: FormName, counts: np.ndarray, baseline: int, width: int) -> SeriesSample:
    """Series with some baseline windows each, the rest of the width missing."""
    rng = np.random.default_rng(7)
    items = np.where(np.arange(baseline) < counts[:, None], 200.0, 0.0)
    hits = rng.binomial(200, 0.9, items.shape) if form == "k" else rng.normal(1e3, 7, items.shape)
    squares = hits**2 / 200 + rng.uniform(50, 90, items.shape)
    parts = np.stack([hits, squares], axis=2)[..., : 2 if form == "sum" else 1]
    parts[items == 0] = 0
    recent = rng.normal(185, 9, (ROWS, 8, 1)) if form != "sum" else parts[:, :8].copy()
    return SeriesSample(
        form=form,
        baseline_items=np.ascontiguousarray(items[:, :width]),
        baseline=np.ascontiguousarray(parts[:, :width]),
        recent_items=np.full((ROWS, 8), 200.0),
        recent=np.ascontiguousarray(recent),
        is_rate=form == "k",
    )


@pytest.mark.parametrize("baseline", [9, 16, 17, 40, 63, 90, 127, 128, 300])
@pytest.mark.parametrize("detector", ["sigma", "shift", "ewma"])
@pytest.mark.parametrize("form", ["value", "k", "sum"])
def test_no_bit_of_a_reading_depends_on_the_width(
    form: FormName, detector: str, baseline: int
) -> None:
    judge = detectors().get(detector)
    asked = {"correlation": True} if detector == "sigma" else {}
    most = min(baseline, 31)
    for fewest in (most, 2):
        counts = np.random.default_rng(3).integers(fewest, most + 1, ROWS)
        width = baseline_width(baseline, most)
        assert most <= width <= baseline
        wide, narrow = (
            judge.judge(_sample(form, counts, baseline, size), judge.build(asked))
            for size in (baseline, width)
        )
        for one, other in zip(wide[:-1], narrow[:-1], strict=True):
            assert one.tobytes() == other.tobytes()
        for name, told in wide.extras.items():
            assert told.tobytes() == narrow.extras[name].tobytes()


def test_a_long_baseline_with_few_windows_is_read_narrow() -> None:
    assert baseline_width(90, 14) == 18
    assert baseline_width(90, 88) == 90
    assert baseline_width(14, 2) == 14
    assert baseline_width(200, 14) == 200


def test_cohorts_that_share_their_windows_do_not_share_what_begins_a_baseline() -> None:
    series = [
        Series(id=row, asset="a", metric=f"m{row}", form="value", length_s=DAY, phase_s=0)
        for row in range(2)
    ]
    sigma, shift = (
        Cohort(
            Watch(metric="*", detector=name, sustained=sustained),
            detectors().get(name),
            series,
            policy=DriftPolicy(),
            now=day(20),
        )
        for name, sustained in (("sigma", 2), ("shift", 1))
    )
    shift.share(sigma)
    start = np.asarray([int(day(place).timestamp()) for place in (3, 4)])
    one = np.ones(2)
    sigma.add(np.zeros(2, dtype=np.int64), start, one, np.ones(2, dtype=np.int64), one[:, None])
    assert shift.items.sum() == sigma.items.sum() == 2
    sigma.seed(1, 0, sigma.raw_items[0] > 0)
    sigma.close()
    shift.close()
    assert sigma.items[1].sum() == sigma.parts[1].sum() == 2
    assert shift.items[1].sum() == shift.parts[1].sum() == 0
    assert not sigma.is_written[1].any()
