"""Slices of a suite as lanes with rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs.test_verdict_laws import NOW

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding
from gatemark.evidence.rows import frozen_rows
from gatemark.packs.answers import Answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.judge import PackDecision, judge_run
from gatemark.packs.lint.rules import find_unsatisfiable_rules
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.run import AnsweredRun, Run
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.slices import find_slices

Sizes = dict[str | None, int]
SUITE: dict[str, Any] = {
    "id": "g",
    "kind": "golden",
    "weight": 1.0,
    "dataset": "g.jsonl",
    "regression_max": 1.0,
    "slices": ["region"],
}


def tags_of(sizes: Sizes) -> list[dict[str, str]]:
    return [{"region": v} if v is not None else {} for v, n in sizes.items() for _ in range(n)]


def opened(sizes: Sizes, **suite: Any) -> OpenPack:
    pack = {
        "gatemark": 1,
        "name": "sliced",
        "version": 1,
        "asset": {"kind": "model", "name": "sliced"},
        "score_min": 0.0,
        "regression_max": 1.0,
        "suites": [{**SUITE, **suite}],
        "targets": {"candidate": {"python": "a:b"}, "baseline": {"python": "a:c"}},
    }
    rows = [
        {"id": f"i{n:04d}", "input": str(n), "target": "x", "tags": tags}
        for n, tags in enumerate(tags_of(sizes))
    ]
    return OpenPack(msgspec.convert(pack, Pack), Path(), {"g": frozen_rows("g", rows)})


def arm(sizes: Sizes, wrong: Sizes | None = None) -> tuple[Answer, ...]:
    """All right but for the first so many items of some slices."""
    left = dict(wrong or {})
    answers = []
    for n, tags in enumerate(tags_of(sizes)):
        value = tags.get("region")
        is_wrong = left.get(value, 0) > 0
        left[value] = left.get(value, 0) - 1
        answers.append(Answer(f"i{n:04d}", 1, "x", 0.0 if is_wrong else 1.0, None, tags=tags))
    return tuple(answers)


def decided(
    pack: OpenPack, candidate: tuple[Answer, ...], baseline: tuple[Answer, ...] | None
) -> PackDecision:
    arms = {"candidate": ArmAnswers({"g": candidate})}
    if baseline is not None:
        arms["baseline"] = ArmAnswers({"g": baseline})
    return judge_run(AnsweredRun(Run(pack, NOW), arms), now=NOW)


def finding(decision: PackDecision, rule: str) -> Finding:
    return next(one for one in decision.verdict.findings if one.rule == rule)


def number(decision: PackDecision, name: str, scope: str) -> Measurement:
    return next(one for one in decision.measurements if one.key == (name, scope))


def test_every_slice_is_a_lane_and_items_without_the_tag_are_one() -> None:
    sizes: Sizes = {"eu": 40, "us": 30, None: 25}
    found = decided(opened(sizes), arm(sizes, {"us": 3}), arm(sizes))
    scores = {
        one.scope: (one.value, one.n) for one in found.measurements if one.name == "slice_score"
    }
    assert scores == {
        "g/region=eu": (1.0, 40),
        "g/region=us": (0.9, 30),
        "g/region=(none)": (1.0, 25),
    }
    drop = number(found, "slice_regression", "g/region=us")
    assert drop.value == pytest.approx(0.1)
    assert drop.interval is not None
    assert drop.interval.low < 0.1 < drop.interval.high
    assert not [one for one in found.verdict.findings if "slice" in one.rule]
    assert found.verdict.outcome == "pass"


@pytest.mark.parametrize(("wrong", "verdict"), [(3, "pass"), (4, "fail")])
def test_no_slice_may_score_below_slice_min(wrong: int, verdict: str) -> None:
    sizes: Sizes = {"eu": 400, "us": 30}
    pack = opened(sizes, slice_min=0.9)
    found = decided(pack, arm(sizes, {"us": wrong}), arm(sizes))
    assert finding(found, "g.slice_floor").verdict == verdict
    assert found.verdict.outcome == verdict
    if verdict == "fail":
        assert str(finding(found, "g.slice_floor").reason).endswith("worst in region=us")


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "pass"), (8, "inconclusive"), (30, "fail")])
def test_a_drop_in_one_slice_is_judged_with_its_noise(wrong: int, verdict: str) -> None:
    sizes: Sizes = {"eu": 400, "us": 40}
    pack = opened(sizes, slice_regression_max=0.15)
    found = decided(pack, arm(sizes, {"us": wrong}), arm(sizes))
    assert finding(found, "g.slice_regression").verdict == verdict
    assert found.verdict.outcome == verdict
    if verdict != "pass":
        assert "worst in region=us" in str(finding(found, "g.slice_regression").reason)


def test_more_slices_need_more_evidence_for_one_of_them_to_fail() -> None:
    """A slice that fails alone is held open among many that could have failed by chance."""
    verdicts = []
    for others in (0, 30):
        sizes: Sizes = {"us": 40, **{f"r{n:02d}": 40 for n in range(others)}}
        pack = opened(sizes, slice_regression_max=0.2)
        found = decided(pack, arm(sizes, {"us": 19}), arm(sizes))
        verdicts.append(finding(found, "g.slice_regression").verdict)
    assert verdicts == ["fail", "inconclusive"]


def test_small_slices_are_judged_together_and_too_few_of_them_hold() -> None:
    together: Sizes = {"eu": 100, "a": 8, "b": 7, None: 6}
    pack = opened(together, slice_min=0.9)
    found = decided(pack, arm(together, {"b": 3}), arm(together))
    assert number(found, "slice_score", "g/region=(other)").n == 21
    assert finding(found, "g.slice_floor").verdict == "fail"
    few: Sizes = {"eu": 100, "a": 8, "b": 7}
    pack = opened(few, slice_min=0.9, slice_regression_max=0.5)
    found = decided(pack, arm(few), arm(few))
    for rule in ("g.slice_floor", "g.slice_regression"):
        assert finding(found, rule).verdict == "inconclusive"
        assert "region=(other) has 15 items, too few for slice_min_items 20" in (
            str(finding(found, rule).reason)
        )
    # What is known to fail fails all the same.
    found = decided(pack, arm(few, {"eu": 90}), arm(few))
    assert finding(found, "g.slice_floor").verdict == "fail"
    assert finding(found, "g.slice_regression").verdict == "fail"
    lower = opened(few, slice_min=0.9, slice_min_items=15)
    assert decided(lower, arm(few), arm(few)).verdict.outcome == "pass"
    assert [one for one in find_unsatisfiable_rules(pack) if "(other) has 15 items" in one.message]
    assert not [one for one in find_unsatisfiable_rules(lower) if "slice" in one.message]


def test_without_a_baseline_there_is_no_drop_to_judge() -> None:
    sizes: Sizes = {"eu": 40}
    found = decided(opened(sizes, slice_min=0.9, slice_regression_max=0.2), arm(sizes), None)
    assert {one.rule for one in found.verdict.findings if "slice" in one.rule} == {"g.slice_floor"}


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, 39), min_size=1))
def test_removing_items_of_a_failing_slice_never_gives_a_pass(removed: set[int]) -> None:
    sizes: Sizes = {"us": 40, "eu": 60}
    pack = opened(sizes, slice_min=0.8, slice_regression_max=0.2)
    candidate, baseline = arm(sizes, {"us": 35}), arm(sizes)
    assert decided(pack, candidate, baseline).verdict.outcome == "fail"
    gone = {f"i{n:04d}" for n in removed}
    cut = [tuple(one for one in side if one.id not in gone) for side in (candidate, baseline)]
    for now, before in ((cut[0], baseline), (cut[0], cut[1]), (candidate, cut[1])):
        assert decided(pack, now, before).verdict.outcome != "pass"


@given(
    st.dictionaries(st.integers(), st.dictionaries(st.just("t"), st.sampled_from("abcdef"))),
    st.integers(0, 10),
)
def test_every_item_is_in_exactly_one_slice(tags: dict[int, dict[str, str]], least: int) -> None:
    named = {str(name): (found,) for name, found in tags.items()}
    found = find_slices("t", named, least)
    assert sorted(name for one in found for name in one.ids) == sorted(named)
    assert sum(len(one.ids) < least for one in found) <= 1


def test_rules_on_slices_need_slices() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"need slices: \[tag\]"):
        msgspec.convert({**SUITE, "slices": [], "slice_min": 0.5}, SuiteSpec)


@pytest.mark.parametrize(("tag", "verdict"), [("region", "pass"), ("regoin", "inconclusive")])
def test_a_tag_that_no_item_has_hides_no_slice(tag: str, verdict: str) -> None:
    sizes: Sizes = {"eu": 200, "us": 200}
    pack = opened(sizes, slices=[tag], slice_min=0.9, slice_regression_max=0.1)
    judged = decided(pack, arm(sizes), arm(sizes))
    assert judged.verdict.outcome == verdict
    for rule in ("g.slice_floor", "g.slice_regression"):
        found = finding(judged, rule)
        assert found.verdict == verdict
        assert verdict == "pass" or "no item has the tag 'regoin'" in str(found.reason)
