"""A running canary and the watch after enabling: measurements, and what is due next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.release.lifecycle.commands import PushShadow, PushWindow, ReportService, Tick
from gatemark.release.lifecycle.decisions.burn_rate import judge_burn
from gatemark.release.lifecycle.decisions.decision import (
    DecisionMoment,
    decides,
    known_version,
    moved,
    require_role,
)
from gatemark.release.lifecycle.decisions.demotion import Demotion, can_demote, demotion_facts
from gatemark.release.lifecycle.events.canary import (
    ServiceReported,
    ShadowMeasured,
    WatchClosed,
    WindowJudged,
    WindowPushed,
)
from gatemark.release.lifecycle.events.fact import Facts
from gatemark.release.lifecycle.events.moves import VersionPaused
from gatemark.release.lifecycle.model.nouns import ArmMetric, InvariantCount, PauseReason
from gatemark.release.lifecycle.model.release_policy import CanaryRules
from gatemark.release.lifecycle.model.stages import CANARY
from gatemark.release.lifecycle.model.state import (
    CanaryWindow,
    EnvironmentState,
    LifecycleState,
    Rollout,
    Track,
)

_LAST_LIVE = (
    "a window was a breach, and no earlier version can take over: it stays live until somebody "
    "demotes it with --stop or the release policy says fallback: none"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@decides(PushWindow)
def decide_push(state: LifecycleState, command: PushWindow, moment: DecisionMoment) -> Facts:
    """Decide on measurements; repeated ones have no effect, conflicting ones are refused."""
    require_role(state.governance, command.actor, WindowPushed.declared.roles, "push measurements")
    rollout = _require_rollout(state, command.environment)
    rules = state.policy.canary
    _check_span(rules, rollout, command, moment)
    window = rollout.pending.get(command.start) or CanaryWindow(
        start=command.start, end=command.end
    )
    metrics = tuple(part for part in command.metrics if _is_new_metric(rules, window, part))
    invariants = tuple(part for part in command.invariants if _is_new_invariant(window, part))
    traffic = command.traffic
    if traffic is not None and window.traffic is not None:
        if traffic != window.traffic:
            raise _contradict(command, "traffic counts")
        traffic = None
    if not (metrics or invariants or traffic is not None):
        return ()
    return (
        WindowPushed(
            asset=state.asset.name,
            environment=command.environment,
            version=rollout.version,
            start=command.start,
            end=command.end,
            metrics=metrics,
            invariants=invariants,
            traffic=traffic,
        ),
    )


def _require_rollout(state: LifecycleState, environment: str) -> Rollout:
    rollout = state.asset.place(environment).rollout
    if rollout is None:
        raise RefusedError(f"{state.asset.name}: there is no canary or watch in {environment}")
    return rollout


def _check_span(
    rules: CanaryRules, rollout: Rollout, command: PushWindow, moment: DecisionMoment
) -> None:
    length = timedelta(minutes=rules.window_minutes)
    where = f"window {command.start:%Y-%m-%d %H:%M:%SZ}"
    if command.end - command.start != length or (command.start - _EPOCH) % length:
        raise RefusedError(
            f"{where} must be {rules.window_minutes} min long and start at a multiple of that"
        )
    if command.end > moment.now:
        raise RefusedError(f"{where} is not over yet")
    if command.start < next_start(rules, rollout):
        raise RefusedError(f"{where} comes too late: it was judged, or lies before this step")


def _is_new_metric(rules: CanaryRules, window: CanaryWindow, part: ArmMetric) -> bool:
    if part.metric not in rules.metrics:
        known = ", ".join(sorted(rules.metrics))
        raise RefusedError(f"the release policy watches no metric {part.metric} (known: {known})")
    known_moments = window.moments.get(part.metric, {}).get(part.arm)
    if known_moments is None:
        return True
    values = window.values.get(part.metric, {}).get(part.arm, ())
    if known_moments != part.moments or values != part.values:
        raise _contradict(window, f"{part.metric} of the {part.arm}")
    return False


def _is_new_invariant(window: CanaryWindow, part: InvariantCount) -> bool:
    known = window.invariants.get(part.name)
    if known is not None and known != (part.checked, part.violations):
        raise _contradict(window, f"invariant {part.name}")
    return known is None


def _contradict(window: CanaryWindow | PushWindow, what: str) -> RefusedError:
    return RefusedError(
        f"window {window.start:%Y-%m-%d %H:%M:%SZ} already has other numbers for {what}"
    )


def next_start(rules: CanaryRules, rollout: Rollout) -> datetime:
    """Return the start of the first window of this step that is not judged yet."""
    length = timedelta(minutes=rules.window_minutes)
    steps = -((_EPOCH - rollout.step_since) // length)
    aligned = _EPOCH + steps * length
    return max(aligned, rollout.judged_until or aligned)


@decides(Tick)
def decide_tick(state: LifecycleState, command: Tick, moment: DecisionMoment) -> Facts:
    """Decide the next thing that is due, if any; call it again until nothing is due.

    (1) A use of break-glass access that was not reviewed in time is rolled back. (2) A breach rolls
    back; the last version that can serve is paused instead. (3) A warning, a wrong split of
    traffic, too long a hold or a burning error budget pauses. (4) Enough clean windows move a
    canary to its next share. (5) The next closed window is judged. (6) A watch that is over ends.
    """
    require_role(state.governance, command.actor, WindowJudged.declared.roles, "act on time")
    place = state.asset.place(command.environment)
    overdue = _find_overdue_access(state, place, command, moment)
    if overdue is not None:
        return demotion_facts(state, overdue, moment)
    rollout = place.rollout
    if rollout is None:
        return ()
    track = state.asset.track(command.environment, rollout.version)
    if rollout.last is not None and rollout.last[1] == "breach":
        demotion = Demotion(
            environment=command.environment,
            version=rollout.version,
            after="rolled_back",
            cause="rollback",
            note="a canary window was a breach",
            windows=(rollout.last[0],),
            evidence=command.evidence,
        )
        if can_demote(state, demotion, moment):
            return demotion_facts(state, demotion, moment)
        if track.paused is None:
            return (_pause(state, command, rollout, "warn", _LAST_LIVE),)
    if track.paused is None:
        reason = _pause_reason(state, place, rollout, moment)
        if reason is not None:
            return (_pause(state, command, rollout, *reason),)
        # Nothing climbs after an event that nobody can decide, but windows are judged further.
        if _is_ready(state, rollout) and track.stage in CANARY[:-1] and not state.undecided:
            after = CANARY[CANARY.index(track.stage) + 1]
            windows = _list_streak(state, rollout)
            moves = partial(moved, state, command.environment, moment)
            note = f"{len(windows)} clean windows in a row"
            step = moves(rollout.version, after, cause="ramp", windows=windows, note=note)
            return (msgspec.structs.replace(step, baseline=rollout.baseline, salt=rollout.salt),)
    judged = _judge_next(state, command, track, moment)
    if judged is not None:
        return (judged,)
    return _close_watch(state, command, rollout, moment)


def _find_overdue_access(
    state: LifecycleState, place: EnvironmentState, command: Tick, moment: DecisionMoment
) -> Demotion | None:
    if place.enabled is None:
        return None
    access = state.asset.track(command.environment, place.enabled).break_glass
    if access is None or not access.is_over(moment.now):
        return None
    return Demotion(
        environment=command.environment,
        version=place.enabled,
        after="rolled_back",
        cause="rollback",
        note=f"break-glass access for {access.incident} was not reviewed in time",
        evidence=command.evidence,
    )


def _list_streak(state: LifecycleState, rollout: Rollout) -> tuple[int, ...]:
    """Return the latest clean windows in a row that were judged by the current policy."""
    return tuple(seq for seq in rollout.streak if seq > state.governance.policy_seq)


def _is_ready(state: LifecycleState, rollout: Rollout) -> bool:
    return len(_list_streak(state, rollout)) >= state.policy.canary.clean_windows


def clean_streak(state: LifecycleState, environment: str) -> tuple[int, ...] | None:
    """Return the events of the clean windows behind a canary, or None if there are too few."""
    rollout = state.asset.place(environment).rollout
    if rollout is None or not _is_ready(state, rollout):
        return None
    return _list_streak(state, rollout)


def _pause_reason(
    state: LifecycleState, place: EnvironmentState, rollout: Rollout, moment: DecisionMoment
) -> tuple[PauseReason, str] | None:
    policy = state.policy
    if rollout.last is not None and rollout.last[2]:
        return "sample_ratio", "traffic is not split as it should be"
    if rollout.last is not None and rollout.last[1] == "warn":
        return "warn", "a window was a warning"
    if rollout.watch_until is None and rollout.held_count >= policy.canary.max_hold_windows:
        return "inconclusive", f"{rollout.held_count} windows in a row could not be judged"
    if place.service:
        burn = judge_burn(place.service, policy.error_budget, moment.now)
        if burn.is_breached:
            return "error_budget", burn.reason
    return None


def _pause(
    state: LifecycleState, command: Tick, rollout: Rollout, reason: PauseReason, note: str
) -> VersionPaused:
    return VersionPaused(
        asset=state.asset.name,
        environment=command.environment,
        version=rollout.version,
        reason=reason,
        note=note,
    )


def _judge_next(
    state: LifecycleState, command: Tick, track: Track, moment: DecisionMoment
) -> WindowJudged | None:
    """Judge the next closed window, or a run of windows that never arrived.

    Missing windows delay a canary. They are skipped while it is paused, and during the watch, which
    counts them at its end.
    """
    rollout = _require_rollout(state, command.environment)
    rules = state.policy.canary
    length = timedelta(minutes=rules.window_minutes)
    cursor = next_start(rules, rollout)
    closed = moment.now - timedelta(minutes=rules.lateness_minutes)
    if rollout.watch_until is not None:
        closed = min(closed, rollout.watch_until)
    arrived = sorted(
        start
        for start, window in rollout.pending.items()
        if start >= cursor and window.end <= closed
    )
    gap_end = arrived[0] if arrived else cursor + (closed - cursor) // length * length
    missing = (gap_end - cursor) // length
    if missing > 0 and track.paused is None and rollout.watch_until is None:
        return WindowJudged(
            asset=state.asset.name,
            environment=command.environment,
            version=rollout.version,
            start=cursor,
            end=gap_end,
            stage=track.stage,
            state="inconclusive",
            judge=rules.judge,
            reasons=(f"{missing} window{'' if missing == 1 else 's'} brought no measurements",),
            missing_count=missing,
            is_ratio_off=False,
        )
    if not arrived:
        return None
    from gatemark.release.lifecycle.decisions.canary_judge import judge_window  # noqa: PLC0415 - only a tick needs them

    window = rollout.pending[arrived[0]]
    since = max(rollout.step_since, rollout.pool_since or rollout.step_since)
    pool = [one for one in rollout.history if one.start >= since]
    verdict = judge_window(
        rules,
        rollout.history,
        window,
        has_baseline=rollout.baseline is not None,
        pool=pool,
    )
    return WindowJudged(
        asset=state.asset.name,
        environment=command.environment,
        version=rollout.version,
        start=window.start,
        end=window.end,
        stage=track.stage,
        state=verdict.state,
        judge=rules.judge,
        reasons=verdict.reasons,
        metrics=verdict.metrics,
        missing_count=0,
        is_ratio_off=verdict.is_ratio_off,
        is_pooled=verdict.is_pooled or None,
    )


def _close_watch(
    state: LifecycleState, command: Tick, rollout: Rollout, moment: DecisionMoment
) -> Facts:
    lateness = timedelta(minutes=state.policy.canary.lateness_minutes)
    if rollout.watch_until is None or moment.now < rollout.watch_until + lateness:
        return ()
    if state.undecided:
        return ()
    is_fed = bool(rollout.clean_count or rollout.other_count)
    track = state.asset.track(command.environment, rollout.version)
    is_compared = rollout.baseline is not None
    if is_compared and not is_fed and track.paused is None:
        note = "the watch after enabling got no measurements, so nothing shows that it does well"
        return (_pause(state, command, rollout, "inconclusive", note),)
    length = timedelta(minutes=state.policy.canary.window_minutes)
    expected = max(0, (rollout.watch_until - rollout.started_at) // length)
    return (
        WatchClosed(
            asset=state.asset.name,
            environment=command.environment,
            version=rollout.version,
            clean_count=rollout.clean_count,
            other_count=max(rollout.other_count, expected - rollout.clean_count),
        ),
    )


@decides(PushShadow)
def decide_shadow(state: LifecycleState, command: PushShadow, moment: DecisionMoment) -> Facts:
    """Decide on measurements of a shadow; a repeated span has no effect."""
    require_role(state.governance, command.actor, ShadowMeasured.declared.roles, "push pairs")
    known_version(state, command.version)
    track = state.asset.track(command.environment, command.version)
    live = state.asset.place(command.environment).enabled
    name, pairs = f"{state.asset.name}@{command.version}", command.pairs
    if track.stage != "shadow" or track.since is None:
        raise RefusedError(
            f"{name} is {track.stage}; only a shadow is measured beside what is live"
        )
    if live is None:
        raise RefusedError(f"{name}: no version is live that it could be measured beside")
    if (live, pairs) in track.shadowed:
        return ()
    if pairs.start < track.since or pairs.end > moment.now:
        raise RefusedError(
            f"{name}: the span from {pairs.start:%Y-%m-%d %H:%M:%SZ} must lie between "
            f"{track.since:%Y-%m-%d %H:%M:%SZ}, when it entered shadow, and now"
        )
    for _, other in track.shadowed:
        if other.start < pairs.end and pairs.start < other.end:
            raise RefusedError(
                f"{name}: the span from {pairs.start:%Y-%m-%d %H:%M:%SZ} overlaps one that was "
                "pushed"
            )
    return (
        ShadowMeasured(
            asset=state.asset.name,
            environment=command.environment,
            version=command.version,
            live=live,
            pairs=pairs,
        ),
    )


@decides(ReportService)
def decide_report(state: LifecycleState, command: ReportService, moment: DecisionMoment) -> Facts:
    """Decide on a reported span; spans must not overlap, and a repeated one has no effect."""
    require_role(
        state.governance, command.actor, ServiceReported.declared.roles, "report a service"
    )
    if not state.asset.versions:
        raise RefusedError(f"there is no asset {state.asset.name}")
    if command.end > moment.now:
        raise RefusedError(f"the span to {command.end:%Y-%m-%d %H:%M:%SZ} is not over yet")
    fact = ServiceReported(
        asset=state.asset.name,
        environment=command.environment,
        start=command.start,
        end=command.end,
        good=command.good,
        total=command.total,
    )
    for span in state.asset.place(command.environment).service:
        if span == fact.span:
            return ()
        if span.start < fact.end and fact.start < span.end:
            raise RefusedError(
                f"the span from {fact.start:%Y-%m-%d %H:%M:%SZ} overlaps one that was reported"
            )
    return (fact,)
