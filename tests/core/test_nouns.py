from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.reasons import state_reason

from gatemark.core.errors import BadInputError, ExitCode, GatemarkError, InvalidValueError
from gatemark.core.measurement import (
    Evidence,
    EvidenceFile,
    Interval,
    Measurement,
    measured,
    rate,
    unmeasured,
)
from gatemark.core.policy import Finding, Policy, Rule, Verdict, Waiver
from gatemark.core.result import Figure, Matrix, Reliability, ReliabilityBin, Table

RULE = Rule("r", "m", ">=", 0.5)


def evidence(**changes: int) -> Evidence:
    counts = {"received": 3, "accepted": 2, "rejected": 1, "usable": 2, "missing": 0, **changes}
    return Evidence(**counts, expected=None, files=())


def finding() -> Finding:
    return Finding("r", "m", "block", ">=", 0.5, "value", 0.6, 0.1, 9, "pass", "m is >= 0.5")


def test_exit_codes_are_the_contract() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "PASS": 0,
        "FAIL": 1,
        "BAD_INPUT": 2,
        "INCONCLUSIVE": 3,
        "INTEGRITY": 4,
        "INTERNAL": 5,
    }


def test_every_error_knows_its_exit_code() -> None:
    pending = [GatemarkError]
    while pending:
        kind = pending.pop()
        assert kind.exit_code in ExitCode
        assert kind.exit_code != ExitCode.PASS
        pending.extend(kind.__subclasses__())


def test_a_list_of_problems_says_how_many_it_left_out() -> None:
    assert BadInputError(("a", "b"), unlisted_count=7).lines()[-1].startswith("and 7 more")
    assert BadInputError("a").lines() == ("a",)
    with pytest.raises(InvalidValueError):
        BadInputError(())


def test_a_measurement_is_a_value_or_a_reason_and_never_both() -> None:
    common = {"name": "m", "version": 1, "direction": "neutral", "unit": "ratio", "n": 1}
    for value, reason in ((None, None), (0.5, state_reason("because"))):
        with pytest.raises(InvalidValueError):
            Measurement(**common, value=value, reason=reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_measurement_is_finite(value: float) -> None:
    with pytest.raises(InvalidValueError, match="finite"):
        measured("m", value, n=1, direction="neutral")


def test_a_rate_over_nothing_is_a_reason() -> None:
    nothing = rate("m", 0, 0, direction="neutral", empty_reason="nobody came")
    assert (nothing.value, str(nothing.reason)) == (None, "nobody came")
    assert rate("m", 1, 4, direction="neutral").value == 0.25


def test_counts_cannot_be_negative() -> None:
    with pytest.raises(InvalidValueError):
        unmeasured("m", state_reason("why"), n=-1, direction="neutral")
    with pytest.raises(InvalidValueError):
        measured("m", 1.0, n=1, direction="neutral", excluded={"lost": -1})


@pytest.mark.parametrize(
    ("low", "high", "level"), [(1, 0, 0.95), (0, math.inf, 0.95), (0, 1, 1.0), (0, 1, 0.0)]
)
def test_an_interval_has_two_finite_ends_in_order(low: float, high: float, level: float) -> None:
    with pytest.raises(InvalidValueError):
        Interval(low, high, level, "wilson")


def test_evidence_adds_up() -> None:
    assert evidence().lost_count == 1
    with pytest.raises(InvalidValueError, match="does not add up"):
        evidence(received=4)
    with pytest.raises(InvalidValueError, match="negative"):
        evidence(missing=-1)
    with pytest.raises(InvalidValueError, match="no digest"):
        EvidenceFile("a", "md5:1", 1)


def test_an_empty_policy_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="empty"):
        Policy(name="p", rules=())


def test_a_policy_does_not_repeat_rule_ids() -> None:
    with pytest.raises(InvalidValueError, match="repeats rule ids: r"):
        Policy(name="p", rules=(RULE, RULE))


def test_the_policy_digest_covers_every_bound() -> None:
    one = Policy(name="p", rules=(RULE,))
    other = Policy(name="p", rules=(Rule("r", "m", ">=", 0.51),))
    assert one.digest != other.digest
    assert one.digest == Policy(name="p", rules=(RULE,)).digest


@pytest.mark.parametrize(
    "wrong", [{"id": ""}, {"bound": math.nan}, {"bound": math.inf}, {"min_n": 0}]
)
def test_a_rule_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        Rule(**{"id": "r", "metric": "m", "op": ">=", "bound": 0.5, **wrong})  # type: ignore[arg-type]


def test_a_waiver_needs_an_owner_a_reason_and_a_time_zone() -> None:
    end = datetime(2030, 1, 1, tzinfo=UTC)
    for rule, owner, reason in ((" ", "o", "w"), ("r", "", "w"), ("r", "o", "\t")):
        with pytest.raises(InvalidValueError):
            Waiver(rule, owner, reason, end)
    with pytest.raises(InvalidValueError, match="time zone"):
        Waiver("r", "o", "w", end.replace(tzinfo=None))
    assert Waiver("r", "o", "w", end).expired(end)
    assert not Waiver("r", "o", "w", end).expired(datetime(2029, 12, 31, tzinfo=UTC))


def test_a_verdict_needs_findings_and_has_blockers_unless_it_passes() -> None:
    Verdict("pass", (finding(),), ())
    Verdict("fail", (finding(),), ("why",))
    for outcome, findings, blockers in (
        ("pass", (), ()),
        ("pass", (finding(),), ("why",)),
        ("fail", (finding(),), ()),
        ("inconclusive", (finding(),), ()),
    ):
        with pytest.raises(InvalidValueError):
            Verdict(outcome, findings, blockers)  # type: ignore[arg-type]


def test_figures_have_the_shape_they_claim() -> None:
    with pytest.raises(InvalidValueError):
        Matrix("m", "r", "c", ("a", "b"), ((1, 2),))
    with pytest.raises(InvalidValueError):
        Table("t", ("a", "b"), (("x",),), total_rows=1)
    with pytest.raises(InvalidValueError):
        Table("t", ("a",), (("x",),), total_rows=0)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ((0.5, 0.5, 0, None, None, None, None), "must rise"),
        ((0.5, 1.5, 0, None, None, None, None), "must rise"),
        ((math.nan, 1.0, 0, None, None, None, None), "must rise"),
        ((0.0, 1.0, -1, None, None, None, None), "got -1"),
        ((0.0, 1.0, 0, 0.5, None, None, None), "empty but has a rate"),
        ((0.0, 1.0, 0, None, None, 0.0, 1.0), "empty but has a rate"),
        ((0.0, 1.0, 3, 0.5, None, None, None), "no rate"),
        ((0.0, 1.0, 3, None, 0.5, None, None), "no rate"),
        ((0.0, 1.0, 3, 0.5, 1.1, None, None), "inside [0, 1]"),
        ((0.0, 1.0, 3, -0.1, 0.5, None, None), "inside [0, 1]"),
        ((0.0, 1.0, 3, math.nan, 0.5, None, None), "inside [0, 1]"),
        ((0.0, 1.0, 3, 0.5, 0.5, 0.1, None), "one end"),
        ((0.0, 1.0, 3, 0.5, 0.5, 0.6, 0.4), "low > high"),
    ],
)
def test_a_reliability_bin_that_cannot_be_is_refused(fields: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(problem)):
        ReliabilityBin(*fields)


def test_a_reliability_needs_rising_bins_and_survives_its_json() -> None:
    low = ReliabilityBin(0.0, 0.5, 0, None, None, None, None)
    high = ReliabilityBin(0.5, 1.0, 3, 0.8, 1.0, 0.4, 1.0)
    good = Reliability("r", (low, high))
    assert msgspec.json.decode(msgspec.json.encode(good), type=Figure) == good  # type: ignore[arg-type]
    for bins in ((), (high, low), (low, low)):
        with pytest.raises(InvalidValueError):
            Reliability("r", bins)
