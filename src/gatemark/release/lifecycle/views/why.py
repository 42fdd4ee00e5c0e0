"""Why a version is in its stage: the citations, votes and gates behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from gatemark.core.errors import IntegrityError, UnknownNameError, UsageError
from gatemark.core.result import Result
from gatemark.ledger.port import erasure_of
from gatemark.packs.kept_targets import check_subject
from gatemark.release.lifecycle.citations import check_blobs, erased_evidence
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.release.lifecycle.events.approvals import ApprovalGiven, GateOverridden
from gatemark.release.lifecycle.events.fact import LifecycleEvent, VersionFact
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import PRODUCTION, VersionRef
from gatemark.release.lifecycle.model.stages import EVIDENCED, moves_of
from gatemark.release.lifecycle.model.state import BreakGlassAccess, LifecycleState, Track
from gatemark.release.lifecycle.state_cache import (
    AssetStateCache,
    asset_state_cache,
    describe_undecided,
    unknown_asset,
)
from gatemark.release.lifecycle.views.history import asset_lines, find_approvers
from gatemark.release.lifecycle.views.views import Citation, ClimbStep, ShownVote, Why, Worth
from gatemark.workspace import Workspace

F = TypeVar("F", bound=VersionFact)


def explain_stage(workspace: Workspace, ref: VersionRef, environment: str = PRODUCTION) -> Why:
    """Return everything behind the current stage of a version, checked again."""
    lines = asset_lines(workspace, ref.asset)
    # Read anew, since checking citations takes long and others go on with the shared state.
    state = AssetStateCache(workspace.events).read(ref.asset)
    version = state.asset.versions.get(ref.version)
    if version is None:
        if not state.asset.versions:
            raise unknown_asset(workspace, ref.asset)
        known = ", ".join(state.asset.versions)
        raise UnknownNameError(f"{ref.asset} has no version {ref.version} (known: {known})")
    asset_state_cache(workspace).read(ref.asset)
    track = state.asset.track(environment, ref.version)
    steps = _list_moves(lines, environment, ref.version)
    found = [_check_citation(workspace, state, ref, one) for one in track.result_ids]
    # By the time of their sealing, as people remember them: ids are in no order.
    citations = tuple(sorted(found, key=lambda one: (str(one.sealed_at), one.id)))
    return Why(
        asset=ref.asset,
        version=ref.version,
        environment=environment,
        kind=state.asset.kind or "",
        risk=state.asset.risk,
        stage=track.stage,
        since=track.since,
        author=version.author,
        parent=version.parent,
        digest=version.digest,
        pins=version.pins,
        pins_digest=version.pins.digest,
        paused=_describe_pause(track),
        break_glass=_describe_break_glass(track.break_glass, workspace.clock()),
        steps=steps,
        citations=citations,
        votes=_list_votes(lines, environment, ref.version, steps, workspace.clock()),
        overrides=_list_overrides(lines, environment, ref.version),
        problems=_list_problems(track, citations),
        is_one_person=state.governance.policy.one_person,
        undecided=describe_undecided(state),
        next_moves=tuple(
            f"{row.after} ({row.cause} by {', '.join(row.roles)})"
            for row in moves_of(state.asset.kind)
            if row.before == track.stage and row.cause not in ("supersede", "ramp")
        ),
    )


def _select_facts(
    kind: type[F], lines: Sequence[LifecycleEvent], environment: str, version: str
) -> list[tuple[LifecycleEvent, F]]:
    """Return the events of one kind about a version in an environment."""
    return [
        (line, line.fact)
        for line in lines
        if isinstance(line.fact, kind)
        and (line.fact.environment, line.fact.version) == (environment, version)
    ]


def _list_moves(
    lines: Sequence[LifecycleEvent], environment: str, version: str
) -> tuple[ClimbStep, ...]:
    """Return the moves since the version last started its evaluation."""
    steps: list[ClimbStep] = []
    for line, fact in _select_facts(VersionMoved, lines, environment, version):
        if fact.after == "evaluating":
            steps = []
        steps.append(
            ClimbStep(
                seq=line.seq,
                at=line.at,
                actor=line.actor,
                before=fact.before,
                after=fact.after,
                cause=fact.cause,
                note=fact.note,
                result_ids=fact.result_ids,
                approved_by=find_approvers(lines, fact.approvals),
                window_count=len(fact.windows),
                gates=fact.gates,
                policy_digest=fact.policy_digest,
                through=line.through,
            )
        )
    return tuple(steps)


def _check_citation(
    workspace: Workspace, state: LifecycleState, ref: VersionRef, result_id: str
) -> Citation:
    try:
        result = workspace.results.get(result_id)
    except UsageError:
        return Citation(id=result_id, worth="missing", reason="it is not in the store")
    except IntegrityError as error:
        return Citation(id=result_id, worth="changed", reason=str(error))
    expected = state.asset.versions[ref.version].digest
    worth: Worth = "verified"
    reason = "its seal holds, it passed, and it is about this candidate"
    if erasure_of(result) is not None:
        reason = "the ledger says that it passed, and it is about this candidate"
    erased = erased_evidence(workspace, result)
    try:
        check_blobs(workspace, result, erased)
        check_subject(result, workspace.blobs)
    except IntegrityError as error:
        worth, reason = "changed", str(error)
    if result.verdict != "pass":
        worth, reason = "changed", f"it is {result.verdict}, not pass"
    elif result.candidate is None or result.candidate.digest != expected:
        worth, reason = "changed", "it is about another candidate"
    return Citation(
        id=result_id,
        worth=worth,
        reason=reason,
        caveat="; ".join(_list_caveats(result, erased)) or None,
        verdict=result.verdict,
        title=result.title,
        pack=f"{result.pack.name} v{result.pack.version}",
        actor=result.actor,
        sealed_at=asset_state_cache(workspace).sealed_at(ref.asset, result_id)
        or result.finished_at,
    )


def _list_caveats(result: Result, erased: Mapping[str, int]) -> Iterator[str]:
    """Yield notes on a valid result."""
    answered = result.runtime.get("target.candidate")
    if answered is not None:
        yield f"{result.actor} vouched for the candidate; what answered was {short(answered)}"
    erasure = erasure_of(result)
    if erasure is not None:
        yield f"its texts were {erasure.words}"
    if erased:
        events = ", ".join(f"event {seq}" for seq in sorted(set(erased.values())))
        yield f"evidence was erased ({events}): it cannot be derived again"


def _list_votes(
    lines: Sequence[LifecycleEvent],
    environment: str,
    version: str,
    steps: Sequence[ClimbStep],
    now: datetime,
) -> tuple[ShownVote, ...]:
    first = steps[0].seq if steps else 0
    votes = _select_facts(ApprovalGiven, lines, environment, version)
    last = {(line.actor, fact.stage): line.seq for line, fact in votes}
    used = {
        number
        for line in lines
        if isinstance(line.fact, VersionMoved)
        for number in line.fact.approvals
    }
    return tuple(
        ShownVote(
            seq=line.seq,
            actor=line.actor,
            stage=fact.stage,
            decision=fact.decision,
            at=line.at,
            expires_at=fact.expires_at,
            was_used=line.seq in used,
            is_replaced=last[line.actor, fact.stage] != line.seq,
            is_expired=now >= fact.expires_at,
            note=fact.note,
            through=line.through,
        )
        for line, fact in votes
        if line.seq >= first
    )


def _list_overrides(
    lines: Sequence[LifecycleEvent], environment: str, version: str
) -> tuple[str, ...]:
    return tuple(
        f"{fact.gate} on the way to {fact.stage}: {fact.reason} (by {line.actor}, event {line.seq})"
        for line, fact in _select_facts(GateOverridden, lines, environment, version)
    )


def _describe_pause(track: Track) -> str | None:
    if track.paused is None:
        return None
    note = f": {track.paused.note}" if track.paused.note else ""
    return f"{track.paused.reason} by {track.paused.actor}{note}"


def _describe_break_glass(access: BreakGlassAccess | None, now: datetime) -> str | None:
    if access is None:
        return None
    words = f"{access.actor} used break-glass for {access.incident}: {access.note}"
    if access.reviewed_by is not None:
        return f"{words}; reviewed by {access.reviewed_by}"
    late = "; REVIEW IS OVERDUE" if now >= access.review_due else ""
    ends = "ended" if access.is_over(now) else "ends"
    return f"{words}; not reviewed, {ends} at {access.until:%Y-%m-%d %H:%M:%SZ}{late}"


def _list_problems(track: Track, citations: Sequence[Citation]) -> tuple[str, ...]:
    found = [
        f"result {short(one.id)}: {one.reason}" for one in citations if one.worth != "verified"
    ]
    if track.stage in EVIDENCED and not citations:
        found.append(f"{track.stage} does not rest on a result")
    return tuple(found)
