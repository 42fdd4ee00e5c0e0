"""Demotion and rollback: they need one person or none, and no approvals."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.lifecycle.commands import Demote, RollBack
from gatemark.lifecycle.decisions.citation import citation_problems
from gatemark.lifecycle.decisions.decision import (
    DecisionMoment,
    decides,
    illegal,
    known_version,
    moved,
    require_role,
)
from gatemark.lifecycle.events.fact import Fact
from gatemark.lifecycle.model.nouns import Cause, Cited, Stage
from gatemark.lifecycle.model.stages import FALLEN, move
from gatemark.lifecycle.model.state import EnvironmentState, LifecycleState


class LastLiveError(RefusedError):
    """The version is the last one that can serve, and the command must leave one."""


class Fall(msgspec.Struct, frozen=True):
    """A version that is demoted, and why."""

    environment: str
    version: str
    after: Stage
    cause: Cause
    note: str
    signals: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    to: str | None = None
    needs_fallback: bool = False


@decides(Demote)
def decide_demote(
    state: LifecycleState, command: Demote, moment: DecisionMoment
) -> tuple[Fact, ...]:
    """Demote a version to shadow or to demoted; doing it twice changes nothing."""
    place = state.asset.place(command.environment)
    version = command.version or place.enabled
    if version is None:
        raise RefusedError(f"{state.asset.name}: no version is enabled in {command.environment}")
    known_version(state, version)
    if command.to not in ("shadow", "demoted"):
        raise RefusedError(f"a demotion leads to shadow or demoted, not to {command.to}")
    track = state.asset.track(command.environment, version)
    if track.stage == command.to or track.stage in FALLEN:
        return ()
    row = move(track.stage, command.to, "demote", state.asset.kind)
    if row is None:
        raise illegal(state, version, track.stage, command.to)
    require_role(state.governance, command.actor, row.roles, "demote")
    fall = Fall(
        environment=command.environment,
        version=version,
        after=command.to,
        cause="demote",
        note=command.note,
        signals=command.signals,
        evidence=command.evidence,
        needs_fallback=command.needs_fallback,
    )
    return fall_facts(state, fall, moment)


@decides(RollBack)
def decide_roll_back(
    state: LifecycleState, command: RollBack, moment: DecisionMoment
) -> tuple[Fact, ...]:
    """Leave the canary or the enabled version; doing it twice changes nothing."""
    place = state.asset.place(command.environment)
    for named in (command.version, command.to):
        if named is not None:
            known_version(state, named)
    if _is_done(state, place, command):
        return ()
    version = command.version or (None if command.to else place.canary) or place.enabled
    if version is None:
        raise RefusedError(f"{state.asset.name}: nothing is live in {command.environment}")
    track = state.asset.track(command.environment, version)
    row = move(track.stage, "rolled_back", "rollback", state.asset.kind)
    if row is None:
        raise illegal(state, version, track.stage, "rolled_back")
    require_role(state.governance, command.actor, row.roles, "roll back")
    if command.to is not None and version != place.enabled:
        raise RefusedError(
            f"{state.asset.name}@{version} is a canary; a rollback from it takes no --to"
        )
    fall = Fall(
        environment=command.environment,
        version=version,
        after="rolled_back",
        cause="rollback",
        note=command.note,
        signals=command.signals,
        evidence=command.evidence,
        to=command.to,
        needs_fallback=command.needs_fallback,
    )
    return fall_facts(state, fall, moment)


def _is_done(state: LifecycleState, place: EnvironmentState, command: RollBack) -> bool:
    """Whether a rollback has nothing to change."""
    if command.version is not None:
        return state.asset.track(command.environment, command.version).stage in FALLEN
    if command.to is not None:
        return place.enabled == command.to
    return place.has_fallen


def may_fall(state: LifecycleState, fall: Fall, moment: DecisionMoment) -> bool:
    """Whether something serves after a fall, or the release policy wants nothing to."""
    if state.asset.place(fall.environment).enabled != fall.version:
        return True
    if state.policy.fallback == "none":
        return True
    return _restorable(state, fall, moment) is not None


def fall_facts(state: LifecycleState, fall: Fall, moment: DecisionMoment) -> tuple[Fact, ...]:
    """Demote a version; if it was live, an earlier one with valid evidence takes over.

    A canary beside it loses its baseline and goes back to shadow. If no earlier version can take
    over, nothing is live: that is the safe outcome.
    """
    place = state.asset.place(fall.environment)
    facts: list[Fact] = [
        moved(
            state,
            fall.environment,
            fall.version,
            fall.after,
            cause=fall.cause,
            moment=moment,
            note=fall.note,
            signals=fall.signals,
            windows=fall.windows,
        )
    ]
    if place.enabled != fall.version:
        return tuple(facts)
    if place.canary is not None:
        note = f"its baseline {fall.version} is no longer live"
        facts.append(
            moved(
                state,
                fall.environment,
                place.canary,
                "shadow",
                cause="demote",
                moment=moment,
                note=note,
            )
        )
    restored = _restorable(state, fall, moment)
    if restored is None and fall.needs_fallback:
        raise LastLiveError(
            f"{state.asset.name}@{fall.version} is live and no earlier version can take over, so "
            "that nothing would serve; ask for that with --stop (on the page: stop)"
        )
    if restored is not None:
        note = f"takes over from {fall.version}"
        facts.append(
            moved(
                state,
                fall.environment,
                restored,
                "enabled",
                cause="rollback",
                moment=moment,
                note=note,
            )
        )
    return tuple(facts)


def _restorable(state: LifecycleState, fall: Fall, moment: DecisionMoment) -> str | None:
    place, policy = state.asset.place(fall.environment), state.policy
    earlier = [name for name in reversed(place.lineage) if name != fall.version]
    if fall.to is not None:
        if fall.to not in earlier[: policy.rollback_window]:
            reachable = ", ".join(earlier[: policy.rollback_window]) or "none"
            raise RefusedError(
                f"{state.asset.name}@{fall.to} cannot be rolled back to (reachable: {reachable})"
            )
        problems = _return_problems(state, fall, fall.to, moment)
        if problems:
            raise RefusedError(
                f"{state.asset.name}@{fall.to} cannot be rolled back to", tuple(problems)
            )
        return fall.to
    if policy.fallback == "none":
        return None
    for version in earlier[: policy.rollback_window]:
        if not _return_problems(state, fall, version, moment):
            return version
    return None


def _return_problems(
    state: LifecycleState, fall: Fall, version: str, moment: DecisionMoment
) -> list[str]:
    """Return what is wrong with the results that an earlier version was enabled by."""
    track = state.asset.track(fall.environment, version)
    if track.glass is not None and track.glass.is_over(moment.now):
        return [f"it was enabled by break-glass ({track.glass.incident}) and not reviewed in time"]
    if not track.result_ids:
        return ["a result must be cited"]
    digest = state.asset.versions[version].digest
    return citation_problems(track.result_ids, fall.evidence, digest)
