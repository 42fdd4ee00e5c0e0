"""``gatemark drift close``: a person closes an episode and accepts the new level of a metric."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from gatemark.core.errors import IntegrityError, RefusedError, UsageError
from gatemark.core.result import answer_time_of
from gatemark.core.text import check_words
from gatemark.evidence.inputs import visible_form
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import DRIFT_SIGNAL
from gatemark.ledger.port import event_moment
from gatemark.release.drift.assets import CLOSED_BY, find_live_version
from gatemark.release.drift.episode_check import CLOSED
from gatemark.release.drift.judging.cohort_state import RecordedEpisode
from gatemark.release.drift.ledger import make_event_recorder, read_judged_until
from gatemark.release.drift.open_stores import episodes_of, points_of
from gatemark.release.drift.signal import Episode
from gatemark.release.drift.stores.episodes import EpisodeAction, LevelRow
from gatemark.release.lifecycle.citations import Citations
from gatemark.release.lifecycle.decisions.citation import citation_problems, required_pack_problem
from gatemark.release.lifecycle.model.nouns import PRODUCTION, Note, ResultReference
from gatemark.release.lifecycle.roles import SETTLING, refuse_other_roles
from gatemark.release.lifecycle.state_cache import read_state
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

    That result is of the version that breached and of the required pack, as for a promotion.

    The asset stays in its stage: closing does not promote it again.
    """
    refuse_other_roles(workspace, request.actor, SETTLING, "close an episode")
    if not visible_form(request.reason):
        raise UsageError("closing an episode needs a reason that says why")
    check_words(request.reason, "a reason")
    known = _find(workspace, request.episode)
    episode = known.episode
    cited = _check_citation(workspace, episode, request.cite)
    because = f"{CLOSED_BY}{request.actor}: {request.reason}"
    if cited is not None:
        because += f" (citing {cited})"
    over = msgspec.structs.replace(episode, closed_at=now, closed_because=because, ending="reset")
    seen = episodes_of(workspace).last_tick()
    judged = read_judged_until(workspace)
    if judged is None:
        raise IntegrityError(f"no event records the episode {episode.id[:19]}")
    tell = make_event_recorder(workspace, now)
    at = max(now, judged.at)
    with episodes_of(workspace).recording(seen, at, judged, tell) as recorder:
        recorder.keep_levels(_reset_levels(workspace, episode))
        recorder.keep_episodes([known._replace(episode=over)])
    payload = {
        "asset": episode.asset,
        "metric": episode.metric,
        "level": "OK",
        "detector": episode.detector,
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
    episodes_of(workspace).note_act(
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


def _find(workspace: Workspace, reference: str) -> RecordedEpisode:
    wanted = reference.removeprefix("sha256:")
    found = [
        one
        for one in episodes_of(workspace).recorded().open.values()
        if len(wanted) >= SHORTEST and one.episode.id.removeprefix("sha256:").startswith(wanted)
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
    result = workspace.citable_result(cite)
    breached = (episode.breached or episode.opened).end
    about = "" if result.candidate is None else result.candidate.id.partition("/")[0]
    if about != episode.asset:
        raise RefusedError(
            f"result {result.id[:19]} is about {about or 'nothing'}, not {episode.asset}"
        )
    if result.verdict != "pass":
        raise RefusedError(f"result {result.id[:19]} did not pass: {result.verdict}")
    _check_subject(workspace, episode, result.id)
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


def _check_subject(workspace: Workspace, episode: Episode, result_id: str) -> None:
    """Refuse a result that would not support a promotion of the version that breached.

    An asset that was never registered has neither versions nor a required pack.
    """
    asset = read_state(workspace, episode.asset).asset
    if not asset.versions:
        return
    version = episode.version or find_live_version(workspace, episode.asset).version
    evidence = Citations(workspace, episode.asset, must_go_on=False)
    if version is not None and version in asset.versions:
        problems = citation_problems([result_id], evidence, asset.versions[version].digest)
        if problems:
            raise RefusedError(problems[0])
    if asset.required_pack is not None:
        problem = required_pack_problem(asset, [result_id], {result_id: evidence[result_id]})
        if problem is not None:
            raise RefusedError(problem)


def _reset_levels(workspace: Workspace, episode: Episode) -> list[LevelRow]:
    """Return the level of the episode's series without the episode."""
    return [
        LevelRow(series.id, episode.detector, "OK")
        for series in points_of(workspace).series(episode.asset)
        if series.metric == episode.metric
        and (series.id, episode.detector) in episodes_of(workspace).levels([series.id])
    ]
