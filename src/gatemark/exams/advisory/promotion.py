"""What a run says about promotion: blockers, caveats, and lanes that may be discussed.

Nothing here grants anything. A lane is at most a candidate for a discussion among people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gatemark.core.figure import Table
from gatemark.core.measurement import Evidence
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.evidence.exam import VerdictNotes
from gatemark.exams.advisory.policy import AdvisoryPolicy, loosened
from gatemark.exams.advisory.rules import NEVER_EXCUSED, OTHER_LANES

CANDIDATE: Final = "candidate for discussion"
BLOCKED: Final = "blocked"
NOT_SCOPED: Final = "not scoped: the policy names no approved scope, rollback plan and reviewer"
UNBOUND: Final = "the policy names no latency bound (p95_total_ms_max)"
TABLE_TITLE: Final = "Promotion: candidates for discussion, no authority is granted"
SHOWN_LANES: Final = 200
STATEMENT: Final = (
    "Lanes listed here are candidates for discussion. No authority is granted by this run; each "
    "lane needs its own decision by people."
)


def promotion_section(
    policy: AdvisoryPolicy,
    rules: Policy,
    facts: Mapping[str, Any],
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """The promotion part of a summary."""
    lane_of = {rule.id: rule.lane for rule in rules.rules}
    stopped = [finding for finding in verdict.findings if _stops(finding)]
    shared = [
        finding
        for finding in stopped
        if lane_of.get(finding.rule) is None and finding.rule != OTHER_LANES
    ]
    lanes = {}
    for lane in sorted({*facts["lanes"], *policy.lanes}):
        own = [finding for finding in stopped if lane_of.get(finding.rule) == lane]
        lanes[lane] = _lane(policy, lane, [*shared, *own], facts)
    return {
        "statement": STATEMENT,
        "blockers": [_spelled(reason, facts) for reason in verdict.blockers],
        "caveats": [*verdict.caveats, *_policy_caveats(policy), *_caveats(facts, evidence)],
        "candidate_lanes": [lane for lane, found in lanes.items() if found["status"] == CANDIDATE],
        "lanes": lanes,
    }


def promotion_closing(section: Mapping[str, Any], verdict: Verdict) -> VerdictNotes:
    """The same for people: what each lane came to, and what the numbers do not tell."""
    rows = tuple(
        (lane, found["status"].partition(":")[0], _first(lane, found["blockers"]))
        for lane, found in section["lanes"].items()
    )
    table = Table(
        TABLE_TITLE,
        ("lane", "status", "what stands against it"),
        rows[:SHOWN_LANES],
        total_rows=len(rows),
    )
    candidates = section["candidate_lanes"]
    named = ", ".join(candidates[:5]) + (f" and {len(candidates) - 5} more" * (len(candidates) > 5))
    said = f"candidates for discussion: {named or 'none'}; no authority is granted by this run"
    caveats = (text for text in section["caveats"] if text not in verdict.caveats)
    return VerdictNotes((said, *caveats), (table,) if rows else ())


def _first(lane: str, reasons: list[str]) -> str:
    """The first reasons, without the lane's name, which stands beside them."""
    more = f"; and {len(reasons) - 2} more" if len(reasons) > 2 else ""
    short = [reason.removeprefix(lane).lstrip(".: ") for reason in reasons[:2]]
    return "; ".join(short) + more or "nothing"


def _lane(
    policy: AdvisoryPolicy, lane: str, stopped: list[Finding], facts: Mapping[str, Any]
) -> dict[str, Any]:
    named = policy.lanes.get(lane)
    blockers = [finding.reason for finding in stopped]
    blockers += [
        f"{lane}.{rule} {word}"
        for word, rules in (
            ("is beyond the default bound", facts["other_lanes"].get(lane, {}).get("broken", [])),
            ("could not be judged", facts["other_lanes"].get(lane, {}).get("open", [])),
        )
        for rule in rules
    ]
    if named is None or named.promotion is None:
        return {"status": NOT_SCOPED, "blockers": blockers}
    if policy.bounds(lane).p95_total_ms_max is None:
        blockers.append(f"{lane}: {UNBOUND}")
    settled = named.promotion
    return {
        "status": BLOCKED if blockers else CANDIDATE,
        "blockers": blockers,
        "scope": settled.scope,
        "approved_by": settled.approved_by,
        "rollback_plan": settled.rollback_plan,
        "reviewer": settled.reviewer,
        "smaller_scope": named.smaller_scope,
    }


def _stops(finding: Finding) -> bool:
    """Whether a finding keeps lanes from being discussed; some no waiver can excuse."""
    if finding.rule in NEVER_EXCUSED and finding.verdict == "waived":
        return True
    return finding.severity in ("block", "hold") and finding.verdict in ("fail", "inconclusive")


def _policy_caveats(policy: AdvisoryPolicy) -> Iterator[str]:
    """Why the policy itself lets no lane become a candidate, or a pass say less than usual."""
    scoped = sorted(name for name, lane in policy.lanes.items() if lane.promotion is not None)
    if not scoped:
        yield "the policy scopes no lane for promotion, so that none can be a candidate"
    for lane in scoped:
        if policy.bounds(lane).p95_total_ms_max is None:
            yield f"{lane} is no candidate: {UNBOUND}"
        settled = policy.lanes[lane].promotion
        if settled and settled.reviewer.casefold() == settled.approved_by.casefold():
            yield f"{lane}: whoever approved its scope reviews it as well"
    less = loosened(policy)
    if less:
        more = f" and {len(less) - 5} more" if len(less) > 5 else ""
        yield f"the policy asks for less than the defaults: {', '.join(less[:5])}{more}"


def _spelled(reason: str, facts: Mapping[str, Any]) -> str:
    """A blocker about other lanes says which; the gate only knows how many."""
    broken = [
        f"{lane} ({', '.join(fared['broken'])})"
        for lane, fared in facts["other_lanes"].items()
        if fared["broken"]
    ]
    if not reason.startswith("other_lanes_below_count must be") or not broken:
        return reason
    more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
    return f"{reason}: {'; '.join(broken[:5])}{more}"


def _caveats(facts: Mapping[str, Any], evidence: Evidence) -> Iterator[str]:
    if evidence.expected is None:
        yield "record ids were not pinned: a record that never arrived cannot be missed"
    if strangers := facts["past_runs_left_out"]:
        yield f"{strangers} earlier runs went over other fixtures and were left out"
    if shadow := facts["atlas_shadow"]["records"]:
        yield f"{shadow} records have only an Atlas decision, which is a signal and no reference"
    expected = facts["expected_fallback_count"]
    if expected:
        share = expected / facts["total_records"]
        yield f"{expected} expected fallbacks ({share:.1%} of all records)"
    if odd := facts["unexplained_blockers"]:
        told = ", ".join(f"{error} {count}" for error, count in odd.items())
        yield f"records say that they block promotion for what no bound judges: {told}"
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
