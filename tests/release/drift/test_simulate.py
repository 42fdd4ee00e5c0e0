from __future__ import annotations

import msgspec
import pytest

from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.explain import select_scalar_watches
from gatemark.release.drift.judging.policy import DriftPolicy, Watch
from gatemark.release.drift.judging.simulate import (
    estimate_detection,
    estimate_false_alarms,
    isolate_series,
)

from .series import by_tick

SIGMA = [(Watch(metric="*"), detectors().get("sigma"))]
CORRECTED, LITERAL = by_tick(), by_tick(mode="literal")
SEED = 20_260_301
NUMBER = select_scalar_watches(DriftPolicy())


def test_a_number_is_watched_for_sudden_changes_and_for_lasting_ones() -> None:
    assert [detector.name for _, detector in NUMBER] == ["sigma", "shift"]


def test_a_healthy_metric_is_warned_about_as_rarely_as_the_policy_says() -> None:
    found = estimate_false_alarms(DriftPolicy(), NUMBER, seed=SEED, assets=100, metrics=1)
    # 15 expected in 100 years; 28 would be three standard deviations more.
    assert found.warnings_per_year <= 0.28
    assert found.demotions_per_year <= 0.05


def test_what_else_is_in_the_store_changes_no_warning() -> None:
    few, many = (
        estimate_false_alarms(DriftPolicy(), NUMBER, seed=1, assets=assets, metrics=1, days=120)
        for assets in (10, 40)
    )
    assert few.assets * few.warnings_per_year <= many.assets * many.warnings_per_year


def test_correlated_windows_cost_an_asset_with_five_metrics_less_than_one_demotion_a_year() -> None:
    found = estimate_false_alarms(
        DriftPolicy(), NUMBER, seed=2, assets=60, metrics=1, kind="correlation 0.5"
    )
    assert 5 * found.demotions_per_year <= 1


@pytest.mark.parametrize(
    ("change", "days", "least"), [(2.0, 7, 0.78), (5.0, 2, 0.9), (None, 30, 0.95)]
)
def test_lasting_changes_are_found_soon(change: float | None, days: int, least: float) -> None:
    """The long run of these is in ``make bench``, section drift-quality."""
    (found,) = estimate_detection(
        DriftPolicy(), NUMBER, changes=[change], seed=3, series=150, within=(days,)
    )
    assert found.found >= least


def test_a_probe_with_a_short_memory_demotes_on_a_sudden_change_of_five_sd() -> None:
    (found,) = estimate_detection(CORRECTED, SIGMA, changes=[5], seed=SEED, series=300, within=(3,))
    assert found.demoted >= 0.93
    (literal,) = estimate_detection(LITERAL, SIGMA, changes=[5], seed=SEED, series=300, within=(3,))
    assert literal.demoted < 0.6


@pytest.mark.slow
def test_warnings_corrected_for_the_tick_are_many_for_an_asset_alone() -> None:
    found = estimate_false_alarms(CORRECTED, SIGMA, seed=SEED, assets=30)
    assert found.metrics == 5
    literal = estimate_false_alarms(LITERAL, SIGMA, seed=SEED, assets=10, days=90)
    assert literal.warnings_per_month > 10 * found.warnings_per_month
    lone = estimate_false_alarms(isolate_series(CORRECTED), SIGMA, seed=SEED, assets=60)
    assert 0 < lone.demotions_per_year < 1.2
    assert lone.warnings_per_month > 10 * found.warnings_per_month


def test_the_same_seed_gives_the_same_figures_and_another_seed_others() -> None:
    one, same, other = (
        estimate_false_alarms(LITERAL, SIGMA, seed=seed, assets=3, days=60) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_a_breach_that_needs_no_patience_comes_more_often() -> None:
    watch, sigma = SIGMA[0]
    hasty = msgspec.structs.replace(watch, sustained=1)
    patient = msgspec.structs.replace(watch, sustained=3)
    rates = [
        estimate_false_alarms(
            LITERAL, [(one, sigma)], seed=3, assets=6, days=120
        ).demotions_per_year
        for one in (hasty, patient)
    ]
    assert rates[0] > rates[1]
