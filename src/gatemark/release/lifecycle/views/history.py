"""The history of an asset: what was live, when and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.release.lifecycle.events.approvals import ApprovalGiven
from gatemark.release.lifecycle.events.fact import LifecycleEvent, advance, find_fact_kind, fold
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.events.versions import VersionAdded
from gatemark.release.lifecycle.model.state import LifecycleState, Track, share_of
from gatemark.release.lifecycle.state_cache import read_event, unknown_asset
from gatemark.release.lifecycle.views.views import History, HistoryLine, Live, StageSpan
from gatemark.workspace import Workspace

MAX_LINES: Final = 1_000


def asset_history(
    workspace: Workspace, asset: str, *, at: datetime | None = None, limit: int = MAX_LINES
) -> History:
    """Return the events of an asset, newest first, and what was live at a given time."""
    now = workspace.clock()
    moment = now if at is None else at
    lines = asset_lines(workspace, asset)
    if not any(isinstance(line.fact, VersionAdded) for line in lines):
        raise unknown_asset(workspace, asset)
    past = [line for line in lines if line.at <= moment]
    state = fold(asset, past)
    shown = [line for line in past if line.fact.is_shown]
    approver_of = {line.seq: line.actor for line in past if isinstance(line.fact, ApprovalGiven)}
    return History(
        asset=asset,
        kind=state.asset.kind or "not yet known",
        risk=state.asset.risk,
        at=moment,
        live=live_of(state, past),
        segments=segments_of(past),
        lines=tuple(_make_line(line, approver_of) for line in reversed(shown[-limit:])),
        more_lines=max(0, len(shown) - limit),
    )


def asset_lines(workspace: Workspace, asset: str) -> list[LifecycleEvent]:
    """Return the events about an asset in order, without measurements."""
    store = workspace.existing_store().events
    return [
        line
        for event, payload in store.events(subject=asset)
        if (kind := find_fact_kind(event.kind)) is not None and not kind.is_measurement
        if isinstance(line := read_event(event, payload), LifecycleEvent)
    ]


def find_approvers(lines: Sequence[LifecycleEvent], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return who gave the approvals with these event numbers."""
    wanted = set(numbers)
    return tuple(line.actor for line in lines if line.seq in wanted)


def live_of(state: LifecycleState, lines: Sequence[LifecycleEvent]) -> tuple[Live, ...]:
    """Return what serves in each environment, and the move that enabled it."""
    found = []
    for environment, place in sorted(state.asset.places.items()):
        shadow = tuple(track.version for track in place.tracks.values() if track.stage == "shadow")
        canary = place.tracks[place.canary] if place.canary else None
        track, why = Track(version=""), "no version is enabled"
        if place.enabled is not None:
            track = place.tracks[place.enabled]
            move = next(line for line in lines if line.seq == track.seq)
            why = f"{track.cause} by {move.actor} (event {track.seq})"
        live = Live(
            environment=environment,
            version=place.enabled,
            since=track.since,
            why=why,
            result_ids=track.result_ids,
            approved_by=find_approvers(lines, track.approvals),
            shadow=shadow,
            canary=place.canary,
            canary_share=share_of(canary.stage) if canary else None,
        )
        found.append(live)
    return tuple(found)


def segments_of(lines: Sequence[LifecycleEvent]) -> tuple[StageSpan, ...]:
    """Return which version was in which stage, and when."""
    opened: dict[tuple[str, str], StageSpan] = {}
    done: list[StageSpan] = []
    state = fold(lines[0].fact.subject if lines else "", ())
    for line in lines:
        advance(state, line)
        if not isinstance(line.fact, VersionMoved):
            continue
        if state.asset.track(line.fact.environment, line.fact.version).seq != line.seq:
            # It changed nothing, since this build cannot decide it.
            continue
        key = (line.fact.environment, line.fact.version)
        if key in opened:
            done.append(msgspec.structs.replace(opened[key], end=line.at))
        opened[key] = StageSpan(
            environment=line.fact.environment,
            version=line.fact.version,
            stage=line.fact.after,
            start=line.at,
            end=None,
        )
    done.extend(opened.values())
    return tuple(sorted(done, key=lambda one: (one.environment, one.start)))


def _make_line(event: LifecycleEvent, approver_of: Mapping[int, str]) -> HistoryLine:
    fact = event.fact
    approvals = fact.approvals if isinstance(fact, VersionMoved) else ()
    return HistoryLine(
        seq=event.seq,
        at=event.at,
        actor=event.actor,
        version=getattr(fact, "version", None),
        environment=getattr(fact, "environment", None),
        what=fact.sentence if event.undecided is None else f"{fact.sentence}, not decided",
        tone=fact.tone,
        note=str(getattr(fact, "note", "")),
        result_ids=tuple(getattr(fact, "result_ids", ())),
        approved_by=tuple(approver_of[seq] for seq in approvals if seq in approver_of),
    )
