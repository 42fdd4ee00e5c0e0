"""Which lanes are candidates for discussion, and the blockers of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.measurement import Evidence
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.evidence.exam import VerdictNotes
from gatemark.plugins.advisory.figures import make_table
from gatemark.plugins.advisory.gate_rules import (
    OTHER_LANES,
    is_never_excused,
)
from gatemark.plugins.advisory.loosened_policy import list_untouchable
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.promotion_caveats import (
    UNBOUND,
    list_evidence_caveats,
    list_overall_caveats,
    list_policy_caveats,
)
from gatemark.report.words import first_few

CANDIDATE: Final = "candidate for discussion"
BLOCKED: Final = "blocked"
NOT_SCOPED: Final = "not scoped: the policy names no approved scope, rollback plan and reviewer"
NO_AUTHORITY: Final = (
    "Lanes listed here are candidates for discussion. No authority is granted by this run; each "
    "lane needs its own decision by people."
)
TABLE_TITLE: Final = "Promotion: candidates for discussion, no authority is granted"


def build_promotion(
    policy: AdvisoryPolicy,
    rules: Policy,
    facts: Mapping[str, Any],
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """Return the promotion part of a summary."""
    lane_of = {rule.id: rule.scope for rule in rules.rules}
    stopped = [
        finding for finding in verdict.findings if _is_stopping(finding, lane_of.get(finding.rule))
    ]
    waived = [finding.rule for finding in verdict.findings if finding.verdict == "waived"]
    loose = list_untouchable(policy)
    shared = [
        finding
        for finding in stopped
        if lane_of.get(finding.rule) is None and finding.rule != OTHER_LANES
    ]
    lanes = {}
    for lane in sorted({*facts["lanes"], *policy.lanes}):
        own = [finding for finding in stopped if lane_of.get(finding.rule) == lane]
        lanes[lane] = _judge_lane(policy, lane, [*shared, *own], facts, loose)
        if named := [rule for rule in waived if lane_of.get(rule) in (None, lane)]:
            lanes[lane]["waivers"] = named
    details = {
        str(finding.reason): _add_details(
            str(finding.reason), lane_of.get(finding.rule), finding.rule, facts
        )
        for finding in stopped
    }
    return {
        "statement": NO_AUTHORITY,
        "blockers": [_name_other_lanes(reason, details, facts) for reason in verdict.blockers],
        "caveats": [
            *(f"no lane can be a candidate under this policy: {why}" for why in loose),
            *verdict.caveats,
            *list_policy_caveats(policy),
            *list_evidence_caveats(facts, evidence),
            *list_overall_caveats(policy, facts),
        ],
        "candidate_lanes": [lane for lane, found in lanes.items() if found["status"] == CANDIDATE],
        "lanes": lanes,
    }


def build_notes(section: Mapping[str, Any], verdict: Verdict) -> VerdictNotes:
    """Return the status of each lane as text, and caveats that no rule states."""
    rows = tuple(
        (lane, found["status"].partition(":")[0], _shorten_reasons(lane, found["blockers"]))
        for lane, found in section["lanes"].items()
    )
    table = make_table(TABLE_TITLE, ("lane", "status", "what stands against it"), rows)
    candidates = section["candidate_lanes"]
    named = first_few(candidates, 5) or "none"
    said = f"candidates for discussion: {named}; no authority is granted by this run"
    caveats = (text for text in section["caveats"] if text not in verdict.caveats)
    return VerdictNotes((said, *caveats), (table,) if rows else ())


def _shorten_reasons(lane: str, reasons: list[str]) -> str:
    """Return the first reasons, without the lane's name, which is in the column alongside them."""
    more = f"; and {len(reasons) - 2} more" if len(reasons) > 2 else ""
    short = [reason.removeprefix(lane).lstrip(".: ") for reason in reasons[:2]]
    return "; ".join(short) + more or "nothing"


def _judge_lane(
    policy: AdvisoryPolicy,
    lane: str,
    stopped: list[Finding],
    facts: Mapping[str, Any],
    loose: list[str],
) -> dict[str, Any]:
    """Return the status of a lane, its blockers, and what people settled about it."""
    blockers = list(_list_blockers(lane, stopped, facts, loose))
    named = policy.lanes.get(lane)
    if named is None or named.promotion is None:
        return {"status": NOT_SCOPED, "blockers": blockers}
    if policy.bounds(lane).p95_total_ms_max is None:
        blockers.append(f"{lane}: {UNBOUND}")
    return {
        "status": BLOCKED if blockers else CANDIDATE,
        "blockers": blockers,
        **msgspec.structs.asdict(named.promotion),
        "smaller_scope": named.smaller_scope,
    }


def _list_blockers(
    lane: str, stopped: list[Finding], facts: Mapping[str, Any], loose: list[str]
) -> Iterator[str]:
    """Yield what blocks a lane: a loosened policy, findings, and default limits of other lanes."""
    for why in loose:
        yield f"the policy loosens what no policy may: {why}"
    for finding in stopped:
        yield _add_details(str(finding.reason), lane, finding.rule, facts)
    fared = facts["other_lanes"].get(lane, {})
    for rule in fared.get("broken", []):
        yield _add_details(
            f"{lane}.{rule} is beyond the default bound", lane, f"{lane}.{rule}", facts
        )
    for rule in fared.get("open", []):
        yield _add_details(f"{lane}.{rule} could not be judged", lane, f"{lane}.{rule}", facts)


def _is_stopping(finding: Finding, lane: str | None) -> bool:
    """Whether a finding keeps lanes from being discussed; some cannot be waived."""
    if finding.verdict == "waived" and is_never_excused(finding.rule, lane):
        return True
    return finding.severity in ("block", "hold") and finding.verdict in ("fail", "inconclusive")


def _add_details(reason: str, lane: str | None, rule: str, facts: Mapping[str, Any]) -> str:
    """Return a blocker about inputs or earlier runs with its details; the gate only counts them."""
    fared = facts["lanes"].get(lane, {}).get("held_by", {})
    details = fared.get(rule.removeprefix(f"{lane}."), [])
    return f"{reason}: {'; '.join(details)}" if details else reason


def _name_other_lanes(reason: str, details: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    """Return a blocker about other lanes with their names; the gate only counts them."""
    reason = details.get(reason, reason)
    broken = [
        f"{lane} ({', '.join(fared['broken'])})"
        for lane, fared in facts["other_lanes"].items()
        if fared["broken"]
    ]
    if not reason.startswith("other_lanes_below_count must be") or not broken:
        return reason
    return f"{reason}: {first_few(broken, 5, '; ')}"
