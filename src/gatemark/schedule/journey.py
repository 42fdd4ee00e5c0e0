"""The journeys of ``gatemark schedule``: what is due, claimed by one worker, and run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.durations import seconds_of
from gatemark.core.errors import BadInputError, ExitCode
from gatemark.evidence.settings_file import read_settings
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import ASSET_REGISTERED, SCHEDULE_OVERDUE, SYSTEM
from gatemark.ledger.port import event_moment
from gatemark.lifecycle.state_cache import read_state
from gatemark.schedule.cadence import (
    DEFAULT_PLAN,
    Occasion,
    Schedule,
    SchedulePlan,
    Trigger,
    TriggerKind,
    is_overdue,
    missed_since,
    next_fire,
    occasions,
    retries,
    triggered,
)
from gatemark.schedule.failures import FailedRun, FailureAlert, conclude, per_asset
from gatemark.schedule.open_stores import schedule_runs_of
from gatemark.schedule.stores import Run, RunState
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

HEAD: Final = "gatemark_schedules"
GRACE_S: Final = 60
PROBE_ALERTS: Final = "GATEMARK_DRIFT_PROBE_ALERTS"
"""The environment variable equivalent to ``--alerts`` of a drift probe."""
TAIL: Final = 500
_ENDED_WELL: Final[dict[ExitCode, RunState]] = {
    ExitCode.PASS: "done",
    ExitCode.FAIL: "gate_failed",
    ExitCode.INCONCLUSIVE: "unjudged",
}

Runner = Callable[[Schedule, Occasion, datetime], tuple[RunState, str]]


class OverdueAlert(Protocol):
    """Queues the alert about a schedule that is overdue, under an id that names the gap."""

    def __call__(self, identity: str, *, schedule: str, reason: str, at: datetime) -> None:
        """Queue it for the sinks that want it."""
        ...


class SentAlert(Protocol):
    """The delivery of one alert to one sink; ``error`` is None if it arrived."""

    @property
    def sink(self) -> str:
        """The name of the sink."""
        ...

    @property
    def level(self) -> str:
        """The severity."""
        ...

    @property
    def subject(self) -> str:
        """The subject of the alert."""
        ...

    @property
    def error(self) -> str | None:
        """The delivery error, or None."""
        ...


class Alerting(NamedTuple):
    """How a tick alerts people about overdue schedules and failed runs."""

    queue: OverdueAlert
    queue_failed: FailureAlert
    send: Callable[[], tuple[SentAlert, ...]]


class ScheduleLine(msgspec.Struct, frozen=True):
    """A schedule as listed."""

    id: str
    kind: str
    cron: str | None
    tz: str
    triggers: tuple[str, ...]
    command: str | None
    next_at: datetime | None
    last_done_at: datetime | None
    is_overdue: bool
    is_active: bool


class TickLine(msgspec.Struct, frozen=True):
    """What a tick did with one occasion."""

    schedule: str
    occasion: str
    due_at: datetime
    state: RunState
    detail: str


class ScheduleTick(msgspec.Struct, frozen=True):
    """One tick; the fields are the keys of the JSON document."""

    at: datetime
    runs: tuple[TickLine, ...]
    overdue: tuple[str, ...]
    abandoned: int
    alerts: tuple[SentAlert, ...]


def read_plan(path: str | None) -> SchedulePlan:
    """Read the schedules of a file; they replace built-in ones with the same id."""
    if path is None:
        return DEFAULT_PLAN
    value = read_settings(path)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    keeps_defaults = value.pop("defaults", True)
    if not isinstance(keeps_defaults, bool):
        raise BadInputError(f"{path}: defaults must be true or false, got {keeps_defaults!r}")
    try:
        plan = msgspec.convert(value, SchedulePlan)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not keeps_defaults:
        if not plan.schedules:
            raise BadInputError(f"{path}: has no schedules, and the built-in ones are off")
        return plan
    named = {schedule.id for schedule in plan.schedules}
    kept = tuple(schedule for schedule in DEFAULT_PLAN.schedules if schedule.id not in named)
    return SchedulePlan((*plan.schedules, *kept))


def list_schedules(
    workspace: Workspace, plan: SchedulePlan, now: datetime
) -> tuple[ScheduleLine, ...]:
    """Return every schedule, with its next fire time and whether it is overdue."""
    plan = per_asset(workspace, plan)
    seen = schedule_runs_of(workspace).known_since([one.id for one in plan.schedules], now)
    lines = []
    for schedule in plan.schedules:
        done = schedule_runs_of(workspace).last_done(schedule.id, now)
        lines.append(
            ScheduleLine(
                id=schedule.id,
                kind=schedule.kind,
                cron=schedule.cron,
                tz=schedule.tz,
                triggers=schedule.triggers,
                command=" ".join(schedule.command) or None,
                next_at=next_fire(schedule, now),
                last_done_at=done,
                is_overdue=schedule.is_active
                and is_overdue(schedule, now, done or seen[schedule.id]),
                is_active=schedule.is_active,
            )
        )
    return tuple(lines)


def due_now(workspace: Workspace, plan: SchedulePlan, now: datetime) -> tuple[Occasion, ...]:
    """Return what is due, missed or expired; changes nothing."""
    plan = per_asset(workspace, plan)
    triggers = schedule_runs_of(workspace).triggers(now)
    found: list[Occasion] = []
    for schedule in plan.schedules:
        if schedule.is_active:
            last = schedule_runs_of(workspace).last_due(schedule.id, now)
            found.extend(occasions(schedule, now, last))
            horizon = now - timedelta(seconds=seconds_of(schedule.catch_up))
            found.extend(
                retries(schedule, schedule_runs_of(workspace).since(schedule.id, horizon), now)
            )
            if schedule.triggers:
                done = schedule_runs_of(workspace).occasions(schedule.id)
                found.extend(triggered(schedule, triggers, done, now))
    return tuple(found)


def tick_schedules(
    workspace: Workspace,
    plan: SchedulePlan,
    *,
    now: datetime,
    worker: str,
    alerting: Alerting | None = None,
    alerts_file: str | None = None,
    runner: Runner | None = None,
    stopwatch: Callable[[], float] = time.monotonic,
) -> ScheduleTick:
    """Claim and run what is due; skip what another worker has claimed.

    Runs follow each other; ``stopwatch`` (seconds) gives the time of each. Drift probes alert the
    sinks of ``alerts_file``.
    """
    started = stopwatch()

    def moment() -> datetime:
        return now + timedelta(seconds=stopwatch() - started)

    abandoned = schedule_runs_of(workspace).abandon(now)
    note_changes(workspace, now)
    plan = per_asset(workspace, plan)
    overdue = _tell_overdue(workspace, plan, now, alerting)
    by_id = {schedule.id: schedule for schedule in plan.schedules}
    run = runner or _runner(workspace, alerts_file)
    lines = []
    for occasion in due_now(workspace, plan, now):
        schedule = by_id[occasion.schedule]
        lease = seconds_of(schedule.time_limit) + GRACE_S
        state = schedule_runs_of(workspace).claim(occasion, worker, moment(), lease)
        if state is None:
            logger.debug("left to another worker", extra=_names(occasion))
            continue
        detail = f"{occasion.count} fire times" if occasion.state != "due" else ""
        if state == "running":
            logger.info("run claimed", extra=_names(occasion) | {"worker": worker})
            began, head = stopwatch(), workspace.events.head().seq
            state, detail = run(schedule, occasion, now)
            schedule_runs_of(workspace).finish(occasion, state, moment(), detail)
            if state != "done":
                failed = FailedRun(schedule, occasion, state, detail, since=head)
                detail = conclude(workspace, failed, now, alerting and alerting.queue_failed)
            took = {"state": state, "duration_s": round(stopwatch() - began, 3)}
            logger.info("run finished", extra=_names(occasion) | took)
        lines.append(
            TickLine(
                schedule=schedule.id,
                occasion=occasion.id,
                due_at=occasion.due_at,
                state=state,
                detail=detail,
            )
        )
    sent = () if alerting is None else alerting.send()
    counts = {"runs": len(lines), "overdue": len(overdue), "abandoned": abandoned}
    logger.info("schedule tick", extra=counts)
    return ScheduleTick(
        at=now, runs=tuple(lines), overdue=overdue, abandoned=abandoned, alerts=sent
    )


def _names(occasion: Occasion) -> dict[str, object]:
    return {"schedule": occasion.schedule, "occasion": occasion.id}


def fire(
    workspace: Workspace, kind: TriggerKind, identity: str, *, asset: str | None, now: datetime
) -> bool:
    """Record a trigger; return False if it was already recorded."""
    return schedule_runs_of(workspace).add_trigger(Trigger(kind, identity, now, asset))


def recent_runs(workspace: Workspace, limit: int) -> list[Run]:
    """Return the outcomes of the latest occasions."""
    return schedule_runs_of(workspace).runs(limit)


def note_changes(workspace: Workspace, now: datetime) -> int:
    """Record a trigger for every registered version; full packs run on them."""
    added = 0
    for event, payload in workspace.events.events(kind=ASSET_REGISTERED):
        if event.at <= now and event.subject and payload is not None:
            version = str(payload.get("version", event.seq))
            trigger = Trigger("change", f"{event.subject}@{version}", event.at, event.subject)
            added += schedule_runs_of(workspace).add_trigger(trigger)
    return added


def _tell_overdue(
    workspace: Workspace, plan: SchedulePlan, now: datetime, alerting: Alerting | None
) -> tuple[str, ...]:
    """Warn once about each schedule that is overdue."""
    active = [schedule for schedule in plan.schedules if schedule.is_active]
    seen = schedule_runs_of(workspace).first_seen([schedule.id for schedule in active], now)
    found = []
    for schedule in active:
        last = schedule_runs_of(workspace).last_done(schedule.id, now) or seen[schedule.id]
        if not is_overdue(schedule, now, last):
            continue
        found.append(schedule.id)
        missed = missed_since(schedule, now, last)
        reason = f"{missed} runs are missing since {last:%Y-%m-%d %H:%MZ}"
        identity = digest(["overdue", schedule.id, last.isoformat()])
        if not schedule_runs_of(workspace).note_once(f"overdue:{identity}", now):
            continue
        payload = {"schedule": schedule.id, "level": "WARN", "reason": reason, "missed": missed}
        workspace.events.append(
            [
                EventDraft(
                    SCHEDULE_OVERDUE, event_moment(workspace.events, now), SYSTEM, None, payload
                )
            ]
        )
        if alerting is not None:
            alerting.queue(identity, schedule=schedule.id, reason=reason, at=now)
    return tuple(found)


def _runner(workspace: Workspace, alerts_file: str | None) -> Runner:
    settings = {"GATEMARK_STORE": workspace.store_setting}
    if alerts_file is not None and PROBE_ALERTS not in os.environ:
        settings[PROBE_ALERTS] = str(Path(alerts_file).resolve())

    def run(schedule: Schedule, occasion: Occasion, now: datetime) -> tuple[RunState, str]:
        pack = None if occasion.asset is None else read_state(workspace, occasion.asset).asset
        return run_command(
            schedule, occasion, now, settings, None if pack is None else pack.exam_file
        )

    return run


def run_command(
    schedule: Schedule,
    occasion: Occasion,
    now: datetime,
    settings: Mapping[str, str],
    pack: str | None = None,
) -> tuple[RunState, str]:
    """Run a schedule's command in its own process, and stop it at the time limit.

    ``settings`` are environment variables for the command; ``pack`` is the file of the full pack of
    its asset.
    """
    if schedule.needs_pack and (pack is None or not Path(pack).is_file()):
        return "failed", _no_pack(occasion.asset, pack)
    values = {"asset": occasion.asset or "", "now": _text(now), "due": _text(occasion.due_at)}
    arguments = [_filled(argument, {**values, "pack": pack or ""}) for argument in schedule.command]
    environment = {**os.environ, **settings}
    try:
        process = subprocess.Popen(  # noqa: S603 - the owner of the schedule names it
            [sys.executable, "-m", "gatemark", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return "failed", f"cannot be started: {error.strerror or error}"
    try:
        _, complaint = process.communicate(timeout=seconds_of(schedule.time_limit))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timed_out", f"stopped after {schedule.time_limit}"
    said = complaint.decode(errors="replace").strip()[-TAIL:]
    code = process.returncode
    if code in _ENDED_WELL:
        # A drift probe that finds drift has already acted on it.
        state: RunState = "done" if schedule.kind == "drift" else _ENDED_WELL[ExitCode(code)]
        return state, f"exit {code}"
    ending = f"exit {code}" if code >= 0 else f"stopped by signal {-code}"
    return "failed", f"{ending}: {said}" if said else ending


def _no_pack(asset: str | None, pack: str | None) -> str:
    if asset is None:
        return "no asset to run the full pack of: name one with asset: or fire it with --asset"
    if pack is None:
        return f"{asset} has no pack file; set it: gatemark asset pack {asset} FILE"
    return f"{pack}, the full pack of {asset}, was not found; run the tick in its folder"


def seconds_until_next(plan: SchedulePlan, now: datetime, longest: float) -> float:
    """Return how many seconds a loop may sleep before something could be due."""
    moments = [
        moment
        for schedule in plan.schedules
        if schedule.is_active and (moment := next_fire(schedule, now)) is not None
    ]
    if not moments:
        return longest
    return max(0.0, min(longest, (min(moments) - now) / timedelta(seconds=1)))


def _filled(argument: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        argument = argument.replace(f"{{{name}}}", value)
    return argument


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
