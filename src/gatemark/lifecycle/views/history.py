"""What was live when, and why: the ledger's events about one asset told in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from gatemark.core.errors import UnknownNameError
from gatemark.lifecycle.model.events import (
    KINDS,
    WORKSPACE_SUBJECT,
    ApprovalGiven,
    BreakGlassReviewed,
    BreakGlassUsed,
    DriftNoted,
    ExamSet,
    Fact,
    GateOverridden,
    GateWaived,
    LifecycleEvent,
    VersionAdded,
    VersionMoved,
    VersionPaused,
    WatchClosed,
    WindowJudged,
)
from gatemark.lifecycle.model.fold import fold
from gatemark.lifecycle.model.state import LifecycleState, share_of
from gatemark.lifecycle.state_cache import recorded
from gatemark.lifecycle.views.views import History, HistoryLine, Live, StageSpan, Tone
from gatemark.workspace import Workspace

MAX_LINES: Final = 1_000
_UNSEEN: Final = frozenset({"canary_window", "service_reported"})
"""Kinds that only carry numbers; their verdicts are told."""
_FALLS: Final = frozenset({"demote", "rollback"})


def asset_history(
    workspace: Workspace, asset: str, *, at: datetime | None = None, limit: int = MAX_LINES
) -> History:
    """Everything that happened to an asset, newest first, and what is or was live at a moment."""
    now = workspace.clock()
    moment = now if at is None else at
    lines = asset_lines(workspace, asset)
    if not any(isinstance(line.fact, VersionAdded) for line in lines):
        raise UnknownNameError(f"there is no asset {asset}")
    state = fold(asset, [line for line in lines if line.at <= moment])
    told = [line for line in lines if line.at <= moment]
    tellable = [line for line in told if _is_told(line.fact)]
    tell = _teller(told)
    return History(
        asset=asset,
        kind=state.asset.kind or "not yet known",
        risk=state.asset.risk,
        at=moment,
        live=live_of(state, told),
        segments=segments_of(told),
        lines=tuple(tell(line) for line in reversed(tellable[-limit:])),
        more_lines=max(0, len(tellable) - limit),
    )


def asset_lines(workspace: Workspace, asset: str) -> list[LifecycleEvent]:
    """The events about an asset in order; measurements are left where they are."""
    store = workspace.existing_store().events
    return [
        line
        for event, payload in store.events(subject=asset)
        if event.kind not in _UNSEEN and event.kind in KINDS
        if (line := recorded(event, payload)) is not None
    ]


def workspace_lines(workspace: Workspace) -> list[LifecycleEvent]:
    """The events about roles and the release policy, in order."""
    store = workspace.existing_store().events
    return [
        line
        for event, payload in store.events(subject=WORKSPACE_SUBJECT)
        if (line := recorded(event, payload)) is not None
    ]


def approvers(lines: Sequence[LifecycleEvent], numbers: Sequence[int]) -> tuple[str, ...]:
    """Who gave the approvals of these event numbers."""
    wanted = set(numbers)
    return tuple(line.actor for line in lines if line.seq in wanted)


def live_of(state: LifecycleState, lines: Sequence[LifecycleEvent]) -> tuple[Live, ...]:
    """What serves in each environment, and the move that made it so."""
    found = []
    for environment, place in sorted(state.asset.places.items()):
        shadow = tuple(track.version for track in place.tracks.values() if track.stage == "shadow")
        canary = place.tracks[place.canary] if place.canary else None
        common: dict[str, Any] = {
            "environment": environment,
            "shadow": shadow,
            "canary": place.canary,
            "canary_share": share_of(canary.stage) if canary else None,
        }
        if place.enabled is None:
            found.append(Live(version=None, since=None, why="no version is enabled", **common))
            continue
        track = place.tracks[place.enabled]
        move = next(line for line in lines if line.seq == track.seq)
        approved = approvers(lines, track.approvals)
        found.append(
            Live(
                version=place.enabled,
                since=track.since,
                why=f"{track.cause} by {move.actor} (event {track.seq})",
                result_ids=track.result_ids,
                approved_by=approved,
                **common,
            )
        )
    return tuple(found)


def segments_of(lines: Sequence[LifecycleEvent]) -> tuple[StageSpan, ...]:
    """Which version was in which stage from when to when."""
    opened: dict[tuple[str, str], tuple[str, datetime]] = {}
    done: list[StageSpan] = []
    for line in lines:
        if not isinstance(line.fact, VersionMoved):
            continue
        key = (line.fact.environment, line.fact.version)
        if key in opened:
            stage, start = opened[key]
            done.append(_segment(key, stage, start, line.at))
        opened[key] = (line.fact.after, line.at)
    done.extend(_segment(key, stage, start, None) for key, (stage, start) in opened.items())
    return tuple(sorted(done, key=lambda one: (one.environment, one.start)))


def _segment(key: tuple[str, str], stage: str, start: datetime, end: datetime | None) -> StageSpan:
    environment, version = key
    return StageSpan(environment=environment, version=version, stage=stage, start=start, end=end)


def _is_told(fact: Fact) -> bool:
    return not (isinstance(fact, DriftNoted) and fact.level in ("OK", "INFO"))


def _teller(lines: Sequence[LifecycleEvent]) -> Callable[[LifecycleEvent], HistoryLine]:
    """How to tell an event, given all that happened."""
    actor_of = {line.seq: line.actor for line in lines if isinstance(line.fact, ApprovalGiven)}

    def tell(line: LifecycleEvent) -> HistoryLine:
        fact = line.fact
        what, tone = _words(fact)
        numbers = fact.approvals if isinstance(fact, VersionMoved) else ()
        return HistoryLine(
            seq=line.seq,
            at=line.at,
            actor=line.actor,
            version=getattr(fact, "version", None),
            environment=getattr(fact, "environment", None),
            what=what,
            tone=tone,
            note=str(getattr(fact, "note", "")),
            result_ids=tuple(getattr(fact, "result_ids", ())),
            approved_by=tuple(actor_of[seq] for seq in numbers if seq in actor_of),
        )

    return tell


def _words(fact: Fact) -> tuple[str, Tone]:
    if isinstance(fact, VersionMoved):
        falls = (fact.cause in _FALLS and fact.after != "enabled") or fact.cause == "break_glass"
        tone: Tone = "down" if falls else "up"
        if fact.after in ("superseded", "retired", "rejected"):
            tone = "down" if fact.after == "rejected" else "note"
        return f"{fact.before} → {fact.after} ({fact.cause})", tone
    if isinstance(fact, VersionPaused):
        if fact.reason is None:
            return "resumed", "note"
        return f"paused ({fact.reason})", "flag"
    if isinstance(fact, WindowJudged):
        what = f"window {fact.start:%Y-%m-%d %H:%MZ} {fact.state}: {'; '.join(fact.reasons)}"
        return what, "note" if fact.state == "clean" else "flag"
    return _TELL[type(fact)](fact)


_VERBS: Final = {"approve": "approved", "reject": "rejected", "abstain": "abstained from"}
_TELL: Final[dict[type, Callable[[Any], tuple[str, Tone]]]] = {
    VersionAdded: lambda fact: (f"added, made from {fact.parent or 'nothing before'}", "note"),
    ExamSet: lambda fact: (
        f"the full pack is now {fact.exam.pack} v{fact.exam.version}",
        "note",
    ),
    ApprovalGiven: lambda fact: (f"{_VERBS[fact.decision]} the step to {fact.stage}", "note"),
    GateWaived: lambda fact: (f"waived {fact.gate} until {fact.expires_at:%Y-%m-%d}", "flag"),
    GateOverridden: lambda fact: (f"overrode {fact.gate} on the way to {fact.stage}", "flag"),
    BreakGlassUsed: lambda fact: (f"BROKE THE GLASS for {fact.incident}", "down"),
    BreakGlassReviewed: lambda fact: (f"reviewed the broken glass of {fact.incident}", "note"),
    DriftNoted: lambda fact: (f"drift of {fact.metric}: {fact.level}", "flag"),
    WatchClosed: lambda fact: (
        f"the watch is over: {fact.clean_count} clean windows, {fact.other_count} others",
        "note",
    ),
}
