"""Approvals: the steps that wait for one, and what a vote is bound to; ``moves`` has the vote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gatemark.core.errors import UnknownNameError
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import RESULT_SEALED, ResultSealed
from gatemark.release.lifecycle.assets import asset_names
from gatemark.release.lifecycle.citations import summed_up
from gatemark.release.lifecycle.commands import VOTED_STAGES, Approve
from gatemark.release.lifecycle.decisions.approvals import conflict_of_interest
from gatemark.release.lifecycle.decisions.citation import find_required_pack_result
from gatemark.release.lifecycle.events.approvals import APPROVING
from gatemark.release.lifecycle.events.versions import VersionAdded
from gatemark.release.lifecycle.model.nouns import PRODUCTION, Pins, Stage
from gatemark.release.lifecycle.model.stages import LANE, lane_of
from gatemark.release.lifecycle.model.state import LifecycleState, Track
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.lifecycle.views.history import asset_lines
from gatemark.release.lifecycle.views.views import View
from gatemark.server.accounts.identity import Identity
from gatemark.server.asset_tag import etag_of
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.request_body import FormFields
from gatemark.workspace import Workspace

if TYPE_CHECKING:
    from gatemark.packs.lanes import LanePacket

doors = Doors("assets")


class OfferedResult(View, frozen=True, kw_only=True):
    """A passing result about a candidate that a step could cite."""

    id: str
    pack: str
    sealed_at: datetime
    baseline_digest: str | None
    is_cited: bool


class StepVote(View, frozen=True, kw_only=True):
    """A vote on an open step, and whether it still counts."""

    actor: str
    decision: str
    at: datetime
    expires_at: datetime
    is_expired: bool
    result_ids: tuple[str, ...]
    note: str


class OpenStep(View, frozen=True, kw_only=True):
    """A step that waits for approval, with everything that a vote is bound to."""

    asset: str
    environment: str
    version: str
    stage: str
    to: str
    kind: str
    risk: str
    author: str
    parent: str | None
    candidate_digest: str
    policy_digest: str
    pins: Pins
    note: str
    offered: tuple[OfferedResult, ...]
    votes: tuple[StepVote, ...]
    approvals_needed: int
    paused: str | None
    etag: str
    conflict: str | None


def open_steps(
    workspace: Workspace, identity: Identity, asset: str | None = None
) -> tuple[OpenStep, ...]:
    """Return every step that waits for approval, with what a vote would be bound to."""
    names = asset_names(workspace) if asset is None else (asset,)
    found: list[OpenStep] = []
    for name in names:
        state = read_state(workspace, name)
        for environment, place in sorted(state.asset.places.items()):
            found.extend(
                _open_step(workspace, identity, state, environment, track.version)
                for track in place.tracks.values()
                if find_next_voted(state, environment, track) is not None
            )
    return tuple(found)


def open_step(workspace: Workspace, identity: Identity, asset: str, version: str) -> OpenStep:
    """Return the step of one version in production that waits for approval."""
    for step in open_steps(workspace, identity, asset):
        if (step.version, step.environment) == (version, PRODUCTION):
            return step
    raise UnknownNameError(f"no step of {asset}@{version} is up for a vote")


def _open_step(
    workspace: Workspace, identity: Identity, state: LifecycleState, environment: str, version: str
) -> OpenStep:
    asset, now = state.asset, workspace.clock()
    track, known = asset.track(environment, version), asset.versions[version]
    to = find_next_voted(state, environment, track) or track.stage
    notes = [
        line.fact.note
        for line in asset_lines(workspace, asset.name)
        if isinstance(line.fact, VersionAdded) and line.fact.version == version
    ]
    return OpenStep(
        asset=asset.name,
        environment=environment,
        version=version,
        stage=track.stage,
        to=to,
        kind=asset.kind or "",
        risk=asset.risk,
        author=known.author,
        parent=known.parent,
        candidate_digest=known.digest,
        policy_digest=state.governance.policy_digest,
        pins=known.pins,
        note=notes[0] if notes else "",
        offered=offered_results(
            sealed_results(workspace, asset.name), known.digest, track.result_ids
        ),
        votes=tuple(
            StepVote(
                actor=vote.actor,
                decision=vote.decision,
                at=vote.at,
                expires_at=vote.expires_at,
                is_expired=now >= vote.expires_at,
                result_ids=vote.result_ids,
                note=vote.note,
            )
            for vote in asset.approvals
            if vote.seq > track.seq
            and (vote.version, vote.environment, vote.stage) == (version, environment, to)
        ),
        approvals_needed=state.policy.approvals.needed(to, asset.risk),
        paused=None if track.paused is None else track.paused.reason,
        etag=etag_of(state),
        conflict=conflict_of_interest(state, identity.person, version),
    )


def find_next_voted(state: LifecycleState, environment: str, track: Track) -> Stage | None:
    """Return the stage that a vote would be about now."""
    if state.asset.kind == LANE:
        return "shadow" if track.stage == "eligible" else None
    place = state.asset.place(environment)
    if track.stage == "shadow":
        return "enabled" if place.enabled is None else "canary_1"
    return "enabled" if track.stage == "canary_25" else None


def step_packet(workspace: Workspace, step: OpenStep) -> LanePacket | None:
    """Return the packet of an advisory lane, from the result that decides its step."""
    if step.kind != LANE:
        return None
    asset = read_state(workspace, step.asset).asset
    ids = asset.track(step.environment, step.version).result_ids
    results = workspace.results
    cited = {name: summed_up(results.get(name), workspace.blobs) for name in ids}
    full = find_required_pack_result(ids, cited, asset.required_pack)
    if full is None:
        return None
    # Loads exams and statistics, which only the page of a lane needs.
    from gatemark.packs.lanes import find_lane_exams  # noqa: PLC0415

    exam, *_ = find_lane_exams(results.get(full.id))
    return exam.build_packet(workspace, lane_of(step.asset), full.id)


def sealed_results(workspace: Workspace, asset: str) -> tuple[tuple[Event, ResultSealed], ...]:
    """Return every event about a result of an asset."""
    events = workspace.events.events(kind=RESULT_SEALED, subject=asset)
    return tuple((event, convert_stored(payload, ResultSealed)) for event, payload in events)


def offered_results(
    sealed_events: Sequence[tuple[Event, ResultSealed]], digest: str, cited: Sequence[str]
) -> tuple[OfferedResult, ...]:
    """Return the passing results about a candidate, newest first."""
    found: dict[str, OfferedResult] = {}
    for event, sealed in sealed_events:
        if sealed.candidate is None or sealed.candidate.digest != digest:
            continue
        if sealed.verdict == "pass":
            found[sealed.result_id] = OfferedResult(
                id=sealed.result_id,
                pack=f"{sealed.pack.name} v{sealed.pack.version}",
                sealed_at=event.at,
                baseline_digest=sealed.baseline.digest if sealed.baseline else None,
                is_cited=sealed.result_id in cited,
            )
    return tuple(reversed(found.values()))


@doors.view("/steps", tuple[OpenStep, ...])
def get_steps(visit: Visit) -> tuple[OpenStep, ...]:
    """List the steps that wait for approval."""
    return open_steps(visit.workspace, visit.identity)


@get_steps.page("/approvals", "approvals.html")
def approvals_page(document: tuple[OpenStep, ...]) -> Context:
    """Show every open step."""
    return {"title": "Approvals", "steps": document}


@doors.page("/approvals/{asset}/{version}", "approval_vote.html")
def step_page(visit: Visit, asset: str, version: str) -> Context:
    """Show an open step and the form for a vote."""
    step = open_step(visit.workspace, visit.identity, asset, version)
    return {
        "title": f"{asset}@{version}: to {step.to}",
        "step": step,
        "may_vote": bool(set(APPROVING) & set(visit.identity.roles)),
        "stage": next(word for word, stage in VOTED_STAGES.items() if stage == step.to),
        "vote": FormFields(Approve),
        "packet": step_packet(visit.workspace, step),
    }
