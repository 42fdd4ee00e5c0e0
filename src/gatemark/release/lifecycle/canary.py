"""Import canary measurements from files, and show a running canary."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError, InvalidValueError, UnknownNameError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import inspect_source
from gatemark.evidence.whole_file import admitted_batches
from gatemark.release.lifecycle.act import CommandResult, act, preview, run_due
from gatemark.release.lifecycle.commands import AssetField, Environment, PushWindow
from gatemark.release.lifecycle.decisions.canary import next_start
from gatemark.release.lifecycle.model.nouns import (
    PRODUCTION,
    Arm,
    ArmMetric,
    InvariantCount,
    SampleMoments,
    Traffic,
)
from gatemark.release.lifecycle.model.release_policy import CanaryRules
from gatemark.release.lifecycle.model.state import LifecycleState, share_of
from gatemark.release.lifecycle.records import ArmWindow, CanaryMetric
from gatemark.release.lifecycle.roles import MEASURING, refuse_other_roles
from gatemark.release.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.workspace import Workspace

CANARY_SCHEMA: Final = "gatemark.canary/1"


class CanaryState(msgspec.Struct, frozen=True, kw_only=True):
    """A running canary or watch; the field names are JSON keys."""

    asset: str
    environment: str
    version: str
    baseline: str | None
    stage: str
    share: float
    is_watch: bool
    started_at: datetime
    step_since: datetime
    watch_until: datetime | None
    clean_in_a_row: int
    clean_needed: int
    clean_count: int
    other_count: int
    pending_count: int
    next_window: datetime
    is_overdue: bool
    paused: str | None
    last: str | None


class PushWindows(msgspec.Struct, frozen=True, kw_only=True):
    """Push measurements of a running canary, one window per arm."""

    asset: AssetField
    windows: Annotated[
        tuple[dict[str, object], ...],
        Meta(min_length=1, max_length=2_000, description="Windows of gatemark.canary/1."),
    ]
    environment: Environment = PRODUCTION


class RunDue(msgspec.Struct, frozen=True, kw_only=True):
    """Do what is due: judge windows, ramp, pause, roll back, end a watch."""

    asset: AssetField
    environment: Environment = PRODUCTION


def do_due(workspace: Workspace, request: RunDue) -> tuple[CommandResult, ...]:
    """Do what is due for an asset, as the system, because a person asked.

    The command line needs no role for it: there the system itself acts, out of cron, and nothing
    may delay a rollback.
    """
    refuse_other_roles(workspace, workspace.actor, MEASURING, "run what is due")
    return run_due(workspace, request.asset, request.environment)


def push_windows(
    workspace: Workspace, asset: str, path: str, *, actor: str, environment: str = PRODUCTION
) -> tuple[CommandResult, ...]:
    """Add every window of a file, oldest first; a repeated window has no effect.

    If one window is refused, none is added.
    """
    form = schemas().get(CANARY_SCHEMA).form("window")
    source = inspect_source(path)
    rules = read_state(workspace, asset).policy.canary
    windows: dict[tuple[str, str], list[ArmWindow]] = defaultdict(list)
    for batch in admitted_batches(source, form, ReadingChoices()):
        for _, record in batch:
            windows[record.start, record.end].append(record)
    commands = [
        _make_command(span, arms, rules, asset, actor=actor, environment=environment)
        for span, arms in sorted(windows.items())
    ]
    for command in commands:
        preview(workspace, command)
    return tuple(act(workspace, command) for command in commands)


def _make_command(
    span: tuple[str, str],
    arms: list[ArmWindow],
    rules: CanaryRules,
    asset: str,
    *,
    actor: str,
    environment: str,
) -> PushWindow:
    keys = {arm.arm: arm.keys for arm in arms if arm.keys is not msgspec.UNSET}
    return PushWindow(
        actor=actor,
        asset=asset,
        environment=environment,
        start=_parse_moment(span[0]),
        end=_parse_moment(span[1]),
        metrics=tuple(
            _read_metric(name, arm.arm, metric, rules)
            for arm in arms
            for name, metric in sorted(arm.metrics.items())
        ),
        invariants=tuple(
            InvariantCount(name=name, checked=one.checked, violations=one.violations)
            for arm in arms
            if arm.arm == "canary" and arm.invariants is not msgspec.UNSET
            for name, one in sorted(arm.invariants.items())
        ),
        traffic=Traffic(canary=keys["canary"], baseline=keys["baseline"])
        if len(keys) == 2
        else None,
    )


def _parse_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInputError(f"{text} is not a time: {error}") from error


def _read_metric(name: str, arm: Arm, metric: CanaryMetric, rules: CanaryRules) -> ArmMetric:
    try:
        return _make_arm_metric(name, arm, metric, rules)
    except InvalidValueError as error:
        raise BadInputError(f"{name} of the {arm}: {error}") from error


def _make_arm_metric(name: str, arm: Arm, metric: CanaryMetric, rules: CanaryRules) -> ArmMetric:
    if metric.values is not msgspec.UNSET:
        values = tuple(float(value) for value in metric.values)
        moments = SampleMoments(
            n=len(values), sum=sum(values), sum_squares=sum(value * value for value in values)
        )
        # Single values are stored only if the judge reads them.
        kept = values if rules.judge == "mann_whitney" else ()
        return ArmMetric(metric=name, arm=arm, moments=moments, values=kept)
    count, n = metric.count, metric.n
    total, squares = (metric.sum, metric.sum_squares) if count is msgspec.UNSET else (count, count)
    if n is msgspec.UNSET or total is msgspec.UNSET or squares is msgspec.UNSET:
        raise InvalidValueError("needs n and count, or n, sum and sum_squares, or values")
    moments = SampleMoments(n=n, sum=total, sum_squares=squares)
    return ArmMetric(metric=name, arm=arm, moments=moments)


def canary_state(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> CanaryState:
    """Return the state of a running canary or watch."""
    workspace.existing_store()
    with asset_state_cache(workspace).lock:
        return _describe_state(read_state(workspace, asset), asset, environment, workspace.clock())


def _describe_state(
    state: LifecycleState, asset: str, environment: str, now: datetime
) -> CanaryState:
    place = state.asset.place(environment)
    rollout = place.rollout
    if rollout is None:
        raise UnknownNameError(f"{asset}: there is no canary or watch in {environment}")
    track = state.asset.track(environment, rollout.version)
    is_watch = rollout.watch_until is not None
    rules = state.policy.canary
    next_window = next_start(rules, rollout)
    # A window later than due: whoever judges on time is not told to hurry.
    wait = timedelta(minutes=2 * rules.window_minutes + rules.lateness_minutes)
    return CanaryState(
        asset=asset,
        environment=environment,
        version=rollout.version,
        baseline=rollout.baseline,
        stage=track.stage,
        share=state.policy.watch_share if is_watch else share_of(track.stage),
        is_watch=is_watch,
        started_at=rollout.started_at,
        step_since=rollout.step_since,
        watch_until=rollout.watch_until,
        clean_in_a_row=len(rollout.streak),
        clean_needed=rules.clean_windows,
        clean_count=rollout.clean_count,
        other_count=rollout.other_count,
        pending_count=len(rollout.pending),
        next_window=next_window,
        is_overdue=now >= next_window + wait and track.paused is None,
        paused=None if track.paused is None else track.paused.reason,
        last=None if rollout.last is None else rollout.last[1],
    )
