"""Handle a scheduled run that did not pass: record an event, alert, and apply its policy."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from gatemark.core.errors import RefusedError
from gatemark.core.result import Result
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import RESULT_SEALED, SYSTEM
from gatemark.ledger.port import event_moment
from gatemark.release.alerts.alert import Alert, AlertPlan, alert_id
from gatemark.release.alerts.send import queue_alert
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import Demote
from gatemark.release.lifecycle.decisions.demotion import LastLiveError
from gatemark.release.lifecycle.model.nouns import PRODUCTION
from gatemark.release.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.release.schedule.cadence import Occasion, Schedule, SchedulePlan
from gatemark.release.schedule.events import SCHEDULE_FAILED
from gatemark.release.schedule.stores import RunState
from gatemark.workspace import Workspace

FailureLevel = Literal["WARN", "BREACH"]


class FailedRun(msgspec.Struct, frozen=True):
    """A run that did not pass; ``since`` is the last event before it."""

    schedule: Schedule
    occasion: Occasion
    state: RunState
    detail: str
    since: int


def split_by_asset(workspace: Workspace, plan: SchedulePlan) -> SchedulePlan:
    """Return the plan with one schedule per asset where a schedule covers several.

    Assets without a pack file are left out of schedules that run the pack.
    """
    if not any(schedule.is_per_asset for schedule in plan.schedules):
        return plan
    assets = []
    if workspace.has_store:
        cache = asset_state_cache(workspace)
        assets = [cache.read(name).asset for name in sorted(cache.names())]
    found: list[Schedule] = []
    for schedule in plan.schedules:
        if not schedule.is_per_asset:
            found.append(schedule)
            continue
        fitting = [
            msgspec.structs.replace(schedule, id=f"{schedule.id}/{asset.name}", asset=asset.name)
            for asset in assets
            if schedule.asset_class in (None, asset.kind)
            and not (schedule.needs_pack and asset.required_pack_file is None)
        ]
        # A schedule without assets stays in listings, with nothing to run.
        found.extend(fitting or [msgspec.structs.replace(schedule, enabled=False)])
    return SchedulePlan(tuple(found))


def conclude_failure(workspace: Workspace, run: FailedRun, now: datetime, plan: AlertPlan) -> str:
    """Record a run that did not pass, apply its policy, and alert; return a description."""
    asset = run.occasion.asset
    failed = None if run.state != "gate_failed" else _find_failed_result(workspace, run)
    version = (
        None if failed is None or asset is None else _find_live_version(workspace, asset, failed)
    )
    level: FailureLevel = "WARN" if version is None else "BREACH"
    reason = _explain_failure(run, version)
    payload = {
        "schedule": run.schedule.id,
        "occasion": run.occasion.id,
        "state": run.state,
        "level": level,
        "reason": reason,
        "version": version,
        "result_ids": [] if failed is None else [failed.id],
        "on_fail": run.schedule.on_fail,
    }
    draft = EventDraft(SCHEDULE_FAILED, event_moment(workspace.events, now), SYSTEM, asset, payload)
    (event,) = workspace.events.append([draft])
    done = ""
    if asset is not None and version is not None:
        done = _respond(workspace, run, asset, version, event.seq)
    alert = Alert(
        id=alert_id("schedule_failed", run.schedule.id, run.occasion.id),
        kind="schedule",
        level=level,
        subject=f"schedule {run.schedule.id} did not pass",
        reason=reason,
        at=now,
        asset=asset,
        actions=(done,) if done else (),
    )
    queue_alert(workspace, plan, alert)
    return "; ".join(part for part in (run.detail, done) if part)


def _explain_failure(run: FailedRun, version: str | None) -> str:
    words = {
        "gate_failed": "the gate failed",
        "unjudged": "the evidence could not decide",
        "timed_out": "the run took too long",
    }.get(run.state, "the run ended with an error")
    about = f" for {run.occasion.asset}" if run.occasion.asset is not None else ""
    live = "" if version is None else f", and {version} serves now"
    return f"{words}{about} ({run.detail}){live}"


def _find_failed_result(workspace: Workspace, run: FailedRun) -> Result | None:
    """Return the newest failed result about the asset that was sealed during the run."""
    found = None
    for event, payload in workspace.events.events(run.since, kind=RESULT_SEALED):
        if event.subject == run.occasion.asset and payload is not None:
            result = workspace.results.get(str(payload["result_id"]))
            found = result if result.verdict == "fail" else found
    return found


def _find_live_version(workspace: Workspace, asset: str, failed: Result) -> str | None:
    """Return the live version that a result is about, or None if it is about another one."""
    state = read_state(workspace, asset).asset
    place = state.place(PRODUCTION)
    about = None if failed.candidate is None else failed.candidate.digest
    for version in (place.enabled, place.canary):
        if version is not None and state.versions[version].digest == about:
            return version
    return None


def _respond(workspace: Workspace, run: FailedRun, asset: str, version: str, event: int) -> str:
    """Apply the schedule's ``on_fail`` to the live version; return a description."""
    if run.schedule.on_fail == "keep_last":
        return f"{version} stays live (on_fail: keep_last)"
    demote = Demote(
        actor=SYSTEM,
        asset=asset,
        version=version,
        note=f"schedule {run.schedule.id} failed (on_fail: {run.schedule.on_fail})",
        signals=(event,),
        stop=run.schedule.on_fail != "fallback",
    )
    try:
        act(workspace, demote)
    except LastLiveError:
        return f"{version} stays live: no earlier version can take over (on_fail: fallback)"
    except RefusedError as error:
        return f"{version} was not demoted: {error}"
    return f"{version} was demoted"
