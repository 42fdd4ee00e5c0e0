"""Laws of the verdict over whole packs: losing evidence never helps, order never matters."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.policy import Finding
from gatemark.evidence.rows import frozen_rows
from gatemark.packs.answers import Answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.judge import PackDecision, judge_run
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.run import AnsweredRun, Run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BETTER = ("fail", "inconclusive", "pass")
Scores = list[float | None]


def opened(
    sizes: dict[str, int], *, margin: float = 0.05, same_rows: bool = False, **changes: Any
) -> OpenPack:
    per_suite = changes.pop("per_suite", {})
    pack = msgspec.convert(
        {
            "gatemark": 1,
            "name": "laws",
            "version": 1,
            "asset": {"kind": "model", "name": "laws"},
            "score_min": 0.0,
            "regression_max": margin,
            "suites": [
                {
                    "id": name,
                    "kind": "golden",
                    "weight": 1 / len(sizes),
                    "dataset": f"{name}.jsonl",
                    "errors_max": 1.0,
                    **per_suite,
                }
                for name in sizes
            ],
            "targets": {"candidate": {}, "baseline": {}},
            **changes,
        },
        Pack,
    )
    rows = {
        name: frozen_rows(
            name,
            [{"id": f"i{n:03d}", "input": f"{'' if same_rows else name}{n}"} for n in range(size)],
        )
        for name, size in sizes.items()
    }
    return OpenPack(pack, Path(), rows)


def arm(scores: dict[str, Scores]) -> dict[str, tuple[Answer, ...]]:
    return {
        name: tuple(
            Answer(f"i{n:03d}", 1, "x", score, None if score is not None else "crashed")
            for n, score in enumerate(given)
        )
        for name, given in scores.items()
    }


def judged(
    pack: OpenPack, candidate: dict[str, Scores], baseline: dict[str, Scores]
) -> PackDecision:
    return judge_answers(pack, arm(candidate), arm(baseline))


def judge_answers(
    pack: OpenPack,
    candidate: dict[str, tuple[Answer, ...]],
    baseline: dict[str, tuple[Answer, ...]],
) -> PackDecision:
    arms = {"candidate": ArmAnswers(candidate), "baseline": ArmAnswers(baseline)}
    return judge_run(AnsweredRun(Run(pack, NOW), arms), now=NOW)


def finding(decision: PackDecision, rule: str) -> Finding:
    (found,) = [one for one in decision.verdict.findings if one.rule == rule]
    return found


GRADES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
ITEMS = 40
ARMS = st.lists(st.tuples(GRADES, GRADES), min_size=ITEMS, max_size=ITEMS)


@settings(max_examples=120, deadline=None)
@given(ARMS, ARMS, st.sets(st.integers(0, ITEMS - 1), max_size=8), st.sampled_from([0.1, 0.2, 0.4]))
def test_an_error_of_the_candidate_never_makes_a_verdict_better(
    a: list[tuple[float, float]],
    b: list[tuple[float, float]],
    lost: set[int],
    margin: float,
) -> None:
    pack = opened({"a": ITEMS, "b": ITEMS}, margin=margin)
    baseline: dict[str, Scores] = {"a": [one[1] for one in a], "b": [one[1] for one in b]}
    whole: dict[str, Scores] = {"a": [one[0] for one in a], "b": [one[0] for one in b]}
    broken = {**whole, "a": [None if n in lost else s for n, s in enumerate(whole["a"])]}
    before = judged(pack, whole, baseline).verdict.outcome
    after = judged(pack, broken, baseline).verdict.outcome
    assert before == "pass" or after != "pass"


@settings(max_examples=40, deadline=None)
@given(ARMS, ARMS, st.integers(1, ITEMS - 1))
def test_a_dropped_answer_of_the_candidate_never_passes(
    a: list[tuple[float, float]], b: list[tuple[float, float]], kept: int
) -> None:
    pack = opened({"a": ITEMS, "b": ITEMS}, margin=0.4)
    baseline: dict[str, Scores] = {"a": [one[1] for one in a], "b": [one[1] for one in b]}
    short: dict[str, Scores] = {"a": [one[0] for one in a][:kept], "b": [one[0] for one in b]}
    assert judged(pack, short, baseline).verdict.outcome != "pass"


@settings(max_examples=30, deadline=None)
@given(ARMS, ARMS)
def test_the_order_of_suites_and_answers_changes_nothing(
    a: list[tuple[float, float]], b: list[tuple[float, float]]
) -> None:
    pack = opened({"a": ITEMS, "b": ITEMS}, margin=0.2)
    turned = msgspec.structs.replace(
        pack, pack=msgspec.structs.replace(pack.pack, suites=pack.pack.suites[::-1])
    )
    candidate = arm({"a": [one[0] for one in a], "b": [one[0] for one in b]})
    baseline = arm({"a": [one[1] for one in a], "b": [one[1] for one in b]})
    ours = judge_answers(pack, candidate, baseline)
    theirs = judge_answers(
        turned,
        {name: given[::-1] for name, given in candidate.items()},
        {name: given[::-1] for name, given in baseline.items()},
    )
    assert ours.verdict.outcome == theirs.verdict.outcome
    numbers = {n.key: n for n in theirs.measurements}
    assert {n.key: (n.value, n.interval) for n in ours.measurements} == {
        key: (n.value, n.interval) for key, n in numbers.items()
    }


@pytest.mark.parametrize(("items", "outcome"), [(29, "inconclusive"), (30, "pass")])
def test_an_identical_candidate_passes_as_soon_as_the_items_suffice(
    items: int, outcome: str
) -> None:
    """60 items in the pool at margin 0.05, 30 in each guard at 0.1: the rule of three."""
    pack = opened({"a": items, "b": items})
    same: dict[str, Scores] = {name: [1.0, 0.5, 0.0] * 10 for name in "ab"}
    same = {name: scores[:items] for name, scores in same.items()}
    assert judged(pack, same, same).verdict.outcome == outcome


@settings(max_examples=40, deadline=None)
@given(st.lists(GRADES, min_size=2, max_size=60), st.sampled_from([0.0, 0.01, 0.3]))
def test_an_identical_candidate_is_never_failed(scores: list[float], margin: float) -> None:
    pack = opened({"a": len(scores), "b": len(scores)}, margin=margin)
    same: dict[str, Scores] = {"a": [*scores], "b": [*scores]}
    assert judged(pack, same, same).verdict.outcome != "fail"


def losing(n: int, lost: int, gained: int = 0) -> tuple[Scores, Scores]:
    """Candidate and baseline with so many items lost and gained."""
    rest = n - lost - gained
    return (
        [0.0] * lost + [1.0] * gained + [1.0] * rest,
        [1.0] * lost + [0.0] * gained + [1.0] * rest,
    )


def test_drops_that_each_suite_tolerates_fail_together() -> None:
    """Every suite drops by 0.08: within its guard of 0.1, and beyond the margin as a whole."""
    names = "abcd"
    pack = opened(dict.fromkeys(names, 400))
    arms = losing(400, 32)
    decision = judged(pack, dict.fromkeys(names, arms[0]), dict.fromkeys(names, arms[1]))
    assert decision.verdict.outcome == "fail"
    assert finding(decision, "bench.regression").verdict == "fail"
    assert {finding(decision, f"{name}.regression").verdict for name in names} <= {
        "pass",
        "inconclusive",
    }


def test_a_collapse_of_one_suite_fails_by_its_guard() -> None:
    pack = opened(dict.fromkeys("abcd", 400))
    worse, same = losing(400, 72), losing(400, 0)
    decision = judged(
        pack,
        {"a": worse[0], **dict.fromkeys("bcd", same[0])},
        {"a": worse[1], **dict.fromkeys("bcd", same[1])},
    )
    assert finding(decision, "a.regression").verdict == "fail"
    assert finding(decision, "bench.regression").verdict == "inconclusive"
    assert decision.verdict.outcome == "fail"


def test_an_open_verdict_says_how_many_items_would_decide() -> None:
    pack = opened(dict.fromkeys("ab", 200), margin=0.02)
    arms = losing(200, 6, 6)
    decision = judged(pack, dict.fromkeys("ab", arms[0]), dict.fromkeys("ab", arms[1]))
    open_finding = finding(decision, "bench.regression")
    assert open_finding.verdict == "inconclusive"
    assert str(open_finding.reason).startswith("bench_regression must be <= 0.02, got 0 [-0.0")
    assert "items would decide" in str(open_finding.reason)
    (needed,) = [n for n in decision.measurements if n.name == "bench_regression_items_needed"]
    assert needed.value is not None
    times = -(-int(needed.value) // 400)
    many = opened(dict.fromkeys("ab", 200 * times), margin=0.02)
    more = losing(200 * times, 6 * times, 6 * times)
    decided = judged(many, dict.fromkeys("ab", more[0]), dict.fromkeys("ab", more[1]))
    assert finding(decided, "bench.regression").verdict == "pass"


def test_the_same_items_in_two_suites_count_once() -> None:
    """60 items in two suites are 60, not 120: what suffices for 120 does not suffice for them."""
    same: dict[str, Scores] = {name: [1.0] * 60 for name in "ab"}
    apart = judged(opened(dict.fromkeys("ab", 60), margin=0.04, guard_max=1.0), same, same)
    shared = opened(dict.fromkeys("ab", 60), margin=0.04, guard_max=1.0, same_rows=True)
    assert finding(apart, "bench.regression").verdict == "pass"
    assert finding(judged(shared, same, same), "bench.regression").verdict == "inconclusive"


def test_suites_by_the_point_stay_out_of_the_pool_and_exact() -> None:
    pack = opened(dict.fromkeys("ab", 50), margin=0.02, per_suite={"regression": "point"})
    arms = losing(50, 1)
    decision = judged(pack, dict.fromkeys("ab", arms[0]), dict.fromkeys("ab", arms[1]))
    assert finding(decision, "a.regression").verdict == "pass"
    assert not any(one.rule == "bench.regression" for one in decision.verdict.findings)
    worse = losing(50, 2)
    failed = judged(pack, dict.fromkeys("ab", worse[0]), dict.fromkeys("ab", worse[1]))
    assert finding(failed, "a.regression").verdict == "fail"


def test_several_claims_are_counted_before_one_fails() -> None:
    """One drop just beyond its guard fails alone, and not as one of many."""
    arms, same = losing(400, 57), losing(400, 0)
    few = opened({"a": 400, "b": 400}, margin=0.05, guard_max=0.1)
    names = [f"s{n}" for n in range(20)]
    many = opened({"a": 400, **dict.fromkeys(names, 400)}, margin=0.05, guard_max=0.1)
    of_few = judged(few, {"a": arms[0], "b": same[0]}, {"a": arms[1], "b": same[1]})
    of_many = judged(
        many,
        {"a": arms[0], **dict.fromkeys(names, same[0])},
        {"a": arms[1], **dict.fromkeys(names, same[1])},
    )
    assert finding(of_few, "a.regression").verdict == "fail"
    assert finding(of_many, "a.regression").verdict == "inconclusive"
    assert "number of comparisons" in str(finding(of_many, "a.regression").reason)


def test_a_declared_range_helps_graded_scores_until_an_item_breaks_it() -> None:
    small: Scores = [0.5, 0.52] * 30
    moved: Scores = [0.52, 0.5] * 30
    wide = judged(
        opened(dict.fromkeys("ab", 60), margin=0.02),
        dict.fromkeys("ab", small),
        dict.fromkeys("ab", moved),
    )
    declared = opened(dict.fromkeys("ab", 60), margin=0.02, per_suite={"largest_drop": 0.2})
    narrow = judged(declared, dict.fromkeys("ab", small), dict.fromkeys("ab", moved))
    assert (wide.verdict.outcome, narrow.verdict.outcome) == ("inconclusive", "pass")
    broken = [0.0, *small[1:]]
    told = judged(declared, {"a": broken, "b": small}, dict.fromkeys("ab", moved))
    assert told.verdict.outcome == "inconclusive"
    (drop,) = [n for n in told.measurements if n.name == "bench_regression"]
    assert drop.caveats == ("a: an item moved by more than largest_drop 0.2, so 1 is used instead",)
