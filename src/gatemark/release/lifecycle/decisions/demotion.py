"""Demotion and rollback: they need at most one person and no approvals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.release.lifecycle.commands import Demote, RollBack
from gatemark.release.lifecycle.decisions.citation import citation_problems
from gatemark.release.lifecycle.decisions.decision import (
    DecisionMoment,
    decides,
    illegal,
    known_version,
    moved,
    require_note,
    require_role,
)
from gatemark.release.lifecycle.events.fact import Fact, Facts
from gatemark.release.lifecycle.model.nouns import Cause, Cited, Stage
from gatemark.release.lifecycle.model.stages import FALLEN, move
from gatemark.release.lifecycle.model.state import EnvironmentState, LifecycleState


class LastLiveError(RefusedError):
    """The version is the last one that can serve, and the command must leave one."""


class Demotion(msgspec.Struct, frozen=True, kw_only=True):
    """The version to demote, where to, and why."""

    environment: str
    version: str
    after: Stage
    cause: Cause
    note: str
    signals: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    returns_to: str | None = None
    needs_fallback: bool = False


@decides(Demote)
def decide_demote(state: LifecycleState, command: Demote, moment: DecisionMoment) -> Facts:
    """Demote a version to shadow or demoted; repeating it has no effect."""
    require_note(command, "a demotion")
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
    change = Demotion(
        environment=command.environment,
        version=version,
        after=command.to,
        cause="demote",
        note=command.note,
        signals=command.signals,
        evidence=command.evidence,
        needs_fallback=not command.stop,
    )
    return demotion_facts(state, change, moment)


@decides(RollBack)
def decide_roll_back(state: LifecycleState, command: RollBack, moment: DecisionMoment) -> Facts:
    """Leave the canary or the enabled version; repeating it has no effect."""
    place = state.asset.place(command.environment)
    for named in (command.version, command.to):
        if named is not None:
            known_version(state, named)
    if _is_done(state, place, command):
        return ()
    version = command.version or (None if command.to else place.canary) or place.enabled
    if version is None:
        raise RefusedError(f"{state.asset.name}: nothing is live in {command.environment}")
    known_version(state, version)
    track = state.asset.track(command.environment, version)
    row = move(track.stage, "rolled_back", "rollback", state.asset.kind)
    if row is None:
        raise illegal(state, version, track.stage, "rolled_back")
    require_role(state.governance, command.actor, row.roles, "roll back")
    if command.to is not None and version != place.enabled:
        raise RefusedError(
            f"{state.asset.name}@{version} is a canary; a rollback from it takes no --to"
        )
    change = Demotion(
        environment=command.environment,
        version=version,
        after="rolled_back",
        cause="rollback",
        note=command.note,
        signals=command.signals,
        evidence=command.evidence,
        returns_to=command.to,
        needs_fallback=not command.stop,
    )
    return demotion_facts(state, change, moment)


def _is_done(state: LifecycleState, place: EnvironmentState, command: RollBack) -> bool:
    if command.version is not None:
        return state.asset.track(command.environment, command.version).stage in FALLEN
    if command.to is not None:
        return place.enabled == command.to
    return place.has_fallen


def can_demote(state: LifecycleState, demotion: Demotion, moment: DecisionMoment) -> bool:
    """Whether a version serves after the demotion, or the release policy allows that none does."""
    if state.asset.place(demotion.environment).enabled != demotion.version:
        return True
    if state.policy.fallback == "none":
        return True
    return _find_restorable(state, demotion, moment) is not None


def demotion_facts(state: LifecycleState, demotion: Demotion, moment: DecisionMoment) -> Facts:
    """Demote a version; if it was live, an earlier one with valid evidence takes over.

    A canary alongside it loses its baseline and goes back to shadow. If no earlier version can take
    over, nothing is live: that is the safe outcome.
    """
    place = state.asset.place(demotion.environment)
    moves = partial(moved, state, demotion.environment, moment)
    facts: list[Fact] = [
        moves(
            demotion.version,
            demotion.after,
            cause=demotion.cause,
            note=demotion.note,
            signals=demotion.signals,
            windows=demotion.windows,
        )
    ]
    if place.enabled != demotion.version:
        return tuple(facts)
    if place.canary is not None:
        note = f"its baseline {demotion.version} is no longer live"
        facts.append(moves(place.canary, "shadow", cause="demote", note=note))
    restored = _find_restorable(state, demotion, moment)
    if restored is None and demotion.needs_fallback:
        raise LastLiveError(
            f"{state.asset.name}@{demotion.version} is live and no earlier version can take over, "
            "so nothing would serve; ask for that with --stop (on the page: stop)"
        )
    if restored is not None:
        note = f"takes over from {demotion.version}"
        facts.append(moves(restored, "enabled", cause="rollback", note=note))
    return tuple(facts)


def _find_restorable(
    state: LifecycleState, demotion: Demotion, moment: DecisionMoment
) -> str | None:
    place, policy = state.asset.place(demotion.environment), state.policy
    earlier = [
        name
        for name in reversed(place.lineage)
        # A version that nobody could decide about takes no place among those to return to.
        if name != demotion.version and state.asset.versions[name].undecided is None
    ]
    if demotion.returns_to is not None:
        if demotion.returns_to not in earlier[: policy.rollback_window]:
            reachable = ", ".join(earlier[: policy.rollback_window]) or "none"
            raise RefusedError(
                f"{state.asset.name}@{demotion.returns_to} cannot be rolled back to "
                f"(reachable: {reachable})"
            )
        problems = _return_problems(state, demotion, demotion.returns_to, moment)
        if problems:
            raise RefusedError(
                f"{state.asset.name}@{demotion.returns_to} cannot be rolled back to",
                tuple(problems),
            )
        return demotion.returns_to
    if policy.fallback == "none":
        return None
    for version in earlier[: policy.rollback_window]:
        if not _return_problems(state, demotion, version, moment):
            return version
    return None


def _return_problems(
    state: LifecycleState, demotion: Demotion, version: str, moment: DecisionMoment
) -> list[str]:
    """Return the problems of the results that an earlier version was enabled by."""
    track = state.asset.track(demotion.environment, version)
    if track.break_glass is not None and track.break_glass.is_over(moment.now):
        return [
            f"it was enabled by break-glass ({track.break_glass.incident}) and not reviewed in time"
        ]
    if not track.result_ids:
        return ["a result must be cited"]
    digest = state.asset.versions[version].digest
    return citation_problems(track.result_ids, demotion.evidence, digest)
