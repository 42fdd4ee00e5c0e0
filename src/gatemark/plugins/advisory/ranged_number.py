"""Numbers with the range that lost records leave open, and whether a rule certainly holds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.core.reason import ReasonKind

LOST: Final = ReasonKind(
    "lost_could_decide",
    "{known:.6g} over what is known, but {lost} records are lost or untimed: "
    "it could be as low as {low:.6g} and could be up to {high:.6g}",
)
LOST_WITHOUT_END: Final = ReasonKind(
    "lost_could_decide_without_end",
    "{known:.6g} over what is known, but {lost} records are lost or untimed: "
    "it could be as low as {low:.6g} and has no end",
)
NumberKey = tuple[str, str | None]
"""The name of a metric, and the lane; None means all lanes."""


class RangedNumber(NamedTuple):
    """A measurement and its possible range; ``high`` None means unbounded.

    A record that was refused, lost or set aside could have been anything. So every number has a
    range: as if all lost records were in favour of the lane, and as if all were against it.
    """

    measurement: Measurement
    low: float
    high: float | None


_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def is_met(rule: Rule, value: float | None) -> bool:
    """Whether a value meets a rule; an unbounded one meets no upper limit."""
    if value is None:
        return rule.op in (">=", ">")
    return _COMPARE[rule.op](value, rule.bound)


def judge_number(rule: Rule, number: RangedNumber | None) -> bool | None:
    """Whether a number certainly meets or certainly breaks a rule; None if neither is certain."""
    if number is None or number.measurement.value is None:
        return None
    low, high = is_met(rule, number.low), is_met(rule, number.high)
    return low if low == high else None


def guard_number(number: RangedNumber, rules: list[Rule], lost: int) -> Measurement:
    """Return the measurement, without its value if lost records could change a rule's outcome."""
    found = number.measurement
    if found.value is None or all(judge_number(rule, number) is not None for rule in rules):
        return found
    known, low, high = found.value, number.low, number.high
    unknown = found.excluded.get("unknown", lost)
    if high is None:
        reason = LOST_WITHOUT_END(known=known, lost=unknown, low=low)
    else:
        reason = LOST(known=known, lost=unknown, low=low, high=high)
    return msgspec.structs.replace(found, value=None, reason=reason, interval=None)
