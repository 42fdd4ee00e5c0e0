"""Caveats beside the blockers of lanes: about the policy, the evidence and overall limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gatemark.core.measurement import Evidence
from gatemark.plugins.advisory.gate_rules import (
    ASKED_OVERALL,
    list_asked_overall,
)
from gatemark.plugins.advisory.loosened_policy import list_loosened
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.report.words import first_few

UNBOUND: Final = "the policy names no latency bound (p95_total_ms_max)"


def list_policy_caveats(policy: AdvisoryPolicy) -> Iterator[str]:
    """Yield why the policy allows no candidate, or makes a pass mean less than usual."""
    scoped = sorted(name for name, lane in policy.lanes.items() if lane.promotion is not None)
    if not scoped:
        yield "the policy scopes no lane for promotion, so that none can be a candidate"
    for lane in scoped:
        if policy.bounds(lane).p95_total_ms_max is None:
            yield f"{lane} is no candidate: {UNBOUND}"
        settled = policy.lanes[lane].promotion
        if settled and settled.reviewer.casefold() == settled.approved_by.casefold():
            yield f"{lane}: whoever approved its scope reviews it as well"
    less = list_loosened(policy)
    if less:
        yield f"the policy asks for less than the defaults: {first_few(less, 5)}"


def list_overall_caveats(policy: AdvisoryPolicy, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield lanes above a limit that applies only to all lanes together."""
    rates = {"false_positives": "false_positive_rate", "uncertain": "uncertain_rate_of_inputs"}
    for lane, found in facts["lanes"].items():
        bounds = policy.bounds(lane)
        for rule in sorted(list_asked_overall(policy, lane)):
            rate, bound = found["rates"][rates[rule]], getattr(bounds, ASKED_OVERALL[rule])
            if (
                rate is not None
                and rate > bound
                and not (rule == "uncertain" and bounds.conservative)
            ):
                yield (
                    f"{lane}: {rates[rule]} {rate:.3f} is above {bound:g}, which is asked of all "
                    "lanes together; name the bound in the policy to ask it of the lane"
                )


def list_evidence_caveats(facts: Mapping[str, Any], evidence: Evidence) -> Iterator[str]:
    """Yield what the evidence leaves open, or says beside the rules."""
    if evidence.expected is None:
        yield "record ids were not pinned: a record that never arrived cannot be missed"
    if shadow := facts["atlas_shadow"]["records"]:
        yield f"{shadow} records have only an Atlas decision, which is a signal and no reference"
    expected = facts["expected_fallback_count"]
    if expected:
        share = expected / facts["total_records"]
        yield f"{expected} expected fallbacks ({share:.1%} of all records)"
    if odd := facts["unexplained_blockers"]:
        named = ", ".join(f"{error} {count}" for error, count in odd.items())
        yield f"records say that they block promotion for what no bound judges: {named}"
    if stated := facts["stated_blocker_count"] - facts["unexplained_blocker_count"]:
        yield f"{stated} records say that they block promotion; the rules judge what they name"
    if torn := facts["contradicted_proof_count"]:
        yield f"{torn} records state a proof beside a fallback; it does not count for their lanes"
    if own := facts["self_reported_proof_count"]:
        yield f"{own} proofs are the services' own count, which no counter of the harness confirms"
    if facts["npu_proof_ok_count"] == 0:
        yield "no record proves that an NPU ran"
    if facts["latency"]["total_ms"]["method"] != "percentile_disc":
        yield "percentiles come from a sketch and may be up to 0.1 % too high"
