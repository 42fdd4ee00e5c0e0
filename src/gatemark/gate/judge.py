"""One rule meets one measurement: held, violated, or could not be judged."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import msgspec

from gatemark.core.measurement import COUNTED_AS_ONE, COUNTED_AS_ZERO, Measurement
from gatemark.core.policy import Finding, FindingVerdict, Rule

LOW_INFORMATION = "low_information"
MAY_BE_CHANCE = "may_be_chance_among_suites"
LINE_TOLERANCE = 1e-12
"""Numbers this close to a bound are on it: 0.90 - 0.88 must not exceed 0.02 by rounding."""

Measurements = Mapping[tuple[str, str | None], Measurement]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def judge(rule: Rule, measurements: Measurements) -> tuple[Finding, ...]:
    """The finding for one rule, followed by those of the rules that judged in its place."""
    finding, yields = _judge_alone(rule, measurements)
    if not (yields and rule.fallback_rules):
        return (finding,)
    substitutes = tuple(f for other in rule.fallback_rules for f in judge(other, measurements))
    verdicts = {substitute.verdict for substitute in substitutes}
    combined: FindingVerdict = "pass"
    for worse in ("soft_pass", "inconclusive", "fail"):
        if worse in verdicts:
            combined = worse
    names = " and ".join(other.id for other in rule.fallback_rules)
    reason = f"{finding.reason}; judged by {names} instead"
    judged = msgspec.structs.replace(finding, verdict=combined, reason=reason)
    return (judged, *substitutes)


def _judge_alone(rule: Rule, measurements: Measurements) -> tuple[Finding, bool]:
    """The finding of the rule's own comparison, and whether substitutes may speak instead."""
    measurement = measurements.get((rule.metric, rule.lane))
    if measurement is None:
        # Nobody looked: a number that nobody asked for is no reason to ask another one.
        return _without_number(rule, f"{_subject(rule)} was not measured", n=0), False
    if measurement.value is None:
        why = f"{_subject(rule)} was not measured: {measurement.reason}"
        return _without_number(rule, why, n=measurement.n), True
    if measurement.n < rule.min_n:
        why = f"{_subject(rule)} rests on {measurement.n} items, needs {rule.min_n}"
        return _without_number(rule, why, n=measurement.n), False
    observed = _compared_number(rule, measurement)
    if observed is None:
        why = f"{_subject(rule)} has no interval to compare by its {rule.against} bound"
        return _without_number(rule, why, n=measurement.n), False
    held = _meets(rule.op, observed, rule.bound)
    finding = Finding(
        rule=rule.id,
        metric=rule.metric,
        severity=rule.severity,
        op=rule.op,
        bound=rule.bound,
        against=rule.against,
        observed=observed,
        slack=_slack(rule.op, observed, rule.bound),
        n=measurement.n,
        verdict="pass" if held else _short_of_bound(rule, measurement),
        reason=_comparison(rule, observed, measurement, held=held),
    )
    low_information = LOW_INFORMATION in measurement.caveats
    return finding, low_information and not held


def _compared_number(rule: Rule, measurement: Measurement) -> float | None:
    """The number that meets the bound; a whole interval is met by its worse end."""
    if rule.against == "value":
        return measurement.value
    if measurement.interval is None:
        return None
    low, high = measurement.interval.low, measurement.interval.high
    if rule.against in {"interval", "non_inferiority"}:
        return low if rule.op in {">=", ">"} else high
    return low if rule.against == "lower" else high


def _short_of_bound(rule: Rule, measurement: Measurement) -> FindingVerdict:
    """Failed, or still open because the better end of the interval reaches the bound."""
    interval = measurement.interval
    if rule.against == "non_inferiority" and interval is not None:
        beyond = _meets(">", measurement.value or 0.0, rule.bound)
        surely_a_drop = interval.low > 0 and MAY_BE_CHANCE not in measurement.caveats
        return "fail" if beyond and surely_a_drop else "inconclusive"
    if rule.against != "interval" or interval is None:
        return "fail"
    better_end = interval.high if rule.op in {">=", ">"} else interval.low
    return "inconclusive" if _meets(rule.op, better_end, rule.bound) else "fail"


def _on_the_line(observed: float, bound: float) -> bool:
    return abs(observed - bound) <= LINE_TOLERANCE


def _meets(op: str, observed: float, bound: float) -> bool:
    return _COMPARE[op](bound if _on_the_line(observed, bound) else observed, bound)


def _slack(op: str, observed: float, bound: float) -> float:
    if _on_the_line(observed, bound):
        return 0.0
    if op == "==":
        return -abs(observed - bound)
    return observed - bound if op in {">=", ">"} else bound - observed


def _subject(rule: Rule) -> str:
    return rule.metric if rule.lane is None else f"{rule.lane}.{rule.metric}"


def _comparison(rule: Rule, observed: float, measurement: Measurement, *, held: bool) -> str:
    subject, size = _subject(rule), f"(n={measurement.n}){'' if held else _unscored(measurement)}"
    if rule.against == "non_inferiority" and not held:
        return (
            f"{subject} is {measurement.value:.6g} and may be as large as {observed:.6g}, "
            f"must be {rule.op} {rule.bound:g} {size}"
        )
    end = "" if rule.against == "value" else f" ({rule.against})"
    must = "is" if held else "must be"
    got = "" if held else f", got {observed:.6g}"
    low = LOW_INFORMATION in measurement.caveats and not held
    flag = "; low information: one label dominates" if low else ""
    return f"{subject}{end} {must} {rule.op} {rule.bound:g}{got} {size}{flag}"


def _unscored(measurement: Measurement) -> str:
    """Errors that went into a number: a reader must not take a crash for a wrong answer."""
    told = ""
    if lost := measurement.excluded.get(COUNTED_AS_ZERO):
        told += f"; {lost} items without a score count as 0"
    if lost := measurement.excluded.get(COUNTED_AS_ONE):
        told += f"; {lost} that the baseline lost count as 1"
    return told


def _without_number(rule: Rule, reason: str, *, n: int) -> Finding:
    return Finding(
        rule=rule.id,
        metric=rule.metric,
        severity=rule.severity,
        op=rule.op,
        bound=rule.bound,
        against=rule.against,
        observed=None,
        slack=None,
        n=n,
        verdict=rule.on_unmeasured,
        reason=reason,
    )
