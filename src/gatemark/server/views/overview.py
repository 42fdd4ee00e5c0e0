"""The overview: assets by stage, and the tasks of a person."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import Query

from gatemark.release.lifecycle.assets import asset_names
from gatemark.release.lifecycle.decisions.approvals import conflict_of_interest
from gatemark.release.lifecycle.events.approvals import APPROVING
from gatemark.release.lifecycle.model.nouns import Role, Stage
from gatemark.release.lifecycle.model.state import LifecycleState, Track
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.lifecycle.views.views import AssetRow, View, asset_rows
from gatemark.server.accounts.identity import Identity
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import Limit
from gatemark.server.views.approvals import find_next_voted
from gatemark.server.views.attributions import waiting_attributions
from gatemark.server.views.labels import waiting_labels
from gatemark.server.views.reviews import waiting_reviews
from gatemark.workspace import Workspace

doors = Doors("assets")
PAGE: Final = 100
COLUMNS: Final = ("draft", "evaluating", "eligible", "shadow", "canary", "enabled")
TASKS_SHOWN: Final = 10
"""Maximum number of open reviews, and of label sets, that are searched for tasks."""
_SKIPPED: Final = frozenset({"retired", "superseded"})
_HANDS: Final[frozenset[Role]] = frozenset({"operator", "approver"})
TaskKind = Literal["vote", "promote", "resume", "confirm_break_glass", "look"]


class Task(View, frozen=True, kw_only=True):
    """An open task of a person."""

    kind: TaskKind
    asset: str
    environment: str
    version: str
    what: str
    since: datetime | None


class WaitingTask(View, frozen=True):
    """A review, label set or attribution that waits for a person, and its progress."""

    kind: Literal["review", "labels", "attribution"]
    name: str
    what: str
    answered: int
    total: int


class StageRow(View, frozen=True, kw_only=True):
    """The stages of an asset's versions in one environment, without retired ones."""

    row: AssetRow
    stages: dict[str, tuple[str, ...]]
    paused: tuple[str, ...]
    has_break_glass: bool
    demoted: str | None


class Overview(View, frozen=True, kw_only=True):
    """All assets by stage, and the tasks of the caller."""

    at: datetime
    rows: tuple[StageRow, ...]
    tasks: tuple[Task, ...]
    desk: tuple[WaitingTask, ...]
    next: str | None


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
    to = find_next_voted(state, environment, track)
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


def _has_voted(
    state: LifecycleState, person: str, environment: str, track: Track, to: Stage
) -> bool:
    return any(
        vote.actor == person
        and vote.seq > track.seq
        and (vote.version, vote.environment, vote.stage) == (track.version, environment, to)
        for vote in state.asset.approvals
    )


@doors.view("/overview", Overview)
def get_overview(
    visit: Visit, after: Annotated[str, Query(max_length=128)] = "", limit: Limit = PAGE
) -> Overview:
    """List assets by stage, and the caller's open tasks."""
    return overview(visit.workspace, visit.identity, after=after, limit=limit)


@get_overview.page("/", "overview.html", limit=PAGE)
def overview_page(document: Overview) -> Context:
    """Show assets by stage, and the caller's tasks."""
    return {"view": document, "columns": COLUMNS, "title": "Overview"}
