from __future__ import annotations

import msgspec
import pytest

from gatemark.drift.detectors.registry import detectors
from gatemark.drift.judging.policy import DriftPolicy, Watch
from gatemark.drift.judging.simulate import alone, demoted_within, false_alarms

WATCH = Watch(metric="*")
CORRECTED, LITERAL = DriftPolicy(), DriftPolicy(mode="literal")
SEED = 20_260_301


@pytest.mark.slow
def test_corrected_demotes_on_a_lasting_shift_of_five_sd_within_one_window_more_than_needed() -> (
    None
):
    sigma = detectors().get("sigma")
    share = demoted_within(CORRECTED, WATCH, sigma, seed=SEED, shift_sd=5, series=1000)
    assert share >= 0.95
    assert demoted_within(LITERAL, WATCH, sigma, seed=SEED, shift_sd=5, series=1000) < 0.6


@pytest.mark.slow
def test_corrected_demotes_a_healthy_asset_with_five_metrics_less_than_once_a_year() -> None:
    found = false_alarms(CORRECTED, WATCH, detectors().get("sigma"), seed=SEED, assets=60)
    assert found.metrics == 5
    assert 0 < found.demotions_per_year < 1
    literal = false_alarms(LITERAL, WATCH, detectors().get("sigma"), seed=SEED, assets=10, days=90)
    assert literal.warnings_per_month > 10 * found.warnings_per_month


@pytest.mark.slow
def test_an_asset_alone_in_its_tick_is_demoted_less_than_once_a_year_too() -> None:
    sigma = detectors().get("sigma")
    lone = false_alarms(alone(CORRECTED), WATCH, sigma, seed=SEED, assets=150)
    assert 0 < lone.demotions_per_year < 1
    among = false_alarms(CORRECTED, WATCH, sigma, seed=SEED, assets=30)
    assert lone.warnings_per_month > 10 * among.warnings_per_month


def test_the_same_seed_gives_the_same_figures_and_another_seed_others() -> None:
    sigma = detectors().get("sigma")
    one, same, other = (
        false_alarms(LITERAL, WATCH, sigma, seed=seed, assets=3, days=60) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_a_breach_that_needs_no_patience_comes_more_often() -> None:
    sigma = detectors().get("sigma")
    hasty = msgspec.structs.replace(WATCH, sustained=1)
    patient = msgspec.structs.replace(WATCH, sustained=3)
    rates = [
        false_alarms(LITERAL, watch, sigma, seed=3, assets=6, days=120).demotions_per_year
        for watch in (hasty, patient)
    ]
    assert rates[0] > rates[1]
