"""From events to state: the fold that every decision and every page starts with.

It trusts the events. Whether a step was legal was decided before it was written, and
``gatemark ledger verify`` looks at that again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

import msgspec

from gatemark.core.errors import IntegrityError
from gatemark.lifecycle.model.events import (
    ApprovalGiven,
    BreakGlassReviewed,
    BreakGlassUsed,
    DriftNoted,
    ExamSet,
    GateOverridden,
    GateWaived,
    LifecycleEvent,
    PolicyAdopted,
    RolesGranted,
    ServiceReported,
    VersionAdded,
    VersionMoved,
    VersionPaused,
    WatchClosed,
    WindowJudged,
    WindowPushed,
)
from gatemark.lifecycle.model.nouns import Stage
from gatemark.lifecycle.model.person_name import look_of
from gatemark.lifecycle.model.release_policy import recorded_policy
from gatemark.lifecycle.model.stages import CANARY, FALLEN
from gatemark.lifecycle.model.state import (
    Approval,
    Asset,
    AssetVersion,
    CanaryWindow,
    EnvironmentState,
    GateWaiver,
    Glass,
    GovernanceState,
    LifecycleState,
    Pause,
    Rollout,
    Track,
)

SERVICE_MEMORY: Final = timedelta(days=1)
"""How much of a service's reports stays in the state; the slowest burn window is shorter."""


def fold(name: str, events: Iterable[LifecycleEvent]) -> LifecycleState:
    """The state that some events amount to, in the order of the ledger."""
    state = LifecycleState(governance=GovernanceState(), asset=Asset(name=name))
    for recorded in events:
        advance(state, recorded)
    return state


def advance(state: LifecycleState, recorded: LifecycleEvent) -> None:
    """Let one more event happen to a state."""
    fact = recorded.fact
    state.governance.rules = max(state.governance.rules, recorded.rules)
    if isinstance(fact, RolesGranted | PolicyAdopted):
        _advance_governance(state.governance, recorded)
        return
    if fact.asset != state.asset.name:
        raise IntegrityError(f"event {recorded.seq} is about {fact.asset}, not {state.asset.name}")
    state.asset.revision = recorded.seq
    # Times do not fall along the ledger, but where a clock that was ahead was set back in it.
    state.asset.last_at = recorded.at
    _STEPS[type(fact)](state.asset, recorded, fact)


def _advance_governance(governance: GovernanceState, recorded: LifecycleEvent) -> None:
    fact = recorded.fact
    if isinstance(fact, RolesGranted):
        governance.looks.setdefault(look_of(fact.actor), fact.actor)
        if fact.roles:
            governance.roles[fact.actor] = fact.roles
        else:
            governance.roles.pop(fact.actor, None)
    elif isinstance(fact, PolicyAdopted):
        governance.policy = recorded_policy(fact.policy)
        governance.policy_digest = fact.policy_digest
        governance.policy_editor = recorded.actor
        governance.policy_seq = recorded.seq
    governance.revision = recorded.seq
    governance.last_at = recorded.at


def _place(asset: Asset, environment: str) -> EnvironmentState:
    return asset.places.setdefault(environment, EnvironmentState())


def _track(asset: Asset, environment: str, version: str) -> Track:
    return _place(asset, environment).tracks.setdefault(version, Track(version=version))


def _added(asset: Asset, recorded: LifecycleEvent, fact: VersionAdded) -> None:
    if asset.kind is None:
        asset.kind, asset.risk = fact.kind, fact.risk
    asset.versions[fact.version] = AssetVersion(
        name=fact.version,
        digest=fact.digest,
        author=fact.author,
        parent=fact.parent,
        pins=fact.pins,
        schema=fact.schema,
        is_scope_change=fact.is_scope_change,
        added_at=recorded.at,
        seq=recorded.seq,
    )


def _exam_set(asset: Asset, recorded: LifecycleEvent, fact: ExamSet) -> None:
    asset.exam, asset.exam_editor = fact.exam, recorded.actor


def _approved(asset: Asset, recorded: LifecycleEvent, fact: ApprovalGiven) -> None:
    asset.approvals.append(Approval(recorded.seq, recorded.actor, recorded.at, fact))


def _waived(asset: Asset, recorded: LifecycleEvent, fact: GateWaived) -> None:
    asset.waivers.append(
        GateWaiver(
            seq=recorded.seq,
            actor=recorded.actor,
            environment=fact.environment,
            version=fact.version,
            candidate_digest=fact.candidate_digest,
            gate=fact.gate,
            note=fact.note,
            expires_at=fact.expires_at,
        )
    )


def _overridden(_asset: Asset, _recorded: LifecycleEvent, _fact: GateOverridden) -> None:
    """An override is told by its own event and by the move beside it; nothing else changes."""


def _moved(asset: Asset, recorded: LifecycleEvent, fact: VersionMoved) -> None:
    place = _place(asset, fact.environment)
    track = _track(asset, fact.environment, fact.version)
    track.stage = fact.after
    track.since, track.seq, track.cause = recorded.at, recorded.seq, fact.cause
    track.result_ids, track.approvals, track.windows = fact.result_ids, fact.approvals, fact.windows
    track.paused = None
    # A version that drift or a person took out of traffic has fallen, though it may watch on.
    is_taken_out = fact.cause == "demote" and (fact.before == "enabled" or bool(fact.signals))
    if fact.after in FALLEN or is_taken_out:
        track.fell_at = recorded.at
    elif fact.after == "eligible":
        track.fell_at = None
    # Only the usual way up mends a broken glass; who comes back by a rollback brings it along.
    if fact.after == "evaluating" or (fact.after == "enabled" and fact.cause == "promote"):
        track.glass = None
    _move_canary(place, recorded, fact)
    _move_enabled(place, fact)


def _move_canary(place: EnvironmentState, recorded: LifecycleEvent, fact: VersionMoved) -> None:
    if fact.after in CANARY:
        place.canary = fact.version
        place.has_fallen = False
        if fact.before in CANARY and place.rollout is not None:
            place.rollout.step_since = recorded.at
            place.rollout.streak, place.rollout.held_count, place.rollout.last = [], 0, None
            place.rollout.pending = {}
        else:
            place.rollout = Rollout(
                version=fact.version,
                baseline=fact.baseline,
                salt=fact.salt or "",
                started_at=recorded.at,
                step_since=recorded.at,
            )
    elif fact.before in CANARY:
        place.canary = None
        place.has_fallen = fact.after != "enabled"
        place.rollout = None
    if fact.after == "enabled":
        place.rollout = None
        if fact.watch_until is not None:
            place.rollout = Rollout(
                version=fact.version,
                baseline=fact.baseline,
                salt=fact.salt or "",
                started_at=recorded.at,
                step_since=recorded.at,
                watch_until=fact.watch_until,
            )


_ENDS: Final[frozenset[Stage]] = frozenset({"retired", "demoted", "rolled_back", "shadow"})


def _move_enabled(place: EnvironmentState, fact: VersionMoved) -> None:
    version = fact.version
    if "enabled" in (fact.before, fact.after):
        # What drifted was the version that was live before.
        place.drift = {}
    if fact.after in _ENDS and version in place.lineage:
        place.lineage = [name for name in place.lineage if name != version]
    if fact.after == "enabled":
        if fact.cause == "rollback":
            place.lineage = place.lineage[: place.lineage.index(version) + 1]
        else:
            place.lineage = [*(name for name in place.lineage if name != version), version]
        place.enabled = version
        place.has_fallen = fact.cause == "rollback"
    elif fact.before == "enabled":
        place.enabled = None
        if place.rollout is not None and place.rollout.version == version:
            place.rollout = None
        place.has_fallen = fact.after != "superseded"


def _paused(asset: Asset, recorded: LifecycleEvent, fact: VersionPaused) -> None:
    track = _track(asset, fact.environment, fact.version)
    if fact.reason is None:
        track.paused = None
        rollout = _place(asset, fact.environment).rollout
        if rollout is not None and rollout.version == fact.version:
            rollout.held_count, rollout.streak, rollout.last = 0, [], None
    else:
        track.paused = Pause(fact.reason, recorded.actor, recorded.at, fact.note)


def _glass_broken(asset: Asset, recorded: LifecycleEvent, fact: BreakGlassUsed) -> None:
    _track(asset, fact.environment, fact.version).glass = Glass(
        seq=recorded.seq,
        actor=recorded.actor,
        incident=fact.incident,
        note=fact.note,
        at=recorded.at,
        until=fact.until,
        review_due=fact.review_due,
    )


def _glass_reviewed(asset: Asset, recorded: LifecycleEvent, fact: BreakGlassReviewed) -> None:
    track = _track(asset, fact.environment, fact.version)
    if track.glass is not None:
        track.glass = msgspec.structs.replace(
            track.glass, reviewed_by=recorded.actor, reviewed_at=recorded.at
        )


def _pushed(asset: Asset, _recorded: LifecycleEvent, fact: WindowPushed) -> None:
    rollout = _place(asset, fact.environment).rollout
    if rollout is None or rollout.version != fact.version:
        return
    window = rollout.pending.setdefault(fact.start, CanaryWindow(start=fact.start, end=fact.end))
    for part in fact.metrics:
        window.moments.setdefault(part.metric, {})[part.arm] = part.moments
        if part.values:
            window.values.setdefault(part.metric, {})[part.arm] = part.values
    for invariant in fact.invariants:
        window.invariants[invariant.name] = (invariant.checked, invariant.violations)
    if fact.traffic is not None:
        window.traffic = fact.traffic


def _judged(asset: Asset, recorded: LifecycleEvent, fact: WindowJudged) -> None:
    rollout = _place(asset, fact.environment).rollout
    if rollout is None or rollout.version != fact.version:
        return
    window = rollout.pending.pop(fact.start, None)
    if window is not None:
        window.values = {}
        rollout.history.append(window)
    rollout.judged_until = fact.end
    rollout.last = (recorded.seq, fact.state, fact.is_ratio_off)
    if fact.state == "clean":
        rollout.streak.append(recorded.seq)
        rollout.held_count = 0
        rollout.clean_count += 1
    else:
        rollout.streak = []
        rollout.other_count += max(1, fact.missing_count)
        if fact.state == "inconclusive":
            rollout.held_count += max(1, fact.missing_count)


def _watch_closed(asset: Asset, _recorded: LifecycleEvent, fact: WatchClosed) -> None:
    place = _place(asset, fact.environment)
    if place.rollout is not None and place.rollout.version == fact.version:
        place.rollout = None


def _service(asset: Asset, _recorded: LifecycleEvent, fact: ServiceReported) -> None:
    place = _place(asset, fact.environment)
    newest = max([fact.end, *(span.end for span in place.service)])
    kept = [span for span in [*place.service, fact] if span.end > newest - SERVICE_MEMORY]
    place.service = sorted(kept, key=lambda span: span.start)


def _drift(asset: Asset, recorded: LifecycleEvent, fact: DriftNoted) -> None:
    _place(asset, fact.environment).drift[fact.metric] = (recorded.seq, fact.level)


_STEPS: Final[dict[type, Callable[[Asset, LifecycleEvent, Any], None]]] = {
    VersionAdded: _added,
    ExamSet: _exam_set,
    ApprovalGiven: _approved,
    GateWaived: _waived,
    GateOverridden: _overridden,
    VersionMoved: _moved,
    VersionPaused: _paused,
    BreakGlassUsed: _glass_broken,
    BreakGlassReviewed: _glass_reviewed,
    WindowPushed: _pushed,
    WindowJudged: _judged,
    WatchClosed: _watch_closed,
    ServiceReported: _service,
    DriftNoted: _drift,
}
