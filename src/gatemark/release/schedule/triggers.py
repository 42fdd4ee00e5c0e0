"""Triggers: what makes a schedule run besides its cron expression."""

from __future__ import annotations

from datetime import datetime

from gatemark.ledger.event_kinds import ASSET_REGISTERED
from gatemark.release.schedule.cadence import (
    Trigger,
    TriggerKind,
)
from gatemark.release.schedule.open_stores import schedule_runs_of
from gatemark.workspace import Workspace


def record_trigger(
    workspace: Workspace, kind: TriggerKind, identity: str, *, asset: str | None, now: datetime
) -> bool:
    """Record a trigger; return False if it was already recorded."""
    return schedule_runs_of(workspace).add_trigger(Trigger(kind, identity, now, asset))


def record_changes(workspace: Workspace, now: datetime) -> int:
    """Record a trigger for every registered version; required packs run on them."""
    added = 0
    for event, payload in workspace.events.events(kind=ASSET_REGISTERED):
        if event.at <= now and event.subject and payload is not None:
            version = str(payload.get("version", event.seq))
            trigger = Trigger("change", f"{event.subject}@{version}", event.at, event.subject)
            added += schedule_runs_of(workspace).add_trigger(trigger)
    return added
