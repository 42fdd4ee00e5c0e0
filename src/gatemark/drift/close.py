"""``gatemark drift close``: a person closes an episode and accepts the new level of a metric."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from gatemark.core.errors import RefusedError, UsageError
from gatemark.core.result import answer_time_of
from gatemark.core.text import check_words
from gatemark.drift.assets import CLOSED_BY
from gatemark.drift.episode_check import CLOSED
from gatemark.drift.ledger import last_recording_at, make_event_recorder
from gatemark.drift.open_stores import memories_of, points_of
from gatemark.drift.signal import Episode
from gatemark.drift.stores.memories import EpisodeAction, MemoryRow
from gatemark.evidence.inputs import visible_form
from gatemark.evidence.result_rules import check_result_rules
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import DRIFT_SIGNAL
from gatemark.ledger.port import event_moment
from gatemark.lifecycle.model.nouns import PRODUCTION, Note, ResultReference
from gatemark.lifecycle.roles import SETTLING, refuse_other_roles
from gatemark.workspace import Workspace

SHORTEST = 8


class CloseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Close an episode and start a new baseline for its metric; a breach needs a fresh result."""

    episode: str
    actor: str
    reason: Annotated[Note, Meta(description="Reason why the new level is normal.")]
    cite: (
        Annotated[
            ResultReference,
            Meta(
                description="Fresh result; required to close a breach.",
                extra={"metavar": "RESULT"},
            ),
        ]
        | None
    ) = None
    is_in_person: ClassVar[bool] = True


def close_episode(workspace: Workspace, request: CloseRequest, now: datetime) -> Episode:
    """Close an episode and start a new baseline; a breach needs a fresh result that passed.

    The asset stays in its stage: closing does not promote it again.
    """
    refuse_other_roles(workspace, request.actor, SETTLING, "close an episode")
    if not visible_form(request.reason):
        raise UsageError("closing an episode needs a reason that says why")
    check_words(request.reason, "a reason")
    episode = _find(workspace, request.episode)
    cited = _check_citation(workspace, episode, request.cite)
    because = f"{CLOSED_BY}{request.actor}: {request.reason}"
    if cited is not None:
        because += f" (citing {cited})"
    over = msgspec.structs.replace(episode, closed_at=now, closed_because=because)
    seen = memories_of(workspace).last_tick()
    rows = _reset_memory(workspace, episode, now)
    tell = make_event_recorder(workspace, now)
    at = max(now, last_recording_at(workspace) or now)
    with memories_of(workspace).recording(seen, at, tell) as recorder:
        recorder.keep_memories(rows)
        recorder.keep_episodes([over])
    payload = {
        "asset": episode.asset,
        "metric": episode.metric,
        "level": "OK",
        "environment": PRODUCTION,
        "episode": episode.id,
        "closed_because": because,
        "result_ids": [] if cited is None else [cited],
        "baseline_digest": episode.baseline_digest,
    }
    draft = EventDraft(
        DRIFT_SIGNAL, event_moment(workspace.events, now), request.actor, episode.asset, payload
    )
    (event,) = workspace.events.append([draft])
    memories_of(workspace).note_act(
        EpisodeAction(
            episode=episode.id,
            act=CLOSED,
            level="OK",
            at=now,
            outcome=because,
            events=(event.seq,),
        )
    )
    return over


def _find(workspace: Workspace, reference: str) -> Episode:
    wanted = reference.removeprefix("sha256:")
    found = [
        episode
        for episode in memories_of(workspace).episodes(only_open=True)
        if len(wanted) >= SHORTEST and episode.id.removeprefix("sha256:").startswith(wanted)
    ]
    if len(found) != 1:
        raise UsageError(f"{reference!r} names {len(found)} open episodes, expected one")
    return found[0]


def _check_citation(workspace: Workspace, episode: Episode, cite: str | None) -> str | None:
    if cite is None:
        if episode.level == "BREACH":
            raise RefusedError(
                f"the breach of {episode.asset} {episode.metric} can only be closed with a "
                "fresh passing result: cite one with --cite"
            )
        return None
    result = workspace.results.get(cite)
    check_result_rules(result, workspace.blobs)
    breached = (episode.breached or episode.opened).end
    about = "" if result.candidate is None else result.candidate.id.partition("/")[0]
    if about != episode.asset:
        raise RefusedError(
            f"result {result.id[:19]} is about {about or 'nothing'}, not {episode.asset}"
        )
    if result.verdict != "pass":
        raise RefusedError(f"result {result.id[:19]} did not pass: {result.verdict}")
    answered = answer_time_of(result)
    if answered is None:
        raise RefusedError(
            f"result {result.id[:19]} does not say when its answers were given; run the pack on "
            "its target, or state it: gatemark run --answered-at TIME"
        )
    if answered.at < breached:
        raise RefusedError(
            f"the answers of result {result.id[:19]} are from {answered.at:%Y-%m-%d %H:%MZ}, "
            f"before the episode showed at {breached:%Y-%m-%d %H:%MZ}"
        )
    return result.id


def _reset_memory(workspace: Workspace, episode: Episode, now: datetime) -> list[MemoryRow]:
    """Return the memory of the episode's series, without the episode and with a new baseline."""
    rows = []
    for series in points_of(workspace).series(episode.asset):
        if series.metric != episode.metric:
            continue
        kept = memories_of(workspace).memories([series.id]).get((series.id, episode.detector))
        if kept is None:
            continue
        memory = kept.memory
        phase = series.phase_s if memory.window_s == series.length_s else 0
        since = -(-(int(now.timestamp()) - phase) // memory.window_s)
        fresh = msgspec.structs.replace(
            memory,
            since=since,
            calm=0,
            warn_trail=b"",
            breach_trail=b"",
            frozen=None,
            episode=None,
            settled=max(memory.settled, since - 1),
        )
        rows.append(MemoryRow(series.id, episode.detector, kept.policy_digest, "OK", fresh))
    return rows
