from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reasons import state_reason

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.measurement import Evidence, Interval, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Verdict, Waiver, decide

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


def whole(n: int = 10) -> Evidence:
    return Evidence(n, n, 0, n, 0, None, ())


def value(number: float, *, name: str = "m", n: int = 10, **more: object) -> Measurement:
    return measured(name, number, n=n, direction="higher_is_better", **more)  # type: ignore[arg-type]


def absent(name: str = "m") -> Measurement:
    return unmeasured(name, state_reason("the meter broke"), direction="higher_is_better")


def judged(
    rule: Rule, *measurements: Measurement, evidence: Evidence | None = None, waivers: object = ()
) -> Verdict:
    policy = Policy(name="p", rules=(rule,))
    return decide(policy, (evidence or whole(),), measurements, waivers, now=NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "good", "bad"),
    [
        (">=", 0.5, 0.4999999),
        ("<=", 0.5, 0.5000001),
        (">", 0.5000001, 0.5),
        ("<", 0.4999999, 0.5),
        ("==", 0.5, 0.5000001),
    ],
)
def test_each_operator_on_each_side_of_its_line(op: str, good: float, bad: float) -> None:
    rule = Rule("r", "m", op, 0.5)  # type: ignore[arg-type]
    assert judged(rule, value(good)).outcome == "pass"
    assert judged(rule, value(bad)).outcome == "fail"
    assert judged(rule, absent()).outcome == "inconclusive"


def test_a_number_that_is_on_its_line_but_for_rounding_is_on_its_line() -> None:
    drop = 0.90 - 0.88
    assert drop > 0.02
    found = judged(Rule("r", "m", "<=", 0.02), value(drop))
    assert (found.outcome, found.findings[-1].slack) == ("pass", 0.0)
    bench = 0.7 * 0.7 + 0.2 * 0.7 + 0.1 * 0.7
    assert bench < 0.7
    assert judged(Rule("r", "m", ">=", 0.7), value(bench)).outcome == "pass"
    assert judged(Rule("r", "m", ">", 0.02), value(drop)).outcome == "fail"
    assert judged(Rule("r", "m", "<=", 0.02), value(0.02 + 1e-9)).outcome == "fail"
    spread = Interval(0.01, 0.03, 0.9, "made up")
    level = value(drop, interval=spread)
    rule = Rule("r", "m", "<=", 0.02, against="non_inferiority")
    assert judged(rule, level).outcome == "inconclusive"


def test_slack_is_positive_on_the_good_side() -> None:
    assert judged(Rule("r", "m", ">=", 0.5), value(0.75)).findings[-1].slack == 0.25
    assert judged(Rule("r", "m", "<=", 0.5), value(0.75)).findings[-1].slack == -0.25
    assert judged(Rule("r", "m", "==", 0.5), value(0.75)).findings[-1].slack == -0.25


def test_a_metric_that_nobody_measured_is_inconclusive_and_says_so() -> None:
    verdict = judged(Rule("r", "other", ">=", 0.5), value(0.9))
    assert verdict.outcome == "inconclusive"
    assert verdict.blockers == ("other was not measured",)


@pytest.mark.parametrize(
    ("choice", "outcome", "word"),
    [
        ("inconclusive", "inconclusive", "inconclusive"),
        ("fail", "fail", "fail"),
        ("soft_pass", "pass", "soft_pass"),
    ],
)
def test_on_unmeasured_decides_what_absence_means(choice: str, outcome: str, word: str) -> None:
    rule = Rule("r", "m", ">=", 0.5, on_unmeasured=choice)  # type: ignore[arg-type]
    verdict = judged(rule, absent())
    assert verdict.outcome == outcome
    assert verdict.findings[-1].verdict == word
    if word == "soft_pass":
        assert any("soft_pass" in caveat for caveat in verdict.caveats)


def test_too_few_items_cannot_be_judged() -> None:
    rule = Rule("r", "m", ">=", 0.5, min_n=11)
    assert judged(rule, value(0.9, n=10)).outcome == "inconclusive"
    assert judged(rule, value(0.9, n=11)).outcome == "pass"


@pytest.mark.parametrize(
    ("severity", "outcome"), [("block", "fail"), ("hold", "inconclusive"), ("warn", "pass")]
)
def test_severity_decides_what_a_violation_does(severity: str, outcome: str) -> None:
    rule = Rule("r", "m", ">=", 0.5, severity=severity)  # type: ignore[arg-type]
    verdict = judged(rule, value(0.1))
    assert verdict.outcome == outcome
    if severity == "warn":
        assert verdict.caveats == ("m must be >= 0.5, got 0.1 (n=10)",)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.5, 0.6, "pass"), (0.4, 0.6, "inconclusive"), (0.3, 0.4999, "fail")],
)
def test_an_interval_rule_is_open_while_the_interval_straddles(
    low: float, high: float, outcome: str
) -> None:
    number = value(0.45, interval=Interval(low, high, 0.95, "made up"))
    assert judged(Rule("r", "m", ">=", 0.5, against="interval"), number).outcome == outcome


def test_interval_rules_for_lower_is_better_use_the_upper_end() -> None:
    number = value(0.45, interval=Interval(0.4, 0.6, 0.95, "made up"))
    assert judged(Rule("r", "m", "<=", 0.6, against="interval"), number).outcome == "pass"
    assert judged(Rule("r", "m", "<=", 0.5, against="interval"), number).outcome == "inconclusive"
    assert judged(Rule("r", "m", "<=", 0.3, against="interval"), number).outcome == "fail"


def test_either_end_of_an_interval_can_be_the_compared_number() -> None:
    number = value(0.45, interval=Interval(0.4, 0.6, 0.95, "made up"))
    assert judged(Rule("r", "m", ">=", 0.5, against="lower"), number).outcome == "fail"
    assert judged(Rule("r", "m", ">=", 0.5, against="upper"), number).outcome == "pass"
    assert judged(Rule("r", "m", ">=", 0.5, against="lower"), value(0.9)).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("value_", "low", "high", "outcome"),
    [
        (0.01, -0.01, 0.05, "pass"),
        (0.01, -0.01, 0.06, "inconclusive"),
        (0.06, 0.01, 0.11, "fail"),
        (0.06, -0.01, 0.11, "inconclusive"),
        (0.04, 0.01, 0.11, "inconclusive"),
    ],
)
def test_non_inferiority_passes_fails_or_stays_open(
    value_: float, low: float, high: float, outcome: str
) -> None:
    number = value(value_, interval=Interval(low, high, 0.9, "made up"))
    assert judged(Rule("r", "m", "<=", 0.05, against="non_inferiority"), number).outcome == outcome


SUBSTITUTED = Rule("r", "m", ">=", 0.5, fallback_rules=(Rule("r/s", "s", ">=", 0.5),))


@pytest.mark.parametrize(
    ("main", "substitute", "outcome"),
    [
        (absent(), value(0.9, name="s"), "pass"),
        (absent(), value(0.1, name="s"), "fail"),
        (absent(), absent("s"), "inconclusive"),
        (value(0.1, caveats=("low_information",)), value(0.9, name="s"), "pass"),
        (value(0.1), value(0.9, name="s"), "fail"),
        (value(0.9, caveats=("low_information",)), value(0.1, name="s"), "pass"),
    ],
)
def test_substitutes_speak_only_for_a_number_that_is_absent_or_says_little(
    main: Measurement, substitute: Measurement, outcome: str
) -> None:
    verdict = judged(SUBSTITUTED, main, substitute)
    assert verdict.outcome == outcome
    if len(verdict.findings) > 2:
        assert "judged by r/s instead" in str(verdict.findings[1].reason)


def test_a_substitute_that_passed_only_softly_is_not_shown_as_a_pass() -> None:
    soft = Rule("r/s", "s", ">=", 0.5, on_unmeasured="soft_pass")
    verdict = judged(Rule("r", "m", ">=", 0.5, fallback_rules=(soft,)), absent(), absent("s"))
    assert {f.rule: f.verdict for f in verdict.findings}["r"] == "soft_pass"
    assert any("soft_pass" in caveat for caveat in verdict.caveats)


@pytest.mark.parametrize(
    "lost",
    [
        Evidence(10, 9, 1, 9, 0, None, ()),
        Evidence(10, 10, 0, 10, 1, None, ()),
        Evidence(10, 10, 0, 9, 0, None, (), duplicates=1),
        Evidence(0, 0, 0, 0, 0, None, ()),
    ],
)
def test_evidence_that_is_not_whole_holds_the_verdict_open(lost: Evidence) -> None:
    assert judged(Rule("r", "m", ">=", 0.5), value(0.9), evidence=lost).outcome == "inconclusive"


def test_a_policy_may_name_another_bound_for_the_coverage() -> None:
    lost = Evidence(10, 9, 1, 9, 0, None, ())
    tolerant = Rule("r", "evidence.coverage", ">=", 0.9)
    assert judged(tolerant, evidence=lost).outcome == "pass"
    strict = Rule("r", "evidence.coverage", ">=", 0.95)
    assert judged(strict, evidence=lost).outcome == "fail"


def test_a_waiver_excuses_but_stays_on_the_page() -> None:
    waiver = Waiver("r", "ada", "known gap, fixed in May", LATER)
    verdict = judged(Rule("r", "m", ">=", 0.5), value(0.1), waivers=(waiver,))
    assert verdict.outcome == "pass"
    assert verdict.findings[-1].verdict == "waived"
    assert "ada" in verdict.caveats[0]


def test_an_expired_waiver_excuses_nothing() -> None:
    waiver = Waiver("r", "ada", "known gap", EARLIER)
    verdict = judged(Rule("r", "m", ">=", 0.5), value(0.1), waivers=(waiver,))
    assert verdict.outcome == "fail"
    assert "expired" in verdict.caveats[0]


def test_a_waiver_that_matches_nothing_is_an_error() -> None:
    waiver = Waiver("other", "ada", "known gap", LATER)
    with pytest.raises(BadInputError, match="matches no rule"):
        judged(Rule("r", "m", ">=", 0.5), value(0.9), waivers=(waiver,))


def test_a_waiver_that_was_not_needed_is_mentioned() -> None:
    waiver = Waiver("r", "ada", "known gap", LATER)
    verdict = judged(Rule("r", "m", ">=", 0.5), value(0.9), waivers=(waiver,))
    assert verdict.outcome == "pass"
    assert verdict.caveats == ("waiver for r was not needed",)


@pytest.mark.parametrize("judges", [absent(), value(0.9)])
def test_a_waiver_for_a_rule_that_only_stands_in_for_another_is_an_error(
    judges: Measurement,
) -> None:
    waiver = Waiver("r/s", "ada", "known gap", LATER)
    with pytest.raises(BadInputError, match="in place of r; waive r itself"):
        judged(SUBSTITUTED, judges, value(0.1, name="s"), waivers=(waiver,))


def test_a_waiver_whose_end_no_calendar_has_is_refused() -> None:
    end = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14)))
    with pytest.raises(InvalidValueError, match="outside of the calendar"):
        Waiver("r", "ada", "known gap", end)


@pytest.mark.parametrize(
    "nothing",
    [Evidence(0, 0, 0, 0, 0, None, ()), Evidence(5, 0, 5, 0, 0, None, ())],
)
@pytest.mark.parametrize("on_unmeasured", ["inconclusive", "soft_pass"])
def test_where_no_item_is_usable_no_waiver_and_no_soft_pass_lets_it_pass(
    nothing: Evidence, on_unmeasured: str
) -> None:
    rule = Rule("r", "m", ">=", 0.5, on_unmeasured=on_unmeasured)  # type: ignore[arg-type]
    waivers = tuple(Waiver(name, "ada", "gap", LATER) for name in ("r", "evidence.complete"))
    verdict = judged(rule, absent(), evidence=nothing, waivers=waivers)
    assert verdict.outcome == "inconclusive"
    assert "not one item" in verdict.blockers[0]
    with pytest.raises(BadInputError, match=r"evidence\.usable matches no rule"):
        judged(
            rule,
            absent(),
            evidence=nothing,
            waivers=(*waivers, Waiver("evidence.usable", "ada", "gap", LATER)),
        )


def test_a_soft_pass_of_a_substitute_is_not_shown_as_a_pass() -> None:
    soft = Rule("r/s", "s", ">=", 0.5, on_unmeasured="soft_pass")
    verdict = judged(Rule("r", "m", ">=", 0.5, fallback_rules=(soft,)), absent(), absent("s"))
    assert verdict.findings[1].verdict == "soft_pass"
    assert any("soft_pass" in caveat for caveat in verdict.caveats)


def test_a_number_that_nobody_measured_does_not_call_substitutes() -> None:
    assert judged(SUBSTITUTED, value(0.1), value(0.9, name="s")).outcome == "fail"
    assert judged(SUBSTITUTED, value(0.9, name="s")).outcome == "inconclusive"


def test_a_pass_by_substitutes_says_so() -> None:
    (caveat,) = judged(SUBSTITUTED, absent(), value(0.9, name="s")).caveats
    assert caveat == "r: m was not measured: the meter broke; judged by r/s instead"
    assert judged(SUBSTITUTED, value(0.9), value(0.9, name="s")).caveats == ()


def test_fail_outweighs_inconclusive() -> None:
    policy = Policy(name="p", rules=(Rule("a", "m", ">=", 0.5), Rule("b", "gone", ">=", 0.5)))
    verdict = decide(policy, (whole(),), (value(0.1),), (), now=NOW)
    assert verdict.outcome == "fail"
    assert len(verdict.blockers) == 2


def test_two_measurements_of_one_name_are_refused() -> None:
    with pytest.raises(BadInputError, match="share a name"):
        judged(Rule("r", "m", ">=", 0.5), value(0.1), value(0.9))


MEASUREMENTS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.floats(0, 1),
        st.booleans(),
        st.sampled_from([(), ("low_information",)]),
    ),
    unique_by=lambda item: item[0],
)
RULES = st.lists(
    st.builds(
        Rule,
        id=st.sampled_from("rstuv"),
        metric=st.sampled_from("abcd"),
        op=st.sampled_from([">=", "<="]),
        bound=st.floats(0, 1),
        severity=st.sampled_from(["block", "hold", "warn"]),
        on_unmeasured=st.sampled_from(["inconclusive", "fail"]),
        fallback_rules=st.lists(
            st.builds(
                Rule,
                id=st.just("x"),
                metric=st.sampled_from("abcd"),
                op=st.just(">="),
                bound=st.floats(0, 1),
            ),
            max_size=1,
        ).map(tuple),
    ),
    min_size=1,
    unique_by=lambda rule: rule.id,
)


@given(RULES, MEASUREMENTS, st.data())
def test_losing_evidence_never_turns_a_verdict_into_a_pass(
    rules: list[Rule],
    items: list[tuple[str, float, bool, tuple[str, ...]]],
    data: st.DataObject,
) -> None:
    policy = Policy(name="p", rules=tuple(rules))
    numbers = [
        absent(name) if gone else value(number, name=name, caveats=caveats)
        for name, number, gone, caveats in items
    ]
    before = decide(policy, (whole(),), numbers, (), now=NOW)
    lost_count = data.draw(st.integers(1, 9))
    lost = Evidence(10 - lost_count, 10 - lost_count, 0, 10 - lost_count, lost_count, 10, ())
    after = decide(policy, (lost,), numbers, (), now=NOW)
    assert after.outcome != "pass"
    if before.outcome == "fail":
        assert after.outcome == "fail"
