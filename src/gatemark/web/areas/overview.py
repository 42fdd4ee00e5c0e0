"""Assets by stage, the tasks of a person, and the steps that wait for approval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gatemark.accounts.identity import Identity
from gatemark.core.errors import UnknownNameError
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import RESULT_SEALED, ResultSealed
from gatemark.lifecycle.assets import asset_names
from gatemark.lifecycle.citations import summed_up
from gatemark.lifecycle.decisions.approvals import conflict_of_interest
from gatemark.lifecycle.decisions.citation import find_required_pack_result
from gatemark.lifecycle.events.approvals import APPROVING
from gatemark.lifecycle.events.versions import VersionAdded
from gatemark.lifecycle.model.nouns import PRODUCTION, Role, Stage
from gatemark.lifecycle.model.stages import LANE, lane_of
from gatemark.lifecycle.model.state import LifecycleState, Track
from gatemark.lifecycle.state_cache import read_state, unknown_asset
from gatemark.lifecycle.views.history import asset_lines
from gatemark.lifecycle.views.views import AssetRow, asset_rows
from gatemark.web.areas.attributions import waiting_attributions
from gatemark.web.areas.labels import waiting_labels
from gatemark.web.areas.reviews import waiting_reviews
from gatemark.web.areas.views import (
    OfferedResult,
    OpenStep,
    Overview,
    StageRow,
    StepVote,
    Task,
    WaitingTask,
)
from gatemark.workspace import Workspace

if TYPE_CHECKING:
    from gatemark.exams.advisory.promotion_packet import LanePacket

PAGE: Final = 100
TASKS_SHOWN: Final = 10
"""Maximum number of open reviews, and of label sets, that are searched for tasks."""
_SKIPPED: Final = frozenset({"retired", "superseded"})
_HANDS: Final[frozenset[Role]] = frozenset({"operator", "approver"})


def overview(
    workspace: Workspace, identity: Identity, *, after: str = "", limit: int = PAGE
) -> Overview:
    """Return the assets after a name, and all tasks of the caller."""
    names = asset_names(workspace)
    shown = [name for name in names if name > after][:limit]
    more = bool(shown) and shown[-1] != names[-1]
    return Overview(
        at=workspace.clock(),
        rows=tuple(_make_stage_row(workspace, row) for row in asset_rows(workspace, shown)),
        tasks=tuple(task for name in names for task in _list_tasks(workspace, identity, name)),
        desk=_list_waiting_tasks(workspace, identity),
        next=shown[-1] if more else None,
    )


def _list_waiting_tasks(workspace: Workspace, identity: Identity) -> tuple[WaitingTask, ...]:
    reviews = (
        WaitingTask("review", line.review, line.question, line.mine.answered, line.mine.total)
        for line in waiting_reviews(workspace, identity, TASKS_SHOWN)
    )
    labels = (
        WaitingTask("labels", line.labels, line.question, line.answered, line.total)
        for line in waiting_labels(workspace, identity, TASKS_SHOWN)
    )
    attributions = (
        WaitingTask(
            kind="attribution",
            name=line.attribution,
            what=f"the proposals about decision {line.decision}",
            answered=line.proposed - line.waiting,
            total=line.proposed,
        )
        for line in waiting_attributions(workspace, identity, TASKS_SHOWN)
    )
    return (*reviews, *labels, *attributions)


def _make_stage_row(workspace: Workspace, row: AssetRow) -> StageRow:
    place = read_state(workspace, row.asset).asset.place(row.environment)
    stages: dict[str, list[str]] = {}
    for track in place.tracks.values():
        if track.stage not in _SKIPPED:
            column = "canary" if track.stage.startswith("canary_") else track.stage
            stages.setdefault(column, []).append(track.version)
    fallen = [track for track in place.tracks.values() if track.stage in ("demoted", "rolled_back")]
    latest = max(fallen, key=lambda track: track.seq, default=None)
    # A demotion is shown until a later version is promoted in its place.
    serving = place.tracks.get(place.enabled or "")
    is_news = latest is not None and (
        serving is None or serving.cause == "rollback" or serving.seq < latest.seq
    )
    return StageRow(
        row=row,
        stages={stage: tuple(versions) for stage, versions in stages.items()},
        paused=tuple(track.version for track in place.tracks.values() if track.paused is not None),
        has_break_glass=any(
            track.break_glass is not None and track.break_glass.reviewed_by is None
            for track in place.tracks.values()
        ),
        demoted=latest.version if latest is not None and is_news else None,
    )


def _list_tasks(workspace: Workspace, identity: Identity, asset: str) -> Iterator[Task]:
    state = read_state(workspace, asset)
    roles = set(identity.roles)
    for environment, place in sorted(state.asset.places.items()):
        for track in place.tracks.values():
            yield from _track_tasks(state, identity.person, roles, environment, track)


def _track_tasks(
    state: LifecycleState, person: str, roles: set[Role], environment: str, track: Track
) -> Iterator[Task]:
    common = {"asset": state.asset.name, "environment": environment, "version": track.version}
    to = _find_next_voted(state, environment, track)
    if to is not None and set(APPROVING) & roles:
        free = conflict_of_interest(state, person, track.version) is None
        if free and not _has_voted(state, person, environment, track, to):
            yield Task(kind="vote", what=f"vote on the step to {to}", since=track.since, **common)
    if track.paused is not None and "operator" in roles:
        what = f"paused ({track.paused.reason}): resume it or roll it back"
        yield Task(kind="resume", what=what, since=track.paused.at, **common)
    access = track.break_glass
    if access is not None and access.reviewed_by is None and set(APPROVING) & roles:
        what = f"review the break-glass access for {access.incident}"
        if access.actor != person:
            yield Task(kind="confirm_break_glass", what=what, since=access.at, **common)
    if track.stage == "eligible" and _HANDS & roles:
        yield Task(kind="promote", what="promote it to shadow", since=track.since, **common)
    if track.stage == "demoted" and "author" in roles:
        what = "it was demoted; promote it again with a fresh required-pack result"
        yield Task(kind="look", what=what, since=track.since, **common)


def _find_next_voted(state: LifecycleState, environment: str, track: Track) -> Stage | None:
    """Return the stage that a vote would be about now."""
    if state.asset.kind == LANE:
        return "shadow" if track.stage == "eligible" else None
    place = state.asset.place(environment)
    if track.stage == "shadow":
        return "enabled" if place.enabled is None else "canary_1"
    return "enabled" if track.stage == "canary_25" else None


def _has_voted(
    state: LifecycleState, person: str, environment: str, track: Track, to: Stage
) -> bool:
    return any(
        vote.actor == person
        and vote.seq > track.seq
        and (vote.version, vote.environment, vote.stage) == (track.version, environment, to)
        for vote in state.asset.approvals
    )


def etag_of(state: LifecycleState) -> str:
    """Return the ETag of an asset; it also covers roles and policies."""
    return f'"{state.asset.revision}.{state.governance.revision}"'


def asset_etag(workspace: Workspace, asset: str) -> str:
    """Return the current ETag of an asset."""
    state = read_state(workspace, asset)
    if not state.asset.versions:
        raise unknown_asset(workspace, asset)
    return etag_of(state)


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
                if _find_next_voted(state, environment, track) is not None
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
    to = _find_next_voted(state, environment, track) or track.stage
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
    from gatemark.exams.advisory.promotion_packet import build_packet  # noqa: PLC0415

    return build_packet(workspace, lane_of(step.asset), full.id)


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
