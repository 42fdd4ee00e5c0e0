"""Approvals, waivers, pauses and break-glass reviews; separation of duties; valid votes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gatemark.core.errors import ConflictError, NotAllowedError, RefusedError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.commands import (
    Approve,
    PauseVersion,
    ResumeVersion,
    ReviewBreakGlass,
    Waive,
)
from gatemark.release.lifecycle.decisions.canary import clean_streak
from gatemark.release.lifecycle.decisions.citation import (
    PromotionCase,
    bound_results,
    citation_problems,
    find_required_pack_result,
    lane_problem,
)
from gatemark.release.lifecycle.decisions.decision import (
    DecisionMoment,
    decides,
    illegal,
    known_version,
    require_note,
    require_role,
    roles_of,
)
from gatemark.release.lifecycle.events.approvals import (
    ApprovalGiven,
    BreakGlassReviewed,
    GateWaived,
)
from gatemark.release.lifecycle.events.fact import Facts
from gatemark.release.lifecycle.events.moves import VersionPaused
from gatemark.release.lifecycle.model.nouns import PauseReason, Role, Stage
from gatemark.release.lifecycle.model.release_policy import can_block
from gatemark.release.lifecycle.model.stages import CANARY, LANE
from gatemark.release.lifecycle.model.state import Approval, GovernanceState, LifecycleState, Track

NEVER: Final = 2**62
"""Placeholder for the number of an event that is not written yet."""


def authors_of(state: LifecycleState, version: str) -> frozenset[str]:
    """Return everyone who added this content, under any version name."""
    versions = state.asset.versions
    digest = versions[version].digest
    return frozenset(known.author for known in versions.values() if known.digest == digest)


def conflict_of_interest(state: LifecycleState, actor: str, version: str) -> str | None:
    """Return why somebody with an approving role may not approve this version."""
    asset = state.asset
    if actor == SYSTEM:
        return "the system cannot approve"
    if state.governance.policy.one_person:
        return None
    if "admin" in roles_of(state.governance, actor):
        return f"{actor} is admin and cannot approve"
    if actor in authors_of(state, version):
        return f"{actor} is the author of {asset.name}@{version} and cannot approve it"
    if asset.required_pack_editor == actor:
        return f"{actor} last edited the required pack of {asset.name} and cannot approve by it"
    if state.governance.policy_editor == actor:
        return f"{actor} adopted the release policy and cannot approve by it"
    return None


def lent_access(
    governance: GovernanceState, person: str, lenders: Collection[str], at: datetime, before: int
) -> str | None:
    """Return how a person got access from one of the lenders shortly before an action.

    Indirect access counts too: whoever creates an account that creates an account controls both.
    ``before`` is the event of the action; later grants do not count.
    """
    span = governance.policy.approvals.access_span
    paths: list[tuple[str, str]] = [(person, f"{person} got")]
    seen = {person}
    for holder, words in paths:
        for grant in governance.access.get(holder, ()):
            if grant.seq >= before or at - grant.at >= span:
                continue
            reason = f"{words} {grant.what} from {grant.by}"
            if grant.by in lenders:
                hours = span / timedelta(hours=1)
                return f"{reason} less than {hours:g} hours before (event {grant.seq})"
            if grant.by not in seen:
                seen.add(grant.by)
                paths.append((grant.by, f"{reason}, who got"))
    return None


class ApprovalTally(msgspec.Struct, frozen=True):
    """The valid approvals of one step, and why the others are not valid."""

    approved: tuple[Approval, ...]
    rejected: tuple[Approval, ...]
    void: tuple[str, ...]

    def by_role(self, governance: GovernanceState, role: Role) -> tuple[Approval, ...]:
        """Return the approvals of people who hold a role now."""
        return tuple(vote for vote in self.approved if role in roles_of(governance, vote.actor))


def tally(case: PromotionCase, stage: Stage) -> ApprovalTally:
    """Count the votes on a step: the last one of each person, if it is still valid."""
    last: dict[str, Approval] = {}
    for vote in case.state.asset.approvals:
        if (vote.version, vote.environment, vote.stage) == (case.version, case.environment, stage):
            last[vote.actor] = vote
    approved, rejected, void = [], [], []
    for vote in last.values():
        problem = _explain_void(case, vote)
        if problem is not None:
            void.append(f"the vote of {vote.actor} does not count: {problem}")
        elif vote.decision == "approve":
            approved.append(vote)
        elif vote.decision == "reject":
            rejected.append(vote)
    return ApprovalTally(tuple(approved), tuple(rejected), tuple(void))


def _explain_void(case: PromotionCase, vote: Approval) -> str | None:
    governance = case.state.governance
    if case.now >= vote.expires_at:
        return f"it expired at {vote.expires_at:%Y-%m-%d %H:%M:%SZ}"
    if case.now < vote.at:
        return f"it was given at {vote.at:%Y-%m-%d %H:%M:%SZ}, which is yet to come"
    changed = [
        word
        for word, before, after in (
            ("candidate", vote.candidate_digest, case.digest),
            ("cited results", tuple(sorted(vote.result_ids)), tuple(sorted(case.result_ids))),
            ("release policy", vote.policy_digest, governance.policy_digest),
        )
        if before != after
    ]
    if changed:
        return f"the {' and the '.join(changed)} changed since"
    if vote.stage == "enabled" and case.track.stage in CANARY:
        needed = case.state.policy.canary.clean_windows
        windows = clean_streak(case.state, case.environment) or ()
        if not windows or vote.seq < windows[needed - 1]:
            return f"it was given before the {needed} clean windows that enabling rests on"
    if not set(ApprovalGiven.declared.roles) & set(roles_of(governance, vote.actor)):
        return "the role was taken away"
    named = case.state.policy.approvals.approvers
    if named and vote.actor not in named:
        return "the policy names other approvers"
    conflict = conflict_of_interest(case.state, vote.actor, case.version)
    if conflict is not None:
        return conflict
    lenders = {*authors_of(case.state, case.version), case.actor}
    return lent_access(governance, vote.actor, lenders, vote.at, vote.seq)


def _find_conflict(
    state: LifecycleState, actor: str, version: str, moment: DecisionMoment, *others: str
) -> str | None:
    """Return why somebody may not approve a version: their roles, or where their access came from.

    ``others`` are people besides the author whose action is being approved.
    """
    found = conflict_of_interest(state, actor, version)
    if found is not None:
        return found
    lenders = {*authors_of(state, version), *others}
    return lent_access(state.governance, actor, lenders, moment.now, NEVER)


def expiry(state: LifecycleState, now: datetime) -> datetime:
    """Return when an approval given now expires."""
    return now + timedelta(hours=state.policy.approvals.expire_hours)


PAUSABLE = frozenset({"eligible", "shadow", "enabled", *CANARY})


@decides(Approve)
def decide_approve(state: LifecycleState, command: Approve, moment: DecisionMoment) -> Facts:
    """Decide a vote on the next step; nobody approves their own work."""
    known_version(state, command.version)
    conflict = _find_conflict(state, command.actor, command.version, moment)
    if conflict is not None:
        raise NotAllowedError(conflict)
    require_role(state.governance, command.actor, ApprovalGiven.declared.roles, "approve")
    require_note(command, "a vote")
    _require_unchanged(state, command)
    named = state.policy.approvals.approvers
    if named and command.actor not in named:
        raise RefusedError(f"{command.actor} is not among the approvers: {', '.join(named)}")
    track = state.asset.track(command.environment, command.version)
    if not _is_up_for_vote(state, command, track):
        raise illegal(state, command.version, track.stage, command.stage)
    digest = state.asset.versions[command.version].digest
    result_ids = bound_results(track, command.result_ids)
    problems = citation_problems(result_ids, command.evidence, digest)
    full = find_required_pack_result(result_ids, command.evidence, state.asset.required_pack)
    problem = lane_problem(state, full)
    if problem is not None and not problems:
        problems.append(problem)
    if problems and command.decision == "approve":
        raise RefusedError(
            f"{state.asset.name}@{command.version}: cannot be approved for {command.stage}",
            tuple(problems),
        )
    return (
        ApprovalGiven(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            stage=command.stage,
            candidate_digest=digest,
            result_ids=result_ids,
            policy_digest=state.governance.policy_digest,
            decision=command.decision,
            expires_at=expiry(state, moment.now),
            note=command.note,
        ),
    )


def _require_unchanged(state: LifecycleState, command: Approve) -> None:
    """Refuse a vote of somebody who looked at another candidate, or at another policy."""
    seen = (command.candidate_digest, command.policy_digest)
    now = (state.asset.versions[command.version].digest, state.governance.policy_digest)
    if any(old not in (None, new) for old, new in zip(seen, now, strict=True)):
        raise ConflictError("the candidate or the release policy changed since you looked at it")


def _is_up_for_vote(state: LifecycleState, command: Approve, track: Track) -> bool:
    """Whether a step can be next: canary from shadow, enabled from a canary or as the first.

    For an advisory lane it is the step to shadow.
    """
    if state.asset.kind == LANE:
        return (track.stage, command.stage) == ("eligible", "shadow")
    if command.stage == "canary_1":
        return track.stage == "shadow"
    if command.stage == "enabled":
        is_first = state.asset.place(command.environment).enabled is None
        return track.stage in CANARY or (track.stage == "shadow" and is_first)
    return False


@decides(Waive)
def decide_waive(state: LifecycleState, command: Waive, moment: DecisionMoment) -> Facts:
    """Decide a waiver of one gate for one version, for a limited time and with a note."""
    known_version(state, command.version)
    policy = state.policy
    if not policy.gates[command.gate].overridable:
        allowed = ", ".join(gate for gate, rule in policy.gates.items() if rule.overridable)
        raise RefusedError(
            f"the release policy does not allow an override of {command.gate} "
            f"(allowed: {allowed or 'none'})"
        )
    if not can_block(policy.gates[command.gate]):
        raise RefusedError(
            f"under the release policy the gate {command.gate} blocks nothing, so there is nothing "
            "to waive"
        )
    require_role(state.governance, command.actor, GateWaived.declared.roles, "override a gate")
    if not policy.one_person:
        _require_apart(state, command, moment)
    require_note(command, "an override")
    expires_at = command.expires_at or moment.now + timedelta(hours=command.hours)
    longest = timedelta(days=policy.approvals.waiver_max_days)
    if not moment.now < expires_at <= moment.now + longest:
        raise RefusedError(
            f"an override must expire within {policy.approvals.waiver_max_days:g} days from now"
        )
    return (
        GateWaived(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            candidate_digest=state.asset.versions[command.version].digest,
            gate=command.gate,
            note=command.note,
            expires_at=expires_at,
        ),
    )


def _require_apart(state: LifecycleState, command: Waive, moment: DecisionMoment) -> None:
    """Refuse a waiver by the author, or by somebody whose access came from the author."""
    authors = authors_of(state, command.version)
    if command.actor in authors:
        raise RefusedError(f"{command.actor} is the author and cannot override a gate for it")
    lent = lent_access(state.governance, command.actor, authors, moment.now, NEVER)
    if lent is not None:
        raise RefusedError(f"{command.actor} cannot override a gate: {lent}")


@decides(PauseVersion)
def decide_pause(state: LifecycleState, command: PauseVersion, _moment: DecisionMoment) -> Facts:
    """Decide a pause."""
    known_version(state, command.version)
    require_role(state.governance, command.actor, VersionPaused.declared.roles, "pause")
    track = state.asset.track(command.environment, command.version)
    if track.stage not in PAUSABLE:
        raise RefusedError(
            f"{state.asset.name}@{command.version} is {track.stage} and cannot be paused"
        )
    if track.paused is not None and track.paused.reason == command.reason:
        return ()
    return (_make_pause(state, command, command.reason),)


@decides(ResumeVersion)
def decide_resume(state: LifecycleState, command: ResumeVersion, _moment: DecisionMoment) -> Facts:
    """Decide a resume; only a person can resume, whoever paused the version."""
    known_version(state, command.version)
    require_role(state.governance, command.actor, ("operator",), "resume")
    track = state.asset.track(command.environment, command.version)
    if track.paused is None:
        return ()
    return (_make_pause(state, command, None),)


def _make_pause(
    state: LifecycleState, command: PauseVersion | ResumeVersion, reason: PauseReason | None
) -> VersionPaused:
    return VersionPaused(
        asset=state.asset.name,
        environment=command.environment,
        version=command.version,
        reason=reason,
        note=command.note,
    )


@decides(ReviewBreakGlass)
def decide_review(
    state: LifecycleState, command: ReviewBreakGlass, moment: DecisionMoment
) -> Facts:
    """Decide the review of a use of break-glass access by a second person."""
    known_version(state, command.version)
    roles = BreakGlassReviewed.declared.roles
    require_role(state.governance, command.actor, roles, "review a break-glass act")
    require_note(command, "a break-glass review")
    access = state.asset.track(command.environment, command.version).break_glass
    if access is None:
        raise RefusedError(f"{state.asset.name}@{command.version} has no break-glass act to review")
    if access.reviewed_by is not None:
        return ()
    conflict = _find_conflict(state, command.actor, command.version, moment, access.actor)
    if conflict is not None or access.actor == command.actor:
        raise RefusedError(conflict or f"{command.actor} used break-glass and cannot review it")
    return (
        BreakGlassReviewed(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            incident=access.incident,
            note=command.note,
        ),
    )
