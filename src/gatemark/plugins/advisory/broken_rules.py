"""The rules that the runs of some evidence break on their own."""

from __future__ import annotations

from typing import Final

from gatemark.plugins.advisory.findings import Findings
from gatemark.plugins.advisory.gate_rules import (
    ASKED_OVERALL,
    build_global_rules,
    build_lane_rules,
    build_overall_rules,
)
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.ranged_number import (
    judge_number,
)


def find_broken_rules(found: Findings, policy: AdvisoryPolicy) -> dict[str, tuple[str, ...]]:
    """Return the rules that the runs of some evidence break on their own, by lane.

    The numbers of inputs and runs are judged over all runs together and left out. Limits that
    apply only to all lanes together count for each of them.
    """
    together = [
        rule
        for rule in build_overall_rules(policy.overall)
        if rule.id.removeprefix("advisory.") in ASKED_OVERALL
    ]
    shared = [
        rule.id
        for rule in (*build_global_rules(), *together)
        if judge_number(rule, found.numbers.get((rule.metric, None))) is False
    ]
    broken = {}
    for lane in found.lanes:
        own = build_lane_rules(policy, lane)
        broken[lane] = (
            *shared,
            *(
                rule.id.removeprefix(f"{lane}.")
                for rule in own
                if rule.metric not in _OVER_ALL_RUNS
                and judge_number(rule, found.numbers.get((rule.metric, lane))) is False
            ),
        )
    return broken


_OVER_ALL_RUNS: Final = frozenset(("comparable_inputs", "missing_case_kind_count", "bucket_shift"))
