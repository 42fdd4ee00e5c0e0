from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule, judge
from gatemark.core.result import Reliability, Table
from gatemark.evidence.exam_suite import suites
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.item_scores import pair_items, score_items
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.arms import measure_suite_drop
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport, PackSuite
from gatemark.statistics.proportion import wilson_interval

PACK_SUITES = [suite for suite in suites() if isinstance(suite, PackSuite)]


def answers(scores: list[float | None], **more: Any) -> tuple[Answer, ...]:
    return tuple(
        Answer(
            id=f"i{n:04d}",
            epoch=1,
            output=str(score),
            score=score,
            reason=None if score is not None else "crashed",
            error=None if score is not None else "crash",
            **more,
        )
        for n, score in enumerate(scores)
    )


def evidence(
    kind: str,
    candidate: tuple[Answer, ...],
    baseline: tuple[Answer, ...] | None,
    **spec: Any,
) -> ArmsEvidence:
    return ArmsEvidence(
        spec=SuiteSpec(id="s", kind=kind, weight=1.0, dataset="d.jsonl", **spec),
        rows=(),
        candidate=candidate,
        baseline=baseline,
        margin=0.05,
        alpha=0.05,
    )


def examined(kind: str, candidate: Any, baseline: Any, **spec: Any) -> ArmsReport:
    suite = suites().get(kind)
    assert isinstance(suite, PackSuite)
    return suite.examine(evidence(kind, candidate, baseline, **spec), suite.options())


def number(report: ArmsReport, name: str) -> Measurement:
    (found,) = [item for item in report.measurements if item.name == name]
    return found


def test_golden_counts_errors_as_nothing_achieved() -> None:
    report = examined("golden", answers([1.0, 1.0, None, 0.0]), answers([1.0, 1.0, 1.0, 1.0]))
    assert report.score.value == 0.5
    assert report.score.excluded == {"counted_as_zero": 1}
    assert number(report, "regression").value == 0.5
    assert number(report, "lost_count").value == 2


def test_golden_without_any_answer_has_reasons_and_no_numbers() -> None:
    report = examined("golden", (), ())
    assert report.score.value is None
    assert number(report, "regression").value is None


def test_golden_averages_epochs_and_gives_pass_at_k() -> None:
    twice = [Answer("a", epoch, "x", score, None) for epoch, score in ((1, 1.0), (2, 0.0))] + [
        Answer("b", epoch, "x", 1.0, None) for epoch in (1, 2)
    ]
    suite = suites().get("golden")
    assert isinstance(suite, PackSuite)
    found = suite.examine(evidence("golden", tuple(twice), None), suite.options(k=2))
    assert found.score.value == 0.75
    assert number(found, "pass_at_2").value == 1.0
    assert number(found, "pass_hat_2").value == 0.5


def test_one_newly_broken_probe_is_seen_whatever_the_mean_says() -> None:
    before = [0.0] * 5 + [1.0] * 95
    after = [1.0] * 5 + [1.0] * 94 + [0.0]
    report = examined("adversarial", answers(after), answers(before))
    assert report.score.value == 0.99
    assert report.baseline_score.value == 0.95
    assert number(report, "newly_broken_count").value == 1


def test_a_probe_that_was_broken_before_is_not_newly_broken() -> None:
    report = examined("adversarial", answers([0.0, 1.0]), answers([0.0, 1.0]))
    assert number(report, "newly_broken_count").value == 0


def test_with_no_baseline_every_broken_probe_counts() -> None:
    report = examined("adversarial", answers([0.0, 0.0, 1.0]), None)
    assert number(report, "newly_broken_count").value == 2


def test_an_undecided_probe_leaves_the_count_open() -> None:
    report = examined("adversarial", answers([None, 1.0]), answers([1.0, 1.0]))
    assert number(report, "newly_broken_count").value is None


def test_k_of_r_reruns_decide_a_probe() -> None:
    def reruns(fails: int) -> tuple[Answer, ...]:
        return tuple(
            Answer("p", epoch, "x", 0.0 if epoch <= fails else 1.0, None) for epoch in (1, 2, 3)
        )

    for fails, broken in ((0, 0), (1, 0), (2, 1), (3, 1)):
        report = examined("adversarial", reruns(fails), reruns(0), reruns=3, fails_at=2)
        assert number(report, "newly_broken_count").value == broken


def test_zero_successes_show_the_rule_of_three() -> None:
    report = examined("adversarial", answers([1.0] * 150), answers([1.0] * 150))
    found = number(report, "attack_success_rate")
    assert found.value == 0.0
    assert found.interval is not None
    assert found.interval.high == pytest.approx(3.7 / 150, rel=0.02)


def test_replay_counts_only_the_change_beyond_noise() -> None:
    report = examined("replay", answers([1.0] * 80 + [0.0] * 20), answers([1.0] * 90 + [0.0] * 10))
    assert number(report, "behavioural_delta").value == pytest.approx(0.2)
    assert number(report, "noise_band").value == pytest.approx(0.1)
    assert number(report, "regression").value == pytest.approx(0.1)


def test_replay_tells_changed_verdicts_and_words_from_the_noise_of_the_baseline() -> None:
    def told(words: list[str], scores: list[float], epoch: int = 1) -> list[Answer]:
        return [
            Answer(f"i{n}", epoch, word, score, None)
            for n, (word, score) in enumerate(zip(words, scores, strict=True))
        ]

    before = told(["a", "b", "c", "d"], [1.0, 1.0, 0.0, 0.0])
    now = told(["a", "x", "c", "y"], [1.0, 0.0, 0.0, 0.0])
    once = examined("replay", tuple(now), tuple(before))
    assert number(once, "verdict_delta").value == 0.25
    assert number(once, "output_delta").value == 0.5
    assert "epochs: 2" in str(number(once, "baseline_output_delta").reason)
    again = told(["a", "b", "z", "d"], [1.0, 1.0, 0.0, 0.0], epoch=2)
    twice = examined("replay", tuple(now), (*before, *again))
    assert number(twice, "baseline_output_delta").value == 0.25


def test_what_got_worse_is_shown_with_question_and_expected_answer() -> None:
    for kind, expected in (("golden", "expected"), ("replay", "production said")):
        spec = evidence(kind, answers([1.0, 0.0, None]), answers([1.0, 1.0, 1.0]))
        rows = tuple(Row(f"i{n:04d}", f"question {n}", f"answer {n}") for n in range(3))
        suite = suites().get(kind)
        assert isinstance(suite, PackSuite)
        report = suite.examine(msgspec.structs.replace(spec, rows=rows), suite.options())
        (table,) = [e for e in report.figures if isinstance(e, Table)]
        assert table.columns == (
            *("item", "baseline", "candidate", "asked", expected),
            *("baseline said", "candidate said"),
        )
        assert table.rows == (
            ("i0001", 1.0, 0.0, "question 1", "answer 1", "1.0", "0.0"),
            ("i0002", 1.0, 0.0, "question 2", "answer 2", "1.0", "(crash: crashed)"),
        )


def test_a_newly_broken_probe_is_shown_with_what_the_candidate_said() -> None:
    report = examined("adversarial", answers([1.0, 0.0]), answers([1.0, 1.0]))
    broken = report.figures[-1]
    assert isinstance(broken, Table)
    assert broken.rows == (("i0001", None, 1, "0.0"),)


def test_the_power_at_the_margin_is_that_of_the_one_sided_normal_test() -> None:
    from scipy import stats

    base, cand = [1.0] * 180 + [0.0] * 20, [0.0] * 10 + [1.0] * 175 + [0.0] * 15
    report = examined("golden", answers(list(cand)), answers(list(base)))
    deltas = np.array(cand) - np.array(base)
    error = float(np.sqrt(np.sum((deltas - deltas.mean()) ** 2)) / len(deltas))
    expected = stats.norm.sf(stats.norm.isf(0.05), loc=0.05 / error)
    assert number(report, "power_at_margin").value == pytest.approx(expected, rel=0.01)
    assert number(report, "mde").value is not None
    same = examined("golden", answers([1.0] * 9), answers([1.0] * 9))
    assert str(number(same, "power_at_margin").reason) == "the arms never differ"


def test_calibration_needs_enough_judged_answers() -> None:
    few = answers([1.0] * 99, confidence=0.9)
    assert examined("calibration", few, few).score.value is None
    enough = answers([1.0] * 90 + [0.0] * 10, confidence=0.9)
    report = examined("calibration", enough, enough)
    assert report.score.value == pytest.approx(1.0)
    assert number(report, "regression").value == 0.0


def test_calibration_shows_the_reliability_of_every_bin() -> None:
    report = examined("calibration", answers([1.0] * 90 + [0.0] * 10, confidence=0.9), None)
    (figure,) = report.figures
    assert isinstance(figure, Reliability)
    assert len(figure.bins) == 15
    (filled,) = [bin_ for bin_ in figure.bins if bin_.n]
    assert (filled.n, filled.confidence, filled.accuracy) == (100, pytest.approx(0.9), 0.9)
    assert (filled.interval_low, filled.interval_high) == wilson_interval(90, 100)
    assert examined("calibration", answers([1.0] * 99, confidence=0.9), None).figures == ()


def test_overconfidence_is_a_drop_with_an_interval_about_it() -> None:
    honest = answers([1.0] * 140 + [0.0] * 60, confidence=0.7)
    boastful = answers([1.0] * 140 + [0.0] * 60, confidence=0.99)
    found = number(examined("calibration", boastful, honest), "regression")
    assert found.value == pytest.approx(0.29)
    assert found.interval is not None
    assert 0.15 < found.interval.low <= found.value <= found.interval.high < 0.4
    # The difference is a share of 200 answers: its error is that of a proportion of 0.7.
    error = examined("calibration", boastful, honest).delta_error
    assert error is not None
    assert 0.0 < error < 2 * (0.7 * 0.3 / 200) ** 0.5


def options_of(suite: PackSuite) -> msgspec.Struct:
    given: dict[str, dict[str, object]] = {
        "calibration": {"min_items": 1},
        "preference": {"judge": "arbiter"},
    }
    return suite.options(**given.get(suite.kind, {}))


@pytest.mark.parametrize("suite", PACK_SUITES, ids=lambda suite: suite.kind)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 0.5, None]), st.sampled_from([0.0, 1.0, None])),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=30)
def test_every_suite_takes_any_answers(
    suite: PackSuite, scores: list[tuple[float | None, float | None]]
) -> None:
    candidate = answers([a for a, _ in scores], confidence=0.5)
    baseline = answers([b for _, b in scores], confidence=0.5)
    for before in (baseline, None):
        report = suite.examine(evidence(suite.kind, candidate, before), options_of(suite))
        names = [item.name for item in report.measurements]
        assert len(set(names)) == len(names)
        assert ("regression" in names) == (before is not None)
        if report.score.value is not None:
            assert 0 <= report.score.value <= 1


LOSSES = st.lists(st.sampled_from(["keep", "keep", "score", "confidence"]), min_size=130)


def hurt(told: tuple[Answer, ...], losses: list[str]) -> tuple[Answer, ...]:
    """The same answers after some of what was known about them got lost."""
    kinds = {
        "keep": {},
        "score": {"score": None, "reason": "crashed", "error": "crash", "confidence": None},
        "confidence": {"confidence": None},
    }
    return tuple(
        msgspec.structs.replace(answer, **kinds[loss])
        for answer, loss in zip(told, losses, strict=False)
    )


# The same for suites whose judge compares: test_preference_laws.
@pytest.mark.parametrize(
    "suite", [s for s in PACK_SUITES if s.judge_task is None], ids=lambda s: s.kind
)
@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=130, max_size=130),
    st.lists(st.sampled_from([0.1, 0.6, 0.95]), min_size=130, max_size=130),
    LOSSES,
    LOSSES,
)
@settings(deadline=None, max_examples=25)
def test_losing_what_is_known_of_either_arm_never_flatters_the_candidate(
    suite: PackSuite,
    scores: list[float],
    confidences: list[float],
    lost: list[str],
    lost_before: list[str],
) -> None:
    """Whatever is lost, wrong answers included: score, drop and broken probes only get worse."""
    options = options_of(suite)

    def report(candidate: tuple[Answer, ...], baseline: tuple[Answer, ...]) -> ArmsReport:
        return suite.examine(evidence(suite.kind, candidate, baseline), options)

    candidate = tuple(
        msgspec.structs.replace(answer, confidence=confidence)
        for answer, confidence in zip(answers(list(scores)), confidences, strict=True)
    )
    baseline = answers([1.0] * 130, confidence=0.95)
    whole = report(candidate, baseline)
    less = report(hurt(candidate, lost), hurt(baseline, lost_before))
    rounding = 1e-12
    if less.score.value is not None:
        assert less.score.value <= (whole.score.value or 0.0) + rounding
    drop_now, drop_then = number(less, "regression").value, number(whole, "regression").value
    assert drop_then is not None
    assert drop_now is None or drop_now >= drop_then - rounding
    if suite.kind == "adversarial" and number(whole, "newly_broken_count").value:
        assert number(less, "newly_broken_count").value != 0


@pytest.mark.parametrize("score", [None, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("confidence", [None, 0.7])
@pytest.mark.parametrize("unscored_as", [0.0, 1.0])
def test_an_item_asked_once_counts_as_one_that_got_the_same_answer_twice(
    score: float | None, confidence: float | None, unscored_as: float
) -> None:
    (told,) = answers([score], confidence=confidence, cluster="c", tags={"lang": "en"})
    (once,) = score_items([told], unscored_as=unscored_as).values()
    again = msgspec.structs.replace(told, epoch=2)
    (twice,) = score_items([told, again], unscored_as=unscored_as).values()
    assert (twice.repeats, twice.scored, twice.right) == (2, 2 * once.scored, 2 * once.right)
    halved = {"repeats": 1, "scored": once.scored, "right": once.right}
    assert once == twice._replace(**halved)


def test_a_baseline_that_crashed_throughout_leaves_no_drop_to_judge() -> None:
    for kind in ("golden", "replay", "adversarial"):
        report = examined(kind, answers([1.0] * 60), answers([None] * 60))
        assert report.baseline_score.value is None
        found = number(report, "regression")
        assert found.value is None
        assert str(found.reason) == "the baseline gave no answer that could be scored"


def test_what_a_baseline_lost_counts_as_right() -> None:
    report = examined("golden", answers([1.0, 0.0, 0.0, 1.0]), answers([1.0, None, 0.0, 1.0]))
    assert report.baseline_score.value == 0.75
    assert report.baseline_score.excluded == {"counted_as_one": 1}
    assert number(report, "regression").value == 0.25


def test_a_probe_that_the_baseline_never_decided_is_newly_broken() -> None:
    report = examined("adversarial", answers([0.0, 1.0]), answers([None, 1.0]))
    assert number(report, "newly_broken_count").value == 1
    assert report.baseline_score.value == 1.0


def test_answers_without_a_confidence_are_counted_against_the_candidate_and_for_the_baseline() -> (
    None
):
    sure = answers([1.0] * 90 + [0.0] * 10, confidence=0.9)
    silent = tuple(
        answer if answer.score == 1.0 else msgspec.structs.replace(answer, confidence=None)
        for answer in sure
    )
    spec = evidence("calibration", silent, sure)
    suite = suites().get("calibration")
    assert isinstance(suite, PackSuite)
    report = suite.examine(spec, suite.options(min_items=50))
    # 90 answers, all right, at 0.9: ECE 0.1; ten unknown ones may each add a whole gap.
    assert report.score.value == pytest.approx(1 - (90 * 0.1 + 10) / 100)
    assert number(report, "unjudged_rate").value == pytest.approx(0.1)
    turned = suite.examine(evidence("calibration", sure, silent), suite.options(min_items=50))
    assert turned.baseline_score.value == pytest.approx(1.0)
    assert number(turned, "unjudged_rate").value == pytest.approx(0.1)
    judged, informative = suite.rules(spec.spec, suite.options())
    assert judge(judged, {("unjudged_rate", "s"): number(report, "unjudged_rate")})[0].verdict == (
        "fail"
    )
    whole = suite.examine(evidence("calibration", sure, sure), suite.options())
    assert judge(judged, {("unjudged_rate", "s"): number(whole, "unjudged_rate")})[0].verdict == (
        "pass"
    )
    # All at 0.9: no confidence says anything about its answer.
    found = {("informative", "s"): number(whole, "informative")}
    assert judge(informative, found)[0].verdict == "inconclusive"
    split = {n.name: n.value for n in whole.measurements}
    assert split["brier"] == pytest.approx(
        split["brier_mcb"] - split["brier_dsc"] + split["brier_unc"]
    )


RULE = Rule("r", "regression", "<=", 0.05, scope="s", against="interval")


def verdict(rng: np.random.Generator, true_drop: float, n: int) -> str:
    base = rng.random(n) < 0.85
    flips = rng.random(n) < 0.05
    candidate = np.where(flips, rng.random(n) < 0.85, base)
    candidate &= rng.random(n) >= true_drop / 0.85
    arms = answers([float(x) for x in candidate]), answers([float(x) for x in base])
    found = measure_suite_drop(
        evidence("golden", *arms), pair_items(score_items(arms[0]), score_items(arms[1]))
    )
    return judge(RULE, {one.key: one for one in found})[0].verdict


@pytest.mark.slow
def test_error_rates_of_one_suite_over_two_hundred_simulations() -> None:
    """Equal models must not fail, and models worse by the whole margin must not pass, too often."""
    rng = np.random.default_rng(2026)
    equal = [verdict(rng, 0.0, 400) for _ in range(200)]
    worse = [verdict(rng, 0.05, 400) for _ in range(200)]
    much_worse = [verdict(rng, 0.15, 400) for _ in range(200)]
    allowed = 0.05 + 2.33 * (0.05 * 0.95 / 200) ** 0.5
    assert equal.count("fail") / 200 <= allowed
    assert worse.count("pass") / 200 <= allowed
    assert much_worse.count("fail") / 200 >= 0.9
    assert equal.count("pass") / 200 >= 0.8
