"""Queue alerts for sinks, and deliver them."""

from __future__ import annotations

import logging

import msgspec

from gatemark.release.alerts.alert import Alert, AlertPlan
from gatemark.release.alerts.sinks import DeliveryError, deliver
from gatemark.release.alerts.stores import GIVEN_UP, SqlAlerts
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)


def alerts_of(workspace: Workspace) -> SqlAlerts:
    """Return the alerts that wait for delivery."""
    return workspace.store_of(SqlAlerts)


class Delivered(msgspec.Struct, frozen=True):
    """The delivery of one alert to one sink; ``error`` is None if it succeeded."""

    alert: str
    sink: str
    level: str
    subject: str
    error: str | None


def queue_alert(workspace: Workspace, plan: AlertPlan, alert: Alert) -> None:
    """Store an alert for each sink that accepts it."""
    wanted = [sink.name for sink in plan.sinks if sink.takes(alert)]
    if wanted:
        alerts_of(workspace).queue(alert, wanted)


def send_pending(workspace: Workspace, plan: AlertPlan) -> tuple[Delivered, ...]:
    """Deliver the stored alerts; failed deliveries are tried again at the next tick.

    A sink that fails is skipped for the rest of the tick, so that it costs its time limit once.
    """
    sinks = {sink.name: sink for sink in plan.sinks}
    if not sinks:
        return ()
    delivered = []
    for queued in alerts_of(workspace).pending():
        sink = sinks.get(queued.sink)
        if sink is None:
            continue
        problem: str | None = None
        try:
            deliver(queued.alert, sink)
        except DeliveryError as error:
            problem = str(error)
            del sinks[sink.name]
        if alerts_of(workspace).mark(queued, problem, workspace.clock()) == GIVEN_UP:
            problem = f"{problem}; given up after {queued.attempts + 1} attempts"
        alert = queued.alert
        about = {"alert": alert.id, "sink": sink.name, "attempt": queued.attempts + 1}
        logger.info("alert sent" if problem is None else "alert not sent", extra=about)
        delivered.append(Delivered(alert.id, sink.name, alert.level, alert.subject, problem))
    return tuple(delivered)
