"""What people say about a step: approvals, waivers, pauses, and a look behind broken glass."""

from __future__ import annotations

from datetime import timedelta

from gatemark.core.errors import NotAllowedError, RefusedError
from gatemark.lifecycle.commands import (
    Approve,
    PauseVersion,
    ResumeVersion,
    ReviewGlass,
    Waive,
)
from gatemark.lifecycle.decisions.citation import bound_results, citation_problems
from gatemark.lifecycle.decisions.clock import DecisionMoment
from gatemark.lifecycle.decisions.demotion import illegal, known_version
from gatemark.lifecycle.decisions.people import conflict_of_interest, expiry, require_role
from gatemark.lifecycle.events.approvals import (
    ApprovalGiven,
    BreakGlassReviewed,
    GateWaived,
)
from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.events.moves import VersionPaused
from gatemark.lifecycle.model.stages import CANARY
from gatemark.lifecycle.model.state import LifecycleState, Track

PAUSABLE = frozenset({"eligible", "shadow", "enabled", *CANARY})


def decide_approve(
    state: LifecycleState, command: Approve, moment: DecisionMoment
) -> tuple[Fact, ...]:
    """A vote on the next step, bound to what stands now. Nobody votes on their own work."""
    known_version(state, command.version)
    conflict = conflict_of_interest(state, command.actor, command.version)
    if conflict is not None:
        raise NotAllowedError(conflict)
    require_role(state.governance, command.actor, ApprovalGiven.declared.roles, "approve")
    named = state.governance.policy.approvals.approvers
    if named and command.actor not in named:
        raise RefusedError(f"{command.actor} is not among the approvers: {', '.join(named)}")
    track = state.asset.track(command.environment, command.version)
    if not _is_up_for_vote(state, command, track):
        raise illegal(state, command.version, track.stage, command.stage)
    digest = state.asset.versions[command.version].digest
    result_ids = bound_results(track, command.result_ids)
    problems = citation_problems(result_ids, command.evidence, digest)
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
            expires_at=expiry(state.governance, moment.now),
            note=command.note,
        ),
    )


def _is_up_for_vote(state: LifecycleState, command: Approve, track: Track) -> bool:
    """Whether a step can be next: the canary from shadow, enabled from a canary or as a first."""
    if command.stage == "canary_1":
        return track.stage == "shadow"
    if command.stage == "enabled":
        is_first = state.asset.place(command.environment).enabled is None
        return track.stage in CANARY or (track.stage == "shadow" and is_first)
    return False


def decide_waive(state: LifecycleState, command: Waive, moment: DecisionMoment) -> tuple[Fact, ...]:
    """Excuse one version from one gate, for a time, with a note."""
    known_version(state, command.version)
    policy = state.governance.policy
    if not policy.gates[command.gate].overridable:
        allowed = ", ".join(gate for gate, rule in policy.gates.items() if rule.overridable)
        raise RefusedError(
            f"the release policy lets nobody override {command.gate} (it may: {allowed or 'none'})"
        )
    require_role(state.governance, command.actor, GateWaived.declared.roles, "override a gate")
    if state.asset.versions[command.version].author == command.actor:
        raise RefusedError(f"{command.actor} is the author and cannot override a gate for it")
    if not command.note.strip():
        raise RefusedError("an override needs a note that says why")
    longest = timedelta(days=policy.approvals.waiver_max_days)
    if not moment.now < command.expires_at <= moment.now + longest:
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
            expires_at=command.expires_at,
        ),
    )


def decide_pause(state: LifecycleState, command: PauseVersion) -> tuple[Fact, ...]:
    """Stop a version where it is."""
    known_version(state, command.version)
    require_role(state.governance, command.actor, VersionPaused.declared.roles, "pause")
    track = state.asset.track(command.environment, command.version)
    if track.stage not in PAUSABLE:
        raise RefusedError(
            f"{state.asset.name}@{command.version} is {track.stage} and cannot be paused"
        )
    if track.paused is not None and track.paused.reason == command.reason:
        return ()
    return (_paused(state, command),)


def decide_resume(state: LifecycleState, command: ResumeVersion) -> tuple[Fact, ...]:
    """Let a version go on; only a person can, whoever or whatever stopped it."""
    known_version(state, command.version)
    require_role(state.governance, command.actor, ("operator",), "resume")
    track = state.asset.track(command.environment, command.version)
    if track.paused is None:
        return ()
    return (_paused(state, command),)


def _paused(state: LifecycleState, command: PauseVersion | ResumeVersion) -> VersionPaused:
    return VersionPaused(
        asset=state.asset.name,
        environment=command.environment,
        version=command.version,
        reason=command.reason if isinstance(command, PauseVersion) else None,
        note=command.note,
    )


def decide_review(state: LifecycleState, command: ReviewGlass) -> tuple[Fact, ...]:
    """A second person looks at what was done behind broken glass."""
    known_version(state, command.version)
    require_role(
        state.governance, command.actor, BreakGlassReviewed.declared.roles, "review broken glass"
    )
    glass = state.asset.track(command.environment, command.version).glass
    if glass is None:
        raise RefusedError(f"no glass was broken for {state.asset.name}@{command.version}")
    if glass.reviewed_by is not None:
        return ()
    conflict = conflict_of_interest(state, command.actor, command.version)
    if conflict is not None or glass.actor == command.actor:
        raise RefusedError(conflict or f"{command.actor} broke the glass and cannot review it")
    return (
        BreakGlassReviewed(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            incident=glass.incident,
            note=command.note,
        ),
    )
