"""Act on episodes: write ledger events and move versions, each once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Final

import msgspec

from gatemark.core.errors import GatemarkError, RefusedError
from gatemark.core.result import AssetKind
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import DRIFT_SIGNAL, SYSTEM
from gatemark.ledger.port import event_moment
from gatemark.release.drift.assets import (
    LiveVersion,
    ServingHistory,
    explain_earlier_breach,
    find_live_version,
)
from gatemark.release.drift.episode_check import CLOSED, KEPT, NOTIFIED
from gatemark.release.drift.judging.policy import Act, DriftPolicy
from gatemark.release.drift.judging.tick import TickFindings
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.signal import ALARMS, DriftSignal, Episode, rank_level
from gatemark.release.drift.stores.episodes import EpisodeAction as KeptAct
from gatemark.release.lifecycle.act import act, preview
from gatemark.release.lifecycle.commands import Command, Demote, PauseVersion, RollBack
from gatemark.release.lifecycle.decisions.demotion import LastLiveError
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import PRODUCTION
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

BATCH: Final = 500
NO_FALLBACK: Final = "no earlier version takes over"


class ActionRecord(msgspec.Struct, frozen=True):
    """One action on an episode, and its outcome."""

    episode: str
    asset: str
    metric: str
    level: str
    act: str
    outcome: str
    events: tuple[int, ...]


class Acts(msgspec.Struct, frozen=True):
    """The actions of one tick, and the ids of the episodes that owners get alerts about."""

    done: tuple[ActionRecord, ...]
    to_tell: frozenset[str]


def act_on(
    workspace: Workspace,
    policy: DriftPolicy,
    ticked: TickFindings,
    history: ServingHistory,
    *,
    now: datetime,
) -> Acts:
    """Carry out the policy for each episode, by the stage of its version. No action is repeated.

    (1) Record the episodes that ended. (2) Record the level of each open episode, the worst first.
    (3) Move the version that drifted, unless its asset was already moved in this tick.
    """
    # A probe that crashed may have closed episodes without recording it in the ledger.
    ended = {
        episode.id: episode for episode in (*episodes_of(workspace).unnotified(), *ticked.closed)
    }
    episodes = (*ended.values(), *ticked.open)
    known = episodes_of(workspace).acts([episode.id for episode in episodes]) if episodes else []
    did = {(one.episode, one.act, one.level) for one in known}
    notified = {one.episode: one.events for one in known if one.act == NOTIFIED}
    done = [
        _tell_closed(workspace, episode, now)
        for episode in ended.values()
        if episode.id in notified and (episode.id, CLOSED, "OK") not in did
    ]
    to_tell: set[str] = set()
    moved: set[str] = set()
    for episode in sorted(ticked.open, key=lambda one: (-rank_level(one.level), one.opened.start)):
        if (episode.id, NOTIFIED, episode.level) not in did:
            news = _tell(workspace, episode, now)
            notified[episode.id] = news.events
            done.append(news)
        version = episode.version or history.version_at(episode.asset, episode.opened)
        stand = find_live_version(workspace, episode.asset, version)
        acts = policy.acts_for(stand.stage, episode.level)
        if "alert" in acts:
            to_tell.add(episode.id)
        for wanted in acts:
            is_done = (episode.id, wanted, episode.level) in did
            if wanted == "alert" or is_done or episode.asset in moved:
                continue
            may_stop = episode.level == "BREACH" and policy.on_breach == "stop"
            cited = notified[episode.id]
            action: ActionRecord | None = None
            why = "" if policy.keeps_live(stand.stage) else None
            if why is None and stand.stage == "enabled" and not may_stop:
                # A version that breached must not come back because its successor breached, too.
                command = _make_command(episode, wanted, stand, cited, may_stop=False)
                why = _find_fallback_problem(workspace, history, command)
            if why is None:
                action = _move(workspace, episode, wanted, stand, cited, now=now, may_stop=may_stop)
            if action is None:
                action = _record_kept_live(
                    workspace, episode, did, notified, now, why=why or NO_FALLBACK
                )
            elif action.events:
                moved.add(episode.asset)
            done.extend(() if action is None else (action,))
    return Acts(tuple(done), frozenset(to_tell))


def tell_levels(
    workspace: Workspace,
    signals: Sequence[DriftSignal],
    before: Mapping[tuple[str, str, str], str],
    kinds: Mapping[str, AssetKind | None],
    *,
    now: datetime,
) -> None:
    """Append the changed levels of registered assets to the ledger.

    Alarms are left out: ``act_on`` records them as episodes.
    """
    news = [
        signal
        for signal in signals
        if signal.asset in kinds
        and signal.window is not None
        and signal.level not in ALARMS
        and before.get((signal.asset, signal.metric, signal.detector)) != signal.level
        and before.get((signal.asset, signal.metric, signal.detector)) not in ALARMS
    ]
    for start in range(0, len(news), BATCH):
        at = event_moment(workspace.events, now)
        workspace.events.append(
            [
                _make_draft(signal, at, {"reason": signal.reason})
                for signal in news[start : start + BATCH]
            ]
        )


def episode_payload(episode: Episode) -> dict[str, object]:
    """Return the episode's part of a ledger event: signal, baseline windows and their digest."""
    return {
        "signal": msgspec.to_builtins(episode.signal),
        "opened": episode.opened.id,
        "latest": episode.latest.id,
        "baseline_ids": list(episode.baseline_ids),
        "baseline_digest": episode.baseline_digest,
        "drift_policy_digest": episode.policy_digest,
    }


def _tell(workspace: Workspace, episode: Episode, now: datetime) -> ActionRecord:
    draft = _make_draft(episode, event_moment(workspace.events, now), episode_payload(episode))
    (event,) = workspace.events.append([draft])
    return _record_outcome(
        workspace, episode, NOTIFIED, episode.signal.reason, now, events=(event.seq,)
    )


def _tell_closed(workspace: Workspace, episode: Episode, now: datetime) -> ActionRecord:
    over = msgspec.structs.replace(episode, level="OK")
    because = episode.closed_because or "it is over"
    payload = {"closed_because": because, "baseline_digest": episode.baseline_digest}
    (event,) = workspace.events.append(
        [_make_draft(over, event_moment(workspace.events, now), payload)]
    )
    return _record_outcome(workspace, over, CLOSED, because, now, events=(event.seq,))


def _make_draft(
    about: DriftSignal | Episode, at: datetime, more: Mapping[str, object]
) -> EventDraft:
    identity = about.id if isinstance(about, Episode) else about.episode
    payload = {
        "asset": about.asset,
        "metric": about.metric,
        "level": about.level,
        "detector": about.detector,
        "environment": PRODUCTION,
        "episode": identity,
        **({} if about.version is None else {"version": about.version}),
        **more,
    }
    return EventDraft(DRIFT_SIGNAL, at, SYSTEM, about.asset, payload)


def _record_kept_live(
    workspace: Workspace,
    episode: Episode,
    did: Set[tuple[str, str, str]],
    notified: Mapping[str, tuple[int, ...]],
    now: datetime,
    *,
    why: str,
) -> ActionRecord | None:
    """Record once that a drifting version stays live and that a person has to decide.

    Return None if this is recorded already.
    """
    if (episode.id, KEPT, episode.level) in did:
        return None
    outcome = f"kept live: {why}; decide with 'gatemark demote {episode.asset}'"
    return _record_outcome(workspace, episode, KEPT, outcome, now, events=notified[episode.id])


def _find_fallback_problem(
    workspace: Workspace, history: ServingHistory, command: Command
) -> str | None:
    """Return why the version that would take over must not serve, or None if it may.

    None also when no version would take over, or when the command would be refused: ``_move``
    reports the refusal.
    """
    try:
        facts = preview(workspace, command)
    except GatemarkError:
        return None
    for fact in facts:
        if isinstance(fact, VersionMoved) and fact.after == "enabled":
            return explain_earlier_breach(workspace, history, fact.asset, fact.version) or None
    return None


def _move(
    workspace: Workspace,
    episode: Episode,
    wanted: Act,
    stand: LiveVersion,
    signals: tuple[int, ...],
    *,
    now: datetime,
    may_stop: bool,
) -> ActionRecord | None:
    """Demote, pause or roll back the version, citing the signals, and return the outcome.

    A refusal is an outcome, too. Return None if the version is the last one that can serve and the
    policy does not say ``stop``.
    """
    try:
        result = act(workspace, _make_command(episode, wanted, stand, signals, may_stop=may_stop))
    except LastLiveError:
        return None
    except RefusedError as error:
        # Not recorded as done: the next tick tries again.
        return _make_record(episode, wanted, f"refused: {error}", ())
    except GatemarkError as error:
        return _make_record(episode, wanted, f"failed: {error}", ())
    if not result.is_change:
        # Cite the signals: verification rejects an act without events.
        return _record_outcome(
            workspace, episode, wanted, f"no change: already {wanted}", now, events=signals
        )
    numbers = tuple(event.seq for event in result.events)
    return _record_outcome(
        workspace, episode, wanted, _describe_action(wanted, stand), now, events=numbers
    )


def _make_command(
    episode: Episode, wanted: Act, stand: LiveVersion, signals: tuple[int, ...], *, may_stop: bool
) -> Command:
    note = f"{episode.level} of {episode.metric}: {episode.signal.reason}"[:1900]
    if may_stop and stand.stage == "enabled":
        note += " (drift policy: on_breach stop)"
    asset, version = episode.asset, stand.version
    if version is None:
        raise RefusedError(f"{asset}: nothing is live")
    if wanted == "pause":
        return PauseVersion(actor=SYSTEM, asset=asset, version=version, reason="warn", note=note)
    if wanted == "roll_back":
        return RollBack(
            actor=SYSTEM,
            asset=asset,
            version=version,
            signals=signals,
            note=note,
            stop=may_stop,
        )
    return Demote(
        actor=SYSTEM,
        asset=asset,
        version=version,
        to="shadow" if wanted == "shadow" else "demoted",
        signals=signals,
        note=note,
        stop=may_stop,
    )


def _describe_action(wanted: Act, stand: LiveVersion) -> str:
    verbs = {
        "shadow": "moved to shadow",
        "demote": "demoted",
        "pause": "paused",
        "roll_back": "rolled back",
    }
    return f"{stand.version} was {verbs.get(wanted, wanted)}"


def _make_record(
    episode: Episode, name: str, outcome: str, events: tuple[int, ...]
) -> ActionRecord:
    about = {"episode": episode.id, "asset": episode.asset, "metric": episode.metric}
    result = {"level": episode.level, "action": name, "is_done": bool(events)}
    logger.info("drift action", extra=about | result)
    return ActionRecord(
        episode=episode.id,
        asset=episode.asset,
        metric=episode.metric,
        level=episode.level,
        act=name,
        outcome=outcome,
        events=events,
    )


def _record_outcome(
    workspace: Workspace,
    episode: Episode,
    name: str,
    outcome: str,
    now: datetime,
    *,
    events: tuple[int, ...],
) -> ActionRecord:
    episodes_of(workspace).note_act(
        KeptAct(
            episode=episode.id,
            act=name,
            level=episode.level,
            at=now,
            outcome=outcome,
            events=events,
        )
    )
    return _make_record(episode, name, outcome, events)
