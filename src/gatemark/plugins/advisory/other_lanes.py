"""The lanes that the policy does not name, judged by its default limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gatemark.core.reason import ReasonKind
from gatemark.plugins.advisory.earlier_runs import Terms
from gatemark.plugins.advisory.gate_rules import (
    build_input_rules,
    build_lane_rules,
)
from gatemark.plugins.advisory.metrics import METRIC_BY_NAME
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.ranged_number import (
    NumberKey,
    RangedNumber,
    judge_number,
)
from gatemark.report.words import first_few

LANES_OPEN: Final = ReasonKind("lanes_open", "could not be judged: {lanes}")
LOST_OF_ANY_LANE: Final = ReasonKind("lost_of_any_lane", "{lost} lost records may be of any lane")


class OtherLane(NamedTuple):
    """The default limits broken by a lane that the policy does not name, or leaves open."""

    broken: list[str]
    open: list[str]


def judge_other_lanes(
    policy: AdvisoryPolicy,
    lanes: Sequence[str],
    numbers: Mapping[NumberKey, RangedNumber],
    terms: Terms,
) -> dict[str, OtherLane]:
    """Return how each lane that the policy does not name does by the default limits."""
    others = {}
    for lane in lanes:
        if lane in policy.lanes:
            continue
        rules = (
            *build_lane_rules(policy, lane),
            *build_input_rules(lane, pinned=terms.fixtures is not None),
        )
        answers = {
            rule.id.removeprefix(f"{lane}."): judge_number(rule, numbers.get((rule.metric, lane)))
            for rule in rules
        }
        others[lane] = OtherLane(
            broken=[name for name, answer in answers.items() if answer is False],
            open=[name for name, answer in answers.items() if answer is None],
        )
    return others


def count_other_lanes(others: Mapping[str, OtherLane], lane_count: int, lost: int) -> RangedNumber:
    """Return how many lanes that the policy does not name break the default limits."""
    metric = METRIC_BY_NAME["other_lanes_below_count"]
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            LANES_OPEN.word(
                f"could not be judged: {first_few(unsure, 3, '; ')}",
                lanes="; ".join(unsure[:3]),
                count=len(unsure),
            )
            if unsure
            else LOST_OF_ANY_LANE(lost=lost)
        )
        return metric.without_value(why, n=lane_count, lane=None)
    caveats = tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5])
    count = len(broken)
    return metric.with_value(count, count, count, n=lane_count, lane=None, caveats=caveats)
