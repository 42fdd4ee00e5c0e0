from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.confidence.recalibration import (
    TEMPERATURE_RANGE,
    IsotonicMap,
    TemperatureMap,
    fit_isotonic,
    fit_temperature,
    judge_refit,
)


def _overconfident(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.uniform(0.05, 0.95, n)
    return expit(2.5 * logit(truth)), rng.random(n) < truth


def test_the_temperature_has_the_least_log_loss():
    rng = np.random.default_rng(1)
    for _ in range(60):
        p, y = _overconfident(rng, 200)
        x = logit(p)

        def loss(log_t, x=x, y=y):
            return np.logaddexp(0, np.where(y, -1, 1) * x * np.exp(-log_t)).sum()

        best = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8})
        assert np.log(fit_temperature(p, y).temperature) == pytest.approx(best.x, abs=1e-4)


def test_a_temperature_that_was_applied_is_found_again():
    p, y = _overconfident(np.random.default_rng(2), 50_000)
    assert fit_temperature(p, y).temperature == pytest.approx(2.5, rel=0.05)


def test_outcomes_that_no_temperature_fits_stop_at_the_edge_of_the_range():
    p = np.full(50, 0.9)
    assert fit_temperature(p, np.ones(50)).temperature == pytest.approx(TEMPERATURE_RANGE[0])
    assert fit_temperature(p, np.zeros(50)).temperature == pytest.approx(TEMPERATURE_RANGE[1])


def test_the_isotonic_map_predicts_like_that_of_sklearn():
    rng = np.random.default_rng(3)
    for _ in range(200):
        p, y = _overconfident(rng, int(rng.integers(2, 120)))
        p = np.round(p, int(rng.integers(1, 5)))
        theirs = IsotonicRegression(out_of_bounds="clip").fit(p, y.astype(float))
        new = np.concatenate([rng.random(40), p])
        ours = fit_isotonic(p, y).apply(new)
        assert ours == pytest.approx(theirs.predict(new), abs=1e-9)


def test_maps_travel_as_plain_data():
    for mending in (TemperatureMap(1.5), IsotonicMap((0.1, 0.9), (0.2, 0.8))):
        raw = msgspec.json.encode(mending)
        assert msgspec.json.decode(raw, type=TemperatureMap | IsotonicMap) == mending


@pytest.mark.parametrize("kind", ["temperature", "isotonic"])
def test_a_refit_that_helps_is_accepted(kind):
    rng = np.random.default_rng(4)
    p, y = _overconfident(rng, 4000)
    found = judge_refit(kind, p, y, rng, resamples=499)
    assert found.is_accepted
    assert found.gain.low > 0
    assert (found.fitted_items, found.held_out_items) == (2000, 2000)


@pytest.mark.parametrize("kind", ["temperature", "isotonic"])
def test_a_refit_of_a_calibrated_model_is_rarely_accepted(kind):
    accepted = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, 2400)
        accepted += judge_refit(kind, p, rng.random(2400) < p, rng, resamples=199).is_accepted
    assert accepted <= 3


@pytest.mark.parametrize(("kind", "n"), [("temperature", 150), ("isotonic", 1500)])
def test_too_few_items_to_fit_are_not_tried(kind, n):
    found = judge_refit(kind, np.full(n, 0.5), np.ones(n), np.random.default_rng(0))
    assert (found.is_accepted, found.mending, found.gain) == (False, None, None)
    assert found.reason.startswith(f"{kind} needs >= ")


def test_certain_confidences_do_not_break_a_refit():
    rng = np.random.default_rng(5)
    p = rng.choice([0.0, 1.0], 400)
    found = judge_refit("temperature", p, rng.random(400) < 0.1 + 0.8 * p, rng, resamples=199)
    assert found.is_accepted
    assert np.all(np.isfinite(found.mending.apply(p)))


def test_bad_input_is_refused():
    with pytest.raises(InvalidValueError):
        judge_refit("temperature", [0.5], [1, 0], np.random.default_rng(0))
    with pytest.raises(InvalidValueError):
        judge_refit("temperature", [0.5], [1], np.random.default_rng(0), held_out_share=1.0)
