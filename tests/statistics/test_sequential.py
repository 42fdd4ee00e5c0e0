from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.sequential import (
    MIN_EVENTS,
    ArmMoments,
    ArmPair,
    Harm,
    measure_harm,
    mixture_variance,
)

ALPHA = 0.05
RHO = mixture_variance(5_000, ALPHA)


def moments(values: np.ndarray) -> ArmMoments:
    return ArmMoments(values.size, float(values.sum()), float((values**2).sum()))


def pair(canary: np.ndarray, baseline: np.ndarray) -> ArmPair:
    return ArmPair(moments(canary), moments(baseline))


def harm(windows: list[ArmPair], **more: float) -> Harm:
    options = {"towards": 1, "tolerance": 0.0, "rho": RHO, "alpha": ALPHA, **more}
    found = measure_harm(windows, **options)  # type: ignore[arg-type]
    assert isinstance(found, Harm)
    return found


def test_the_e_value_is_the_mixed_likelihood_ratio() -> None:
    rng = np.random.default_rng(1)
    windows = [pair(rng.normal(0.2, 1, 80), rng.normal(0, 1, 120)) for _ in range(3)]
    canary = np.array([w.canary.sum for w in windows]).sum() / 240
    assert canary > 0
    total_c = moments_sum([w.canary for w in windows])
    total_b = moments_sum([w.baseline for w in windows])
    variance_c = (total_c.sum_squares - total_c.sum**2 / total_c.n) / (total_c.n - 1)
    variance_b = (total_b.sum_squares - total_b.sum**2 / total_b.n) / (total_b.n - 1)
    weights = [80 * 120 / 200] * 3
    gaps = [w.canary.sum / 80 - w.baseline.sum / 120 for w in windows]
    drift = sum(w * g for w, g in zip(weights, gaps, strict=True))
    noise = sum(w * w * (variance_c / 80 + variance_b / 120) for w in weights)
    information = sum(weights)
    standard = drift / math.sqrt(noise / information)

    def likelihood(rate: float) -> float:
        prior = 2 * stats.norm.pdf(rate, scale=1 / math.sqrt(RHO))
        return float(prior * math.exp(rate * standard - rate**2 * information / 2))

    expected, _ = integrate.quad(likelihood, 0, 1)
    assert harm(windows).log_e_value == pytest.approx(math.log(expected), rel=1e-6)


def moments_sum(arms: list[ArmMoments]) -> ArmMoments:
    return ArmMoments(
        sum(a.n for a in arms), sum(a.sum for a in arms), sum(a.sum_squares for a in arms)
    )


def test_with_one_window_the_difference_is_the_difference_of_means() -> None:
    rng = np.random.default_rng(2)
    canary, baseline = rng.normal(5, 2, 400), rng.normal(4, 2, 300)
    found = harm([pair(canary, baseline)])
    assert found.difference == pytest.approx(canary.mean() - baseline.mean())
    interval = stats.ttest_ind(canary, baseline, equal_var=False).confidence_interval(0.95)
    assert found.upper > interval.high


def test_harm_downwards_is_the_mirror_of_harm_upwards() -> None:
    rng = np.random.default_rng(3)
    canary, baseline = rng.normal(0, 1, 100), rng.normal(0.3, 1, 100)
    up = harm([pair(baseline, canary)])
    down = harm([pair(canary, baseline)], towards=-1)
    assert down.log_e_value == pytest.approx(harm([pair(-canary, -baseline)]).log_e_value)
    assert up.difference == pytest.approx(down.difference)


def test_a_common_trend_of_both_arms_is_no_harm() -> None:
    """Shares differ between windows while both arms get slower: pooled means would mislead."""
    rng = np.random.default_rng(4)
    windows = [
        pair(rng.normal(level, 1, n_canary), rng.normal(level, 1, n_baseline))
        for level, n_canary, n_baseline in ((0, 50, 1000), (50, 1000, 1000), (100, 1000, 50))
    ]
    assert harm(windows).difference == pytest.approx(0, abs=0.2)


def test_a_tolerated_difference_is_no_evidence() -> None:
    rng = np.random.default_rng(5)
    windows = [pair(rng.normal(1, 1, 500), rng.normal(0, 1, 500)) for _ in range(5)]
    assert harm(windows).log_e_value > 100
    assert harm(windows, tolerance=1.2).log_e_value < 0


def test_arms_without_samples_or_variation_give_a_reason() -> None:
    empty = ArmMoments(0, 0.0, 0.0)
    ones = ArmMoments(5, 10.0, 20.0)
    twos = ArmMoments(5, 15.0, 45.0)
    options = {"towards": 1, "tolerance": 0.0, "rho": RHO, "alpha": ALPHA}
    assert measure_harm([], **options) == "no window has samples in both arms"  # type: ignore[arg-type]
    assert isinstance(measure_harm([ArmPair(empty, ones)], **options), str)  # type: ignore[arg-type]
    constant = measure_harm([ArmPair(ones, twos)], **options)  # type: ignore[arg-type]
    assert constant == "both arms are constant and differ"
    assert harm([ArmPair(ones, ones)]).log_e_value == 0


def test_few_events_accuse_nobody_and_enough_events_do() -> None:
    def counts(bad: int) -> list[ArmPair]:
        return [ArmPair(ArmMoments(100, bad, bad), ArmMoments(100, 0, 0))]

    assert harm(counts(MIN_EVENTS - 1), rho=10.0).log_e_value <= 0
    assert harm(counts(MIN_EVENTS), rho=10.0).log_e_value > 0
    assert harm(counts(0)).log_e_value <= 0


def test_the_mixture_is_tightest_where_it_was_tuned() -> None:
    widths = []
    for tuned in (500, 5_000, 50_000):
        rho = mixture_variance(tuned, ALPHA)
        rng = np.random.default_rng(6)
        windows = [pair(rng.normal(0, 1, 5_000), rng.normal(0, 1, 5_000))]
        found = harm(windows, rho=rho)
        widths.append(found.upper - found.difference)
    assert widths[1] == min(widths)
    with pytest.raises(InvalidValueError):
        mixture_variance(0, ALPHA)


DRAWS = {
    "normal": lambda rng, size: rng.normal(0, 1, size),
    "lognormal": lambda rng, size: rng.lognormal(0, 1, size),
    "rare": lambda rng, size: (rng.random(size) < 0.01).astype(float),
    "common": lambda rng, size: (rng.random(size) < 0.3).astype(float),
}


@pytest.mark.parametrize("name", DRAWS)
def test_looking_after_every_window_raises_few_false_alarms(name: str) -> None:
    """20 looks at equal arms: false alarms in the whole rollout stay below alpha."""
    rng = np.random.default_rng(7)
    alpha, rollouts, looks = 0.05, 300, 20
    rho = mixture_variance(2_000, alpha)
    alarms = 0
    for _ in range(rollouts):
        values = DRAWS[name](rng, (2, looks, 100))
        windows = [pair(values[0, at], values[1, at]) for at in range(looks)]
        alarms += any(
            harm(windows[: at + 1], rho=rho).log_e_value >= -math.log(alpha) for at in range(looks)
        )
    # 0.05 of 300 is 15; four standard errors above that is 30.
    assert alarms <= 30


def test_a_real_harm_is_found() -> None:
    rng = np.random.default_rng(8)
    rho = mixture_variance(2_000, 0.00135)
    found = 0
    for _ in range(50):
        windows = [pair(rng.normal(0.25, 1, 100), rng.normal(0, 1, 100)) for _ in range(20)]
        found += harm(windows, rho=rho).log_e_value >= -math.log(0.00135)
    assert found >= 48


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5),
            st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_samples_give_finite_numbers_or_a_reason(
    samples: list[tuple[list[float], list[float]]],
) -> None:
    windows = [pair(np.array(canary), np.array(baseline)) for canary, baseline in samples]
    found = measure_harm(windows, towards=1, tolerance=0.0, rho=RHO, alpha=ALPHA)
    if isinstance(found, Harm):
        numbers = (found.difference, found.log_e_value, found.upper)
        assert all(math.isfinite(number) for number in numbers)
        assert found.upper >= found.difference
