"""Which lanes are candidates for discussion, what stands against the others, and caveats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.measurement import Evidence
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.evidence.exam import VerdictNotes
from gatemark.exams.advisory.figures import make_table
from gatemark.exams.advisory.loosening import list_loosened, list_untouchable
from gatemark.exams.advisory.policy import AdvisoryPolicy
from gatemark.exams.advisory.rules import (
    ASKED_OVERALL,
    OTHER_LANES,
    is_never_excused,
    list_asked_overall,
)
from gatemark.report.words import first_few

CANDIDATE: Final = "candidate for discussion"
BLOCKED: Final = "blocked"
NOT_SCOPED: Final = "not scoped: the policy names no approved scope, rollback plan and reviewer"
NO_AUTHORITY: Final = (
    "Lanes listed here are candidates for discussion. No authority is granted by this run; each "
    "lane needs its own decision by people."
)
UNBOUND: Final = "the policy names no latency bound (p95_total_ms_max)"
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
            *_list_policy_caveats(policy),
            *_list_evidence_caveats(facts, evidence),
            *_list_overall_caveats(policy, facts),
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
    named = policy.lanes.get(lane)
    blockers = [f"the policy loosens what no policy may: {why}" for why in loose]
    blockers += [
        _add_details(str(finding.reason), lane, finding.rule, facts) for finding in stopped
    ]
    blockers += [
        _add_details(f"{lane}.{rule} {word}", lane, f"{lane}.{rule}", facts)
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
    return {
        "status": BLOCKED if blockers else CANDIDATE,
        "blockers": blockers,
        **msgspec.structs.asdict(named.promotion),
        "smaller_scope": named.smaller_scope,
    }


def _is_stopping(finding: Finding, lane: str | None) -> bool:
    """Whether a finding keeps lanes from being discussed; some cannot be waived."""
    if finding.verdict == "waived" and is_never_excused(finding.rule, lane):
        return True
    return finding.severity in ("block", "hold") and finding.verdict in ("fail", "inconclusive")


def _list_policy_caveats(policy: AdvisoryPolicy) -> Iterator[str]:
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


def _list_overall_caveats(policy: AdvisoryPolicy, facts: Mapping[str, Any]) -> Iterator[str]:
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


def _list_evidence_caveats(facts: Mapping[str, Any], evidence: Evidence) -> Iterator[str]:
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
