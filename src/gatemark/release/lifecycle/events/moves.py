"""Events that move or stop a version."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gatemark.ledger.event_kinds import SYSTEM, TRANSITION
from gatemark.release.lifecycle.commands import Command, PauseVersion, ResumeVersion, Tick
from gatemark.release.lifecycle.events.fact import LifecycleEvent, Tone, VersionFact, event
from gatemark.release.lifecycle.model.nouns import (
    Cause,
    Cites,
    Digest,
    GateFinding,
    Note,
    PauseReason,
    Role,
    Stage,
    VersionName,
)
from gatemark.release.lifecycle.model.stages import AUTHORITY, CANARY, FALLEN, MOVES
from gatemark.release.lifecycle.model.state import Asset, EnvironmentState, Pause, Rollout, Track

_MOVERS: Final[tuple[Role, ...]] = tuple(dict.fromkeys(role for row in MOVES for role in row.roles))
_ENDS: Final[frozenset[Stage]] = frozenset({"retired", "demoted", "rolled_back", "shadow"})
"""Stages that end a version's chance to be enabled again."""


@event(
    TRANSITION,
    "a version moves to another stage",
    roles=_MOVERS,
    compared=(
        *("environment", "version", "candidate_digest", "before", "after", "cause"),
        *("policy_digest", "result_ids", "approvals", "windows", "baseline"),
    ),
    is_statement=True,
)
class VersionMoved(VersionFact, frozen=True, kw_only=True):
    """A version moves to another stage, with everything behind that move.

    ``approvals``, ``windows`` and ``signals`` are sequence numbers of ledger events.
    """

    candidate_digest: Digest
    before: Stage
    after: Stage
    cause: Cause
    policy_digest: Digest
    note: Note = ""
    result_ids: Cites = ()
    approvals: tuple[int, ...] = ()
    gates: tuple[GateFinding, ...] = ()
    windows: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    baseline: VersionName | None = None
    salt: str | None = None
    watch_until: datetime | None = None
    clock_behind_ms: int = 0

    @property
    def gives_authority(self) -> bool:
        return self.cause not in ("demote", "rollback")

    def may_raise(self, asset: Asset) -> bool:
        """Whether it does not lead to a lower stage than the version really has."""
        stage = asset.track(self.environment, self.version).stage
        return AUTHORITY.get(self.after, 0) >= AUTHORITY.get(stage, 0)

    def takes_away(self, asset: Asset) -> bool:
        """Whether it ends a version's chance to serve, from the stage that it really has."""
        is_known = self.version in asset.versions
        return is_known and self.after in _ENDS and not self.may_raise(asset)

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Move the version, start or end its canary, and set what is enabled.

        A version that was never added can neither serve nor take the place of one that does.
        """
        place = asset.ensure_place(self.environment)
        track = asset.ensure_track(self.environment, self.version)
        # Not as the event says it: what is live must not stay so behind a false word.
        before = track.stage
        self._move_track(track, before, event)
        if self.version in asset.versions:
            self._move_canary(place, before, event)
            self._move_enabled(place, before)

    def _move_track(self, track: Track, before: Stage, event: LifecycleEvent) -> None:
        track.stage = self.after
        track.since, track.seq, track.cause = event.at, event.seq, self.cause
        track.result_ids = self.result_ids
        track.approvals, track.windows = self.approvals, self.windows
        track.paused = None
        if self.after == "shadow":
            track.shadowed = []
        # A version that drift or a person took out of traffic is demoted, even if to shadow.
        is_taken_out = self.cause == "demote" and (before == "enabled" or bool(self.signals))
        if self.after in FALLEN or is_taken_out:
            track.fell_at = event.at
        elif self.after == "eligible":
            track.fell_at = None
        # Only a usual promotion ends break-glass access; a rollback restores it.
        if self.after == "evaluating" or (self.after == "enabled" and self.cause == "promote"):
            track.break_glass = None

    def _rollout(self, event: LifecycleEvent) -> Rollout:
        return Rollout(
            version=self.version,
            baseline=self.baseline,
            salt=self.salt or "",
            started_at=event.at,
            step_since=event.at,
            watch_until=self.watch_until if self.after == "enabled" else None,
        )

    def _move_canary(self, place: EnvironmentState, before: Stage, event: LifecycleEvent) -> None:
        if self.after in CANARY:
            place.canary = self.version
            place.has_fallen = False
            if before in CANARY and place.rollout is not None:
                place.rollout.step_since = event.at
                place.rollout.streak, place.rollout.held_count, place.rollout.last = [], 0, None
                place.rollout.pending = {}
            else:
                place.rollout = self._rollout(event)
        elif place.canary == self.version:
            place.canary = None
            place.has_fallen = self.after != "enabled"
            place.rollout = None
        if self.after == "enabled":
            place.rollout = self._rollout(event) if self.watch_until is not None else None

    def _move_enabled(self, place: EnvironmentState, before: Stage) -> None:
        if "enabled" in (before, self.after):
            # The drift concerned the version that was live before.
            place.drift = {}
        if self.after in _ENDS and self.version in place.lineage:
            place.lineage = [name for name in place.lineage if name != self.version]
        if self.after == "enabled":
            if self.cause == "rollback" and self.version in place.lineage:
                place.lineage = place.lineage[: place.lineage.index(self.version) + 1]
            else:
                others = (name for name in place.lineage if name != self.version)
                place.lineage = [*others, self.version]
            place.enabled = self.version
            place.has_fallen = self.cause == "rollback"
        elif place.enabled == self.version:
            place.enabled = None
            if place.rollout is not None and place.rollout.version == self.version:
                place.rollout = None
            place.has_fallen = self.after != "superseded"

    @property
    def sentence(self) -> str:
        return f"{self.before} → {self.after} ({self.cause})"

    @property
    def tone(self) -> Tone:
        if self.after in ("superseded", "retired"):
            return "note"
        falls = self.cause in ("demote", "rollback") and self.after != "enabled"
        return "down" if falls or self.cause == "break_glass" or self.after == "rejected" else "up"


@event(
    "pause",
    "a version is paused or resumed",
    roles=("operator", "approver", "system"),
    compared=("environment", "version", "reason"),
)
class VersionPaused(VersionFact, frozen=True, kw_only=True):
    """A version is paused for a typed reason, or resumed if the reason is None."""

    reason: PauseReason | None
    note: Note = ""

    @property
    def gives_authority(self) -> bool:
        return self.reason is None

    def takes_away(self, asset: Asset) -> bool:
        return self.reason is not None and self.version in asset.versions

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Pause or resume; a resumed canary counts clean windows from zero."""
        track = asset.ensure_track(self.environment, self.version)
        if self.reason is not None:
            track.paused = Pause(self.reason, event.actor, event.at, self.note)
            return
        track.paused = None
        rollout = asset.ensure_place(self.environment).rollout
        if rollout is not None and rollout.version == self.version:
            rollout.held_count, rollout.streak, rollout.last = 0, [], None

    def commands(self, actor: str) -> tuple[Command, ...]:
        """Return the possible commands: the system may pause a version; only people resume it."""
        if self.reason is None:
            resume = ResumeVersion(
                actor=actor,
                asset=self.asset,
                environment=self.environment,
                version=self.version,
                note=self.note,
            )
            return (resume,)
        pause = PauseVersion(
            actor=actor,
            asset=self.asset,
            environment=self.environment,
            version=self.version,
            reason=self.reason,
            note=self.note,
        )
        tick = Tick(actor=actor, asset=self.asset, environment=self.environment)
        return (tick, pause) if actor == SYSTEM else (pause,)

    @property
    def sentence(self) -> str:
        return "resumed" if self.reason is None else f"paused ({self.reason})"

    @property
    def tone(self) -> Tone:
        return "note" if self.reason is None else "flag"
