"""Decide a promotion, in the steps that the documentation page lists.

(1) the clock, (2) the lock, (3) the table of moves, (4) the actor's role, (5) obstacles, (6)
evidence and release gates, (7) the facts, after which at most one version is enabled.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError
from gatemark.evidence.inputs import visible_form
from gatemark.release.lifecycle.commands import Promote
from gatemark.release.lifecycle.decisions.canary import clean_streak
from gatemark.release.lifecycle.decisions.citation import (
    PromotionCase,
    bound_results,
    evidence_problems,
)
from gatemark.release.lifecycle.decisions.decision import (
    DecisionMoment,
    decides,
    illegal,
    known_version,
    moved,
    require_role,
)
from gatemark.release.lifecycle.decisions.release_gates import GateMatrix, examine_gates
from gatemark.release.lifecycle.events.approvals import BreakGlassUsed, GateOverridden
from gatemark.release.lifecycle.events.fact import Fact, Facts
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import Cause
from gatemark.release.lifecycle.model.stages import CANARY, Move, move
from gatemark.release.lifecycle.model.state import LifecycleState


@decides(Promote)
def decide_promote(state: LifecycleState, command: Promote, moment: DecisionMoment) -> Facts:
    """Decide a promotion or retirement, after steps (1) clock and (2) lock."""
    known_version(state, command.version)
    track = state.asset.track(command.environment, command.version)
    if command.incident is not None and command.to != "enabled":
        raise RefusedError("break-glass access can only enable a version")
    # (3) The table of moves.
    cause: Cause = "promote" if command.incident is None else "break_glass"
    row = move(track.stage, command.to, cause, state.asset.kind)
    if row is None:
        raise illegal(state, command.version, track.stage, command.to)
    # (4) The actor's role.
    require_role(state.governance, command.actor, row.roles, f"take a version to {command.to}")
    if command.incident is not None:
        return _break_glass(state, command, row, moment)
    # (5) Obstacles.
    obstacle = _find_obstacle(state, command, row)
    if obstacle is not None:
        raise RefusedError(f"{_refuse_step(state, command, row)}: {obstacle}")
    # (6) Evidence and release gates.
    case = _make_case(state, command, row, moment)
    matrix = examine_gates(case, row.after, row.evidence)
    blockers = matrix.blockers or tuple(evidence_problems(case, row.evidence))
    if blockers:
        raise RefusedError(_refuse_step(state, command, row), blockers)
    # (7) The facts.
    overrides = _list_overrides(state, command, matrix)
    return (*overrides, *_step_facts(case, command, row, matrix, moment))


def _refuse_step(state: LifecycleState, command: Promote, row: Move) -> str:
    return f"{state.asset.name}@{command.version} cannot go from {row.before} to {row.after}"


def _find_obstacle(state: LifecycleState, command: Promote, row: Move) -> str | None:
    """Return what blocks the step besides evidence and people."""
    place = state.asset.place(command.environment)
    track = state.asset.track(command.environment, command.version)
    if row.after == "retired":
        return None
    if track.paused is not None:
        note = f", {track.paused.note}" if track.paused.note else ""
        return f"it is paused ({track.paused.reason}{note}); resume it first"
    if row.only_if and place.enabled is not None:
        return f"only when {row.only_if}; {place.enabled} is"
    if row.after == "canary_1":
        if place.canary is not None:
            return f"{place.canary} is already a canary"
        # A watch without a baseline can only judge invariants, so it does not block a canary.
        if place.rollout is not None and place.rollout.baseline is not None:
            until = f"{place.rollout.watch_until:%Y-%m-%d %H:%M:%SZ}"
            return f"the watch over {place.rollout.version} runs until {until}"
    if row.before in CANARY and clean_streak(state, command.environment) is None:
        needed = state.policy.canary.clean_windows
        return f"it needs {needed} clean windows in a row at its last share, by this policy"
    return None


def _make_case(
    state: LifecycleState, command: Promote, row: Move, moment: DecisionMoment
) -> PromotionCase:
    track = state.asset.track(command.environment, command.version)
    keeps = row.before != "evaluating" and row.evidence != "none"
    result_ids = (
        bound_results(track, command.result_ids)
        if keeps
        else tuple(sorted(set(command.result_ids)))
    )
    return PromotionCase(
        state=state,
        environment=command.environment,
        version=command.version,
        result_ids=result_ids,
        evidence=command.evidence,
        now=moment.now,
        actor=command.actor,
    )


def _list_overrides(state: LifecycleState, command: Promote, matrix: GateMatrix) -> Facts:
    reasons = {finding.gate: finding.reason for finding in matrix.findings}
    return tuple(
        GateOverridden(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            stage=command.to,
            gate=waiver.gate,
            waiver=waiver.seq,
            reason=reasons[waiver.gate],
        )
        for waiver in matrix.waivers
    )


def _step_facts(
    case: PromotionCase, command: Promote, row: Move, matrix: GateMatrix, moment: DecisionMoment
) -> Facts:
    state = case.state
    place = state.asset.place(command.environment)
    windows = clean_streak(state, command.environment) or () if row.before in CANARY else ()
    step = moved(
        state,
        command.environment,
        moment,
        command.version,
        row.after,
        cause=row.cause,
        note=command.note,
        result_ids=case.result_ids if row.evidence != "none" else (),
        approvals=tuple(vote.seq for vote in matrix.votes.approved) if row.is_approved else (),
        windows=windows,
        gates=matrix.findings,
    )
    if row.after == "canary_1":
        return (
            msgspec.structs.replace(step, baseline=place.enabled, salt=_make_salt(state, command)),
        )
    if row.after == "enabled":
        return _enable_facts(state, command, step, moment)
    return (step,)


def _make_salt(state: LifecycleState, command: Promote) -> str:
    """Return the salt that assigns keys to arms; every rollout has a new one."""
    seed = {
        "asset": state.asset.name,
        "environment": command.environment,
        "version": command.version,
        "revision": state.asset.revision,
    }
    return digest(seed).removeprefix("sha256:")[:32]


def _enable_facts(
    state: LifecycleState, command: Promote, step: VersionMoved, moment: DecisionMoment
) -> Facts:
    """Return the facts that enable a version: the old one is superseded, and the watch begins."""
    place = state.asset.place(command.environment)
    policy = state.policy
    moves = partial(moved, state, command.environment, moment)
    facts: list[Fact] = []
    if place.canary is not None and place.canary != command.version:
        note = f"{command.version} was enabled meanwhile"
        facts.append(moves(place.canary, "shadow", cause="demote", note=note))
    if place.enabled is not None:
        note = f"{command.version} takes its place"
        facts.append(moves(place.enabled, "superseded", cause="supersede", note=note))
    watch = moment.now + timedelta(hours=policy.watch_hours) if policy.watch_hours else None
    salt = place.rollout.salt if place.rollout is not None else _make_salt(state, command)
    facts.append(
        msgspec.structs.replace(step, baseline=place.enabled, salt=salt, watch_until=watch)
    )
    return tuple(facts)


def _break_glass(
    state: LifecycleState, command: Promote, row: Move, moment: DecisionMoment
) -> Facts:
    """Decide break-glass access: enable a version that once passed, for a limited time."""
    policy = state.policy
    if not visible_form(command.note) or not visible_form(command.incident or ""):
        raise RefusedError("break-glass needs an incident and a note that says why")
    case = _make_case(state, command, row, moment)
    problems = evidence_problems(case, row.evidence)
    if problems:
        raise RefusedError(_refuse_step(state, command, row), tuple(problems))
    matrix = examine_gates(case, row.after, row.evidence)
    gates = tuple(
        msgspec.structs.replace(finding, state="break_glass", blocks=False)
        if finding.blocks
        else finding
        for finding in matrix.findings
    )
    access = BreakGlassUsed(
        asset=state.asset.name,
        environment=command.environment,
        version=command.version,
        incident=command.incident or "",
        note=command.note,
        until=moment.now + timedelta(hours=policy.break_glass_hours),
        review_due=moment.now + timedelta(hours=policy.break_glass_review_hours),
    )
    step = moved(
        state,
        command.environment,
        moment,
        command.version,
        "enabled",
        cause="break_glass",
        note=command.note,
        result_ids=case.result_ids,
        gates=gates,
    )
    return (access, *_enable_facts(state, command, step, moment))
