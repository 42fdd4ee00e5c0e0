"""Golden accuracy is held against the fixed score of the version's sealed result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.probe import ProbeReport
from gatemark.release.drift.signal import DriftSignal

from .live import METRIC, Live

POLICY = DriftPolicy(on_breach="stop")
ITEMS = 200


@pytest.fixture
def live(tmp_path: Path) -> Live:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable(score=0.9)
    return found


def golden(found: ProbeReport) -> DriftSignal:
    (signal,) = (one for one in found.signals if one.metric == METRIC)
    return signal


def push(live: Live, first: int, rates: list[float], **more: Any) -> None:
    live.push(first, rates, n=ITEMS, **more)


def test_a_fresh_version_is_judged_from_its_first_window(live: Live) -> None:
    push(live, 0, [0.9])
    well = golden(live.probe(1, policy=POLICY))
    assert (well.level, well.detector, well.mu, well.baseline_windows) == ("OK", "sealed", 0.9, 0)
    push(live, 1, [0.7])
    found = live.probe(2, policy=POLICY)
    assert golden(found).level == "BREACH"
    assert "against the sealed score 0.9" in golden(found).reason
    assert live.stage() == "demoted"
    assert verify_ledger(live.workspace.store).issues == ()


def test_without_a_score_in_its_result_a_version_waits_for_a_baseline(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable()
    push(live, 0, [0.9, 0.7])
    assert golden(live.probe(2, policy=POLICY)).level == "INSUFFICIENT_BASELINE"


def test_a_slow_decay_that_a_rolling_baseline_follows_is_found(live: Live) -> None:
    rates = [round(0.9 - 0.0012 * day, 4) for day in range(120)]
    push(live, 0, rates)
    found = [golden(live.probe(day, policy=POLICY)) for day in range(60, 121, 10)]
    assert {one.level for one in found} & {"WARN", "BREACH"}
    assert {one.mu for one in found if one.detector == "sealed"} == {0.9}


def test_a_fall_back_to_the_sealed_score_is_not_harm(live: Live) -> None:
    rng = np.random.default_rng(5)
    better = (rng.binomial(ITEMS, 0.98, 40) / ITEMS).tolist()
    push(live, 0, [*better, *[0.905] * 8])
    found = live.probe(48, policy=POLICY)
    assert golden(found).level == "INFO"
    assert golden(found).reason.endswith("but not below the sealed score 0.9")
    assert (found.episodes, live.stage()) == ((), "enabled")


def test_a_percentage_is_not_compared_with_a_share(live: Live) -> None:
    push(live, 0, [90.0, 91.0, 89.0])
    assert golden(live.probe(3, policy=POLICY)).level == "INSUFFICIENT_BASELINE"


def test_a_series_named_as_a_suite_is_held_against_the_score_of_the_suite(live: Live) -> None:
    push(live, 0, [0.7], metric="golden")
    found = live.probe(1, policy=POLICY)
    (signal,) = (one for one in found.signals if one.metric == "golden")
    assert (signal.level, signal.detector) == ("BREACH", "sealed")


def test_the_literal_mode_knows_no_sealed_score(live: Live) -> None:
    push(live, 0, [0.9, 0.7])
    found = golden(live.probe(2, policy=DriftPolicy(mode="literal")))
    assert found.level == "INSUFFICIENT_BASELINE"
