"""Measurements of a group of records, each with what it could be if lost records were known.

A record that was refused, never arrived or was set aside could have been anything. So every number
has a range: as if all lost records spoke for the lane, and as if all spoke against it. A rule that
the two ends answer differently cannot be judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from gatemark.core.measurement import Direction, Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.exams.advisory.categories import CASE_KINDS, CATEGORIES
from gatemark.exams.advisory.latency import Times

WORSE_UP: Final[Direction] = "lower_is_better"
BETTER_UP: Final[Direction] = "higher_is_better"
NEUTRAL: Final[Direction] = "neutral"

_RATES: Final[tuple[tuple[str, str, str, Direction, str], ...]] = (
    ("agreement_rate", "category.agree", "comparable", BETTER_UP, "no comparable records"),
    ("uncertain_rate", "category.uncertain", "records", WORSE_UP, "no records"),
    ("uncertain_rate_of_inputs", "category.uncertain", "input", WORSE_UP, "no inputs"),
    (
        "uncertain_rate_outside_conservative_lanes",
        "uncertain_outside_conservative",
        "input_outside_conservative",
        WORSE_UP,
        "no inputs",
    ),
    (
        "false_positive_rate",
        "category.false_positive",
        "comparable",
        WORSE_UP,
        "no comparable records",
    ),
    (
        "false_negative_rate",
        "category.false_negative",
        "comparable",
        WORSE_UP,
        "no comparable records",
    ),
    (
        "missed_action_rate",
        "category.false_negative",
        "action_needed",
        WORSE_UP,
        "no comparable record needs action",
    ),
    ("unsafe_authority_rate", "authority", "records", WORSE_UP, "no records"),
    ("privacy_violation_rate", "privacy", "records", WORSE_UP, "no records"),
    ("unexpected_fallback_rate", "unexpected_fallback", "records", WORSE_UP, "no records"),
    (
        "unexpected_fallback_rate_of_inputs",
        "unexpected_fallback",
        "input_or_unexpected_fallback",
        WORSE_UP,
        "no inputs",
    ),
    ("expected_fallback_rate", "expected_fallback", "records", WORSE_UP, "no records"),
    ("proof_ok_rate", "proof_required_ok", "proof_required", BETTER_UP, "no record requires proof"),
)
_COUNTS: Final[tuple[tuple[str, str, Direction], ...]] = (
    ("total_records", "records", NEUTRAL),
    ("comparable_records", "comparable", BETTER_UP),
    ("authority_flag_violation_count", "authority", WORSE_UP),
    ("privacy_violation_count", "privacy", WORSE_UP),
    ("actual_side_effect_count", "side_effect", WORSE_UP),
    *((f"{name}_count", f"category.{name}", NEUTRAL) for name in ("agree",)),
    *((f"{name}_count", f"category.{name}", WORSE_UP) for name in CATEGORIES[1:6]),
    *((f"{name}_count", f"category.{name}", WORSE_UP) for name in CATEGORIES[6:8]),
    ("not_applicable_count", "category.not_applicable", NEUTRAL),
    ("high_severity_false_positive_count", "high_severity_false_positive", WORSE_UP),
    ("fallback_count", "fallback", NEUTRAL),
    ("expected_fallback_count", "expected_fallback", NEUTRAL),
    ("unexpected_fallback_count", "unexpected_fallback", WORSE_UP),
    ("fallback_without_reason_count", "fallback_without_reason", WORSE_UP),
    ("npu_proof_ok_count", "proof.ok", NEUTRAL),
    ("npu_proof_missing_count", "proof.missing", WORSE_UP),
    ("npu_proof_not_applicable_count", "proof.not_applicable", NEUTRAL),
    ("contradicted_proof_count", "contradicted_proof", WORSE_UP),
    ("self_reported_proof_count", "self_reported_proof", NEUTRAL),
    ("proof_required_records", "proof_required", NEUTRAL),
    ("timeout_count", "timeout", WORSE_UP),
    ("outcome_mismatch_count", "mismatch", WORSE_UP),
    ("stated_blocker_count", "stated_blocker", WORSE_UP),
    ("unexplained_blocker_count", "unexplained_blocker", WORSE_UP),
)
RATE_NAMES: Final = tuple(name for name, *_ in _RATES)
COUNT_NAMES: Final = tuple(name for name, *_ in _COUNTS)


class Number(NamedTuple):
    """A measurement and the ends of what it could be; ``high`` None is without end."""

    measurement: Measurement
    low: float
    high: float | None


def group_numbers(counts: Mapping[str, int], lost: int, lane: str | None = None) -> list[Number]:
    """Every count and rate of one group."""
    n = counts.get("records", 0)
    if not counts.get("input_outside_conservative"):
        # Where every lane may be unsure, none of the inputs is too much.
        counts = {**counts, "input_outside_conservative": counts.get("input", 0)}
    found = []
    for name, key, direction in _COUNTS:
        count = counts.get(key, 0)
        number = measured(name, count, n=n, direction=direction, unit="count", lane=lane)
        found.append(Number(number, count, count + lost))
    return [*found, *(_rate(spec, counts, lost, lane) for spec in _RATES)]


def _rate(
    spec: tuple[str, str, str, Direction, str],
    counts: Mapping[str, int],
    lost: int,
    lane: str | None,
) -> Number:
    name, part, whole, direction, empty = spec
    count, n = counts.get(part, 0), counts.get(whole, 0)
    if n == 0:
        return Number(unmeasured(name, empty, direction=direction, lane=lane), 0.0, 1.0)
    found = measured(name, count / n, n=n, direction=direction, lane=lane)
    return Number(found, count / (n + lost), (count + lost) / (n + lost))


def missing_cases(counts: Mapping[str, int]) -> tuple[str, ...]:
    """The kinds of cases that a lane lacks."""
    return tuple(kind for kind in CASE_KINDS if not counts.get(f"case.{kind}"))


def case_number(counts: Mapping[str, int], lost: int, lane: str) -> Number:
    """How many of the four kinds of cases a lane lacks."""
    lacking = len(missing_cases(counts))
    found = measured(
        "missing_case_kind_count",
        lacking,
        n=counts.get("records", 0),
        direction=WORSE_UP,
        unit="count",
        lane=lane,
    )
    return Number(found, max(0, lacking - lost), lacking)


def latency_numbers(times: Times, untimed: int, lost: int, lane: str | None = None) -> list[Number]:
    """The median and the 95th percentile of total time."""
    unknown = untimed + lost
    caveats = () if times.exact is not None else ("from a sketch, up to 0.1 % too high",)
    numbers = []
    for percent in (50, 95):
        name = f"p{percent}_total_ms"
        value = times.percentile(percent)
        low, high = times.bounds(percent, unknown) if unknown else (value or 0.0, value)
        found = (
            unmeasured(name, "no time was measured", direction=WORSE_UP, unit="ms", lane=lane)
            if value is None
            else measured(
                name,
                value,
                n=times.n,
                direction=WORSE_UP,
                unit="ms",
                caveats=caveats,
                excluded={"unknown": unknown} if unknown else None,
                lane=lane,
            )
        )
        numbers.append(Number(found, low, high))
    return numbers


def holds(rule: Rule, value: float | None) -> bool:
    """Whether a value keeps a rule; one without end keeps no upper bound."""
    if value is None:
        return rule.op in (">=", ">")
    match rule.op:
        case ">=":
            return value >= rule.bound
        case "<=":
            return value <= rule.bound
        case ">":
            return value > rule.bound
        case "<":
            return value < rule.bound
        case _:
            return value == rule.bound


def judged(rule: Rule, number: Number | None) -> bool | None:
    """Whether a number surely keeps or surely breaks a rule; None when it cannot be told."""
    if number is None or number.measurement.value is None:
        return None
    low, high = holds(rule, number.low), holds(rule, number.high)
    return low if low == high else None


def guarded(number: Number, rules: list[Rule], lost: int) -> Measurement:
    """The measurement, without its value when lost records could turn a rule on it."""
    found = number.measurement
    if found.value is None or all(judged(rule, number) is not None for rule in rules):
        return found
    spread = "has no end" if number.high is None else f"could be up to {number.high:.6g}"
    unknown = found.excluded.get("unknown", lost)
    reason = (
        f"{found.value:.6g} over what is known, but {unknown} records are lost or untimed: "
        f"it could be as low as {number.low:.6g} and {spread}"
    )
    return msgspec.structs.replace(found, value=None, reason=reason, interval=None)
