from __future__ import annotations

import statistics
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.canonical import digest
from gatemark.release.drift.judging.cohort_state import BaselineWindow
from gatemark.release.drift.judging.policy import Watch
from gatemark.release.drift.judging.tick import BaselineReset
from gatemark.release.drift.signal import LEVELS

from .series import HEALTHY, Days, day


def literal_sigma(values: list[float]) -> float:
    """The source's formula with the standard library alone."""
    *baseline, current = values[-15:]
    return (current - statistics.mean(baseline)) / statistics.stdev(baseline)


def test_literal_is_the_sources_formula_on_worked_examples() -> None:
    for current in (10.0, 12.5, 7.0, 13.9):
        (signal,) = Days([*HEALTHY, current], mode="literal").at(17)
        assert signal.sigma == pytest.approx(literal_sigma([*HEALTHY, current]))
        assert signal.baseline_windows == 14
        expected = "WARN" if abs(signal.sigma) >= 2 else "OK"
        assert signal.level == expected


def test_literal_breaches_only_when_three_sigma_last() -> None:
    shifted = [*HEALTHY, 20.0, 30.0, 10.0]
    assert Days(shifted, mode="literal").levels(17, 19) == ["WARN", "BREACH", "OK"]
    assert literal_sigma(shifted[:18]) >= 3


def test_one_large_window_alone_is_no_breach() -> None:
    days = Days([*HEALTHY, 30.0, 10.0, 10.0])
    assert days.levels(17, 17) == ["WARN"]
    assert days.levels(18, 19) == ["WARN", "WARN"], "until it has been quiet for three windows"
    assert days.opened[0].breached is None


def test_a_shift_that_stays_warns_then_breaches_and_does_not_become_normal() -> None:
    days = Days([*HEALTHY, *[16.0] * 20])
    assert days.levels(17, 36) == ["WARN", *["BREACH"] * 19]
    (episode,) = days.opened
    assert (episode.opened.start, episode.breached.start) == (day(16), day(17))
    assert len(episode.baseline_ids) == 14
    assert all(name < "2026-03-16" for name in episode.baseline_ids), "frozen before the shift"


def test_the_trailing_baseline_of_literal_swallows_the_same_shift() -> None:
    assert Days([*HEALTHY, *[16.0] * 20], mode="literal").levels(36, 36) == ["OK"]


def test_the_mean_of_one_window_more_breaches_where_one_of_them_stays_below() -> None:
    values = [*HEALTHY, 14.2, 13.0, 14.2]
    days = Days(values)
    assert days.levels(17, 19) == ["WARN", "WARN", "BREACH"]
    assert "3 windows on average beyond 3" in days.opened[0].signal.reason
    below = Days(values, breach_by_mean=False)
    assert below.levels(17, 19)[-1] == "WARN"
    (signal,) = Days([*HEALTHY, 13.0]).at(17)
    assert signal.sigma is not None
    assert 2 < signal.sigma < 3


def test_windows_of_opposite_signs_do_not_add_up() -> None:
    assert "BREACH" not in Days([*HEALTHY, 20.0, 0.0, 20.0, 0.0]).levels(17, 20)


@pytest.mark.parametrize(
    ("harm", "value", "level"),
    [
        ("down", 20.0, "INFO"),
        ("down", 0.0, "WARN"),
        ("up", 20.0, "WARN"),
        ("up", 0.0, "INFO"),
        ("both", 20.0, "WARN"),
        ("both", 0.0, "WARN"),
    ],
)
@pytest.mark.parametrize("mode", ["literal", "corrected"])
def test_only_the_harmful_direction_alarms(mode: str, harm: Any, value: float, level: str) -> None:
    days = Days([*HEALTHY, value, value, value], watch=Watch(metric="*", harm=harm), mode=mode)
    assert days.levels(17, 17) == [level]
    if level == "INFO":
        assert "BREACH" not in days.levels(18, 19)
        assert not days.opened


def test_fewer_than_fourteen_windows_decide_nothing_and_fewer_than_seven_show_nothing() -> None:
    days = Days([*HEALTHY[:13], 99.0])
    (signal,) = days.at(14)
    assert (signal.level, signal.baseline_windows) == ("INSUFFICIENT_BASELINE", 13)
    assert signal.sigma is not None
    assert "14 are needed" in signal.reason
    (early,) = Days([*HEALTHY[:5], 99.0]).at(6)
    assert (early.level, early.sigma, early.z) == ("INSUFFICIENT_BASELINE", None, None)
    (first,) = Days([99.0]).at(1)
    assert (first.level, first.baseline_windows) == ("INSUFFICIENT_BASELINE", 0)


def test_fourteen_windows_are_just_enough() -> None:
    (signal,) = Days([*HEALTHY[:14], 10.0]).at(15)
    assert (signal.level, signal.baseline_windows) == ("OK", 14)


def test_a_flat_baseline_is_ok_only_for_the_same_value_and_else_degenerate() -> None:
    flat = [0.9] * 16
    (same,) = Days([*flat, 0.9]).at(17)
    assert (same.level, same.sigma) == ("OK", 0)
    for mode in ("literal", "corrected"):
        days = Days([*flat, 0.8, 0.8, 0.8], mode=mode)
        (moved,) = days.at(17)
        assert (moved.level, moved.sigma, moved.z) == ("DEGENERATE", None, None)
        assert "BREACH" not in days.levels(18, 19), "no sigma, no breach"


def test_a_flat_rate_knows_how_noisy_it_must_be() -> None:
    watch = Watch(metric="*", scale="rate")
    (signal,) = Days([*[0.5] * 16, 0.5], watch=watch).at(17)
    assert signal.level == "OK"
    (moved,) = Days([*[1.0] * 16, 0.0], watch=watch).at(17)
    assert moved.level == "WARN"
    assert moved.sd is not None
    assert moved.sd > 0


def test_a_missing_window_is_stale_and_never_zero() -> None:
    days = Days([*HEALTHY, None, None, 10.0])
    first, second = days.at(17)[0], days.at(18)[0]
    assert (first.level, first.value, first.sigma) == ("STALE", None, None)
    assert (first.extras, second.extras) == ({"missing_windows": 1}, {"missing_windows": 2})
    assert "no point for 2 windows" in second.reason
    assert days.levels(19, 19) == ["OK"]


def test_missing_windows_neither_count_nor_reset_a_run() -> None:
    days = Days([*HEALTHY, 20.0, None, 20.0])
    assert days.levels(17, 19) == ["WARN", "WARN", "BREACH"]


def test_the_baseline_reaches_past_gaps_but_not_for_ever() -> None:
    gappy: list[float | None] = [value for v in HEALTHY for value in (v, None)]
    (signal,) = Days([*gappy[:-2], 10.0]).at(31)
    assert signal.baseline_windows == 14
    sparse: list[float | None] = [value for v in HEALTHY for value in (v, None, None)]
    (signal,) = Days([*sparse, 10.0]).at(49)
    assert signal.level == "INSUFFICIENT_BASELINE"


def test_a_series_without_any_window_is_stale() -> None:
    (signal,) = Days([]).at(5)
    assert signal.level == "STALE"
    assert "no point in the latest" in signal.reason


def test_windows_that_nobody_looked_at_are_judged_in_their_order() -> None:
    values = [*HEALTHY, *[16.0] * 5]
    late = Days(values)
    assert late.levels(21, 21) == ["BREACH"]
    daily = Days(values)
    daily.levels(17, 21)
    assert late.opened[0].id == daily.opened[0].id
    assert late.opened[0].breached == daily.opened[0].breached


def test_looking_twice_counts_once() -> None:
    days = Days([*HEALTHY, 20.0, 10.0])
    first = days.at(17)
    assert days.at(17) == first
    assert days.at(17) == first
    assert first[0].level == "WARN"
    assert days.opened[0].breached is None


def test_a_late_window_is_judged_when_it_comes_before_the_next() -> None:
    days = Days([*HEALTHY, None])
    assert days.levels(17, 17) == ["STALE"]
    days.rows = ([*HEALTHY, 20.0],)
    assert days.levels(17, 17) == ["WARN"]


def test_a_window_that_is_not_over_does_not_count() -> None:
    (signal,) = Days([*HEALTHY, 99.0]).at(16)
    assert signal.level == "OK"


def test_an_episode_closes_after_three_quiet_windows_and_a_breach_never() -> None:
    quiet = Days([*HEALTHY, 20.0, 10.0, 10.0, 10.0])
    assert quiet.levels(17, 20) == ["WARN", "WARN", "WARN", "OK"]
    assert quiet.closed[0].closed_because == "3 windows below 1.5 sigma"
    assert quiet.closed[0].closed_at == day(20)
    breached = Days([*HEALTHY, 20.0, 20.0, *[10.0] * 10])
    assert breached.levels(28, 28) == ["BREACH"]
    assert not breached.closed


def test_windows_between_the_lines_keep_an_episode_open() -> None:
    days = Days([*HEALTHY, 20.0, 10.0, 10.0, 11.9, 10.0, 10.0, 10.0])
    assert days.levels(20, 23) == ["WARN", "WARN", "WARN", "OK"]


def test_a_fresh_result_closes_a_breach_and_starts_a_new_baseline() -> None:
    days = Days([*HEALTHY, *[20.0] * 18, 20.0, 20.5])
    assert days.levels(18, 18) == ["BREACH"]
    fresh = {"a0": BaselineReset(day(18), "v2 entered enabled")}
    (signal,) = days.at(19, fresh)
    assert (signal.level, signal.baseline_windows) == ("INSUFFICIENT_BASELINE", 0)
    assert days.closed[0].closed_because == "v2 entered enabled"
    assert days.at(33, fresh)[0].baseline_windows == 14
    assert days.at(36, fresh)[0].level == "DEGENERATE", "twenty it is now"


def test_the_last_windows_of_the_version_before_are_no_trouble_of_the_next() -> None:
    values = [*HEALTHY, 20.0]
    taken = {"a0": BaselineReset(day(17.01), "2.0.0 entered enabled", is_takeover=True)}
    days = Days(values)
    days.tick(17, taken)
    assert (days.opened, [one.closed_because for one in days.closed]) == (
        (),
        ["2.0.0 entered enabled"],
    )
    first = {"a0": BaselineReset(day(17.01), "1.0.0 entered enabled")}
    days = Days(values)
    days.tick(17, first)
    assert len(days.opened) == 1, "nothing else can have been meant"


def test_a_result_from_before_the_episode_closes_nothing() -> None:
    days = Days([*HEALTHY, *[20.0] * 5])
    days.at(18)
    assert days.at(19, {"a0": BaselineReset(day(16.5), "earlier")})[0].level == "BREACH"


def test_warnings_must_stand_out_among_all_of_the_tick() -> None:
    rng = np.random.default_rng(1)
    rows = [[*HEALTHY, 12.9], *rng.normal(10, 1, (60, 17)).tolist()]
    alone, among = Days(rows[0]).at(17)[0], Days(*rows).at(17)[0]
    assert alone.level == "WARN"
    assert among.level == "INFO"
    assert "adjusted for the tick" in among.reason
    assert alone.z == among.z
    assert Days(*rows, mode="literal").at(17)[0].level == "WARN", "literal asks nobody else"


def test_a_breach_needs_no_company() -> None:
    rng = np.random.default_rng(2)
    rows = [[*HEALTHY, 14.5, 14.5], *rng.normal(10, 1, (200, 18)).tolist()]
    assert Days(*rows).at(18)[0].level == "BREACH"


def test_a_watch_for_warnings_only_never_breaches() -> None:
    watch = Watch(metric="*", detector="ewma", warn_only=True)
    rng = np.random.default_rng(3)
    values = [*rng.normal(10, 1, 30).tolist(), *rng.normal(12, 1, 8).tolist()]
    levels = Days(values, watch=watch).levels(31, 38)
    assert "WARN" in levels
    assert "BREACH" not in levels


def test_ewma_sees_a_small_shift_that_the_sigma_probe_does_not() -> None:
    rng = np.random.default_rng(4)
    base, shifted = rng.normal(10, 1, 30), rng.normal(11.3, 0.4, 6)
    values = [*base.tolist(), *shifted.tolist()]
    ewma = Days(values, watch=Watch(metric="*", detector="ewma", warn_only=True))
    assert "WARN" in ewma.levels(31, 36)
    assert set(Days(values).levels(31, 36)) <= {"OK", "INFO"}


def test_a_change_too_small_to_matter_is_no_alarm_however_sure() -> None:
    tight = [10 + 0.001 * (place % 3) for place in range(16)]
    watch = Watch(metric="*", min_effect=0.5)
    assert Days([*tight, 10.2, 10.2]).levels(17, 18)[-1] == "BREACH"
    assert Days([*tight, 10.2, 10.2], watch=watch).levels(17, 18) == ["OK", "OK"]


def test_a_change_too_small_to_matter_is_no_alarm_after_a_flat_baseline_either() -> None:
    watch = Watch(metric="*", min_effect=0.5)
    days = Days([*[10.0] * 16, 10.4, 10.5], watch=watch)
    (small,) = days.at(17)
    assert (small.level, small.sigma) == ("OK", None)
    assert small.reason == (
        "differs from a baseline that never changed by less than 0.5 (min_effect)"
    )
    assert Days([*[10.0] * 16, 10.5], watch=watch).at(17)[0].level == "DEGENERATE"


def test_a_frozen_baseline_is_read_back_as_it_was() -> None:
    days = Days([*HEALTHY, 20.0, 20.0])
    days.levels(17, 18)
    ((_, kept),) = days.open.values()
    again = msgspec.json.decode(msgspec.json.encode(kept), type=tuple[BaselineWindow, ...])
    assert again == kept
    assert len(again) == 14
    assert digest(again) == days.opened[0].baseline_digest


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.one_of(st.none(), st.sampled_from([0.0, 0.9, 1.0]), st.floats(-1e18, 1e18)),
        max_size=24,
    ),
    st.sampled_from(["literal", "corrected"]),
)
def test_no_series_crashes_or_gives_a_number_that_is_none(
    values: list[float | None], mode: str
) -> None:
    days = Days(values, mode=mode)
    (signal,) = days.at(len(values))
    assert signal.level in LEVELS
    assert b"NaN" not in msgspec.json.encode(signal)
    if not values or values[-1] is None:
        assert signal.level not in ("OK", "INFO")
    if sum(value is not None for value in values[:-1]) < 14:
        assert signal.level in ("STALE", "INSUFFICIENT_BASELINE")
