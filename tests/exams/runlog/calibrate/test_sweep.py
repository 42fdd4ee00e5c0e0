from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.exams.runlog.talks import trace, turn

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import settings_as
from gatemark.exams.runlog.calibrate.calibrate import read_sweep_config
from gatemark.exams.runlog.calibrate.choose_policy import OBJECTIVES, choose_policy, find_pareto_set
from gatemark.exams.runlog.calibrate.sweep import (
    PolicySweep,
    aggregate_policy,
    judge_policy,
    pick_at_share,
    prepare_case,
    replay_gate,
    sweep_policy,
    time_to_words,
)
from gatemark.exams.runlog.calibrate.sweep_config import (
    Constraints,
    GatePolicy,
    SettingsGrid,
    SweepConfig,
    TieBreakWeights,
    list_policies,
)
from gatemark.exams.runlog.replay.token_gate import GateSettings

SMALL = GatePolicy("policy_0000", GateSettings(4, 8, 100, 10_000))


def talk():
    """Bob says 4+4+2 words in one turn; later 3 words, a pause, and 3 more."""
    return prepare_case(
        trace(
            turn("bob", 0, ["a b c d.", " e f g h.", " i j"], step=50),
            turn("bob", 1000, ["k l m", " n o p"], step=200),
        )
    )


def test_the_shipped_grid_has_625_valid_policies_in_nested_order() -> None:
    config = read_sweep_config(None)
    assert config == SweepConfig()
    valid, invalid = list_policies(config.grid)
    assert (len(valid), invalid) == (625, [])
    assert valid[0] == GatePolicy("policy_0000", GateSettings(30, 80, 1000, 4000))
    assert valid[1].settings.max_wait_ms == 5000
    assert valid[5].settings.silence_ms == 1500
    assert valid[624] == GatePolicy("policy_0624", GateSettings(70, 160, 3000, 8000))


def test_policies_that_make_no_sense_keep_their_numbers() -> None:
    grid = SettingsGrid(
        min_words=(50, 75), max_words=(60, 80), silence_ms=(3000,), max_wait_ms=(2000, 4000)
    )
    valid, invalid = list_policies(grid)
    assert [one.policy_id for one in valid] == ["policy_0001", "policy_0003"]
    assert len(invalid) == 6


def test_turns_end_what_is_left_and_silence_ends_what_was_before() -> None:
    found = [(one.at_ms, one.words, one.reason) for one in replay_gate(talk(), SMALL)]
    assert found == [
        (0, 4, "boundary_cue"),
        (50, 4, "boundary_cue"),
        (105, 2, "turn_end"),
        (1200, 3, "silence_timer"),
        (1205, 3, "turn_end"),
    ]


def test_the_numbers_of_a_case_are_worked_out_by_hand() -> None:
    found = sweep_policy(talk(), SMALL, SweepConfig())
    assert (found.ttff_content_ms, found.ttff_trace_ms, found.flush_count) == (0, 0, 5)
    assert (found.chunk_p50, found.chunk_p90, found.chunk_p95, found.chunk_max) == (3, 4, 4, 4)
    assert (found.wait_p95_ms, found.wait_max_ms) == (1095, 1095)
    assert found.spam_rate == 1 / 5
    assert found.timer_rate == 1 / 5
    assert found.timer_under_min_rate == 1.0
    assert found.spam_rates == {"0.5": 0.0, "0.6": 0.2, "0.7": 0.2, "0.8": 0.6}
    assert found.end_of_trace_count == 0


def test_a_case_in_which_nothing_comes_through_has_no_numbers() -> None:
    quiet = prepare_case(trace(turn("bob", 0, ["a"])))
    endless = msgspec.structs.replace(quiet, events=quiet.events[:-1])
    found = sweep_policy(endless, SMALL, SweepConfig())
    assert (found.flush_count, found.end_of_trace_count) == (0, 1)
    assert (found.ttff_content_ms, found.chunk_p50, found.spam_rate) == (None, None, None)


def test_time_to_words_counts_from_the_first_content_delta() -> None:
    case = talk()
    assert len(case.word_times_ms) == 16
    assert time_to_words(case, 4) == 0
    assert time_to_words(case, 5) == 50
    assert time_to_words(case, 16) == 1200
    assert time_to_words(case, 17) is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 3), (0.95, 4), (0.0, 1), (1.0, 4)])
def test_shares_are_found_by_their_rounded_down_index(share: float, expected: int) -> None:
    assert pick_at_share([1, 2, 3, 4], share) == expected
    assert pick_at_share([], share) is None


def swept(name: str = "policy_0000", **changes) -> PolicySweep:
    numbers = {
        "cases": 3,
        "ttff_p50_ms": 900.0,
        "ttff_p95_ms": 1000.0,
        "ttff_trace_p50_ms": 950.0,
        "flushes_mean": 20.0,
        "chunk_p50": 60.0,
        "chunk_p90": 70.0,
        "chunk_p95": 80.0,
        "chunk_max": 90.0,
        "wait_p95_ms": 5000.0,
        "wait_max_ms": 6000.0,
        "spam_rate": 0.05,
        "timer_rate": 0.1,
        "timer_under_min_rate": 0.1,
    }
    return PolicySweep(policy=GatePolicy(name, GateSettings()), **(numbers | changes))


CONFIG = SweepConfig()


@pytest.mark.parametrize(
    ("field", "good", "bad", "words"),
    [
        ("ttff_p95_ms", 1500.0, 1501.0, "ttff_p95_ms must be <= 1500, got 1501"),
        ("spam_rate", 0.10, 0.11, "spam_rate must be <= 0.1, got 0.11"),
        ("timer_under_min_rate", 0.20, 0.21, "timer_under_min_rate must be <= 0.2, got 0.21"),
        ("chunk_p50", 50.0, 49.0, "chunk_p50 must be >= 50, got 49"),
        ("chunk_p95", 180.0, 181.0, "chunk_p95 must be <= 180, got 181"),
        ("wait_p95_ms", 12_000.0, 12_001.0, "wait_p95_ms must be <= 12000, got 12001"),
        ("flushes_mean", 100.0, 100.5, "flushes_mean must be <= 100, got 100.5"),
    ],
)
def test_every_constraint_holds_on_its_line_and_breaks_beyond(field, good, bad, words) -> None:
    assert judge_policy(swept(**{field: good}), CONFIG, 500.0).violations == ()
    assert judge_policy(swept(**{field: bad}), CONFIG, 500.0).violations == (words,)


def test_pieces_must_also_be_large_for_their_own_policy() -> None:
    config = SweepConfig(constraints=Constraints(chunk_p50_min_words=1))
    assert judge_policy(swept(chunk_p50=36.0), config, 500.0).violations == ()
    assert judge_policy(swept(chunk_p50=35.0), config, 500.0).violations == (
        "chunk_p50 must be >= 36, got 35",
    )


@pytest.mark.parametrize("field", ["ttff_p95_ms", "spam_rate", "chunk_p50", "chunk_p95"])
def test_what_could_not_be_measured_holds_nothing(field: str) -> None:
    found = judge_policy(swept(**{field: None}), CONFIG, 500.0).violations
    assert f"{field} could not be measured" in found
    assert "ttff_p95_ms could not be measured" in judge_policy(swept(), CONFIG, None).violations


def test_policies_are_summed_up_by_middles_means_and_worst_cases() -> None:
    case = sweep_policy(talk(), SMALL, CONFIG)
    other = msgspec.structs.replace(
        case, case_id="case-2", ttff_content_ms=80, chunk_p95=9, flush_count=1
    )
    found = aggregate_policy(SMALL, [case, other])
    assert (found.ttff_p50_ms, found.flushes_mean, found.chunk_p95) == (80, 3.0, 9)
    assert aggregate_policy(SMALL, []).chunk_p50 is None


NUMBERS = st.integers(0, 4).map(float)
CROWDS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=12)


@given(crowd=CROWDS)
@settings(deadline=None, max_examples=100)
def test_nobody_beats_the_pareto_set_and_everybody_else_is_beaten(crowd) -> None:
    found = [
        swept(f"policy_{place:04d}", ttff_p50_ms=ttff, flushes_mean=flushes, chunk_p50=chunk)
        for place, (ttff, flushes, chunk) in enumerate(crowd)
    ]
    costs = {
        one.policy.policy_id: (one.ttff_p50_ms, one.flushes_mean, -one.chunk_p50) for one in found
    }

    def beaten(name: str) -> bool:
        return any(
            other != costs[name] and all(a <= b for a, b in zip(other, costs[name], strict=True))
            for other in costs.values()
        )

    front = {one.policy.policy_id for one in find_pareto_set(found, OBJECTIVES)}
    assert front == {name for name in costs if not beaten(name)}
    assert front


def test_the_choice_is_nearest_to_the_best_of_everything() -> None:
    crowd = [
        swept("policy_0001", ttff_p50_ms=100.0, flushes_mean=50.0, chunk_p50=40.0),
        swept("policy_0002", ttff_p50_ms=400.0, flushes_mean=20.0, chunk_p50=70.0),
        swept("policy_0003", ttff_p50_ms=1000.0, flushes_mean=10.0, chunk_p50=90.0),
        swept("policy_0004", ttff_p50_ms=1000.0, flushes_mean=50.0, chunk_p50=40.0),
    ]
    found = choose_policy(crowd, TieBreakWeights())
    assert found is not None
    assert found.method == "pareto_utopia"
    assert found.pareto == ("policy_0001", "policy_0002", "policy_0003")
    assert found.chosen.policy.policy_id == "policy_0002"
    # goodness of policy_0002: ttff 600/900, flushes 30/40, chunk 30/50
    by_hand = (((1 / 3) ** 2 + (1 / 4) ** 2 + (2 / 5) ** 2) / 3) ** 0.5
    assert found.distances["policy_0002"] == pytest.approx(by_hand)


def test_objectives_that_hardly_differ_are_left_out() -> None:
    crowd = [
        swept("policy_0001", ttff_p50_ms=100.0, flushes_mean=20.0, chunk_p50=60.0),
        swept("policy_0002", ttff_p50_ms=104.9, flushes_mean=21.9, chunk_p50=62.0),
    ]
    found = choose_policy(crowd, TieBreakWeights())
    assert found is not None
    assert found.dropped == ("ttff", "flushes")
    assert found.chosen.policy.policy_id == "policy_0002"


def test_where_no_objective_differs_the_weighted_score_decides_and_then_the_order() -> None:
    alike = [swept("policy_0001"), swept("policy_0002", spam_rate=0.01)]
    found = choose_policy(alike, TieBreakWeights())
    assert found is not None
    assert (found.method, found.chosen.policy.policy_id) == ("weighted_score", "policy_0002")
    assert found.scores == {"policy_0001": 0.0, "policy_0002": 1.0}
    same = choose_policy([swept("policy_0002"), swept("policy_0001")], TieBreakWeights())
    assert same is not None
    assert (same.method, same.chosen.policy.policy_id) == ("lexicographic", "policy_0001")
    assert choose_policy([], TieBreakWeights()) is None


def test_ties_go_to_fewer_flushes_then_larger_pieces_then_earlier_ones() -> None:
    base = {"ttff_p50_ms": 900.0, "flushes_mean": 20.0, "chunk_p50": 60.0}
    for better in ({"flushes_mean": 19.5}, {"chunk_p50": 61.0}, {"ttff_p50_ms": 899.0}):
        found = choose_policy(
            [swept("policy_0001", **base), swept("policy_0002", **(base | better))],
            TieBreakWeights(),
        )
        assert found is not None
        assert found.chosen.policy.policy_id == "policy_0002"


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        ({"flushes_mean": 10.0, "chunk_p50": 60.0}, {"flushes_mean": 20.0, "chunk_p50": 70.0}),
        ({"chunk_p50": 70.0, "ttff_p50_ms": 900.0}, {"chunk_p50": 60.0, "ttff_p50_ms": 800.0}),
        ({"ttff_p50_ms": 800.0, "flushes_mean": 20.0}, {"ttff_p50_ms": 900.0}),
    ],
)
def test_of_two_that_are_equally_far_from_the_best_the_order_of_ties_decides(
    winner: dict[str, float], loser: dict[str, float]
) -> None:
    found = choose_policy(
        [swept("policy_0001", **loser), swept("policy_0002", **winner)], TieBreakWeights()
    )
    assert found is not None
    assert found.chosen.policy.policy_id == "policy_0002"
    if len(loser) == 2:
        assert found.distances["policy_0001"] == found.distances["policy_0002"]


def test_many_survivors_are_scaled_between_percentiles() -> None:
    crowd = [swept(f"policy_{n:04d}", ttff_p50_ms=float(n), chunk_p50=60.0 + n) for n in range(100)]
    found = choose_policy(crowd, TieBreakWeights())
    assert found is not None
    assert (found.bounds["ttff"].low, found.bounds["ttff"].high) == (5.0, 95.0)


@pytest.mark.parametrize(
    "raw", [{"grid": {"min_words": []}}, {"gird": {}}, {"constraints": {"spam_max_rate": 2}}, ["x"]]
)
def test_a_configuration_that_makes_no_sense_is_refused(raw) -> None:
    with pytest.raises(BadInputError, match=r"^c\.yaml: "):
        settings_as(raw, SweepConfig, "c.yaml")
