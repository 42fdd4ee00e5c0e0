"""Deliver alerts: one file per kind of sink; a slow sink cannot block a tick."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, cast

from gatemark.core.errors import GatemarkError
from gatemark.release.alerts.alert import Alert, AnySink


class DeliveryError(GatemarkError):
    """An alert could not be delivered."""


def deliver(alert: Alert, sink: AnySink) -> None:
    """Send an alert to a sink within its time limit, or raise DeliveryError.

    The sink runs in its own thread; one that hangs is abandoned.
    """
    kind = str(sink.__struct_config__.tag)
    send = cast(
        "Callable[[Alert, Any], None]",
        importlib.import_module(f"gatemark.release.alerts.sinks.{kind}").send,
    )
    outcome: list[str | None] = []

    def work() -> None:
        try:
            send(alert, sink)
        except DeliveryError as error:
            outcome.append(str(error))
        except (OSError, ValueError, GatemarkError) as error:
            outcome.append(f"{type(error).__name__}: {error}")
        else:
            outcome.append(None)

    thread = threading.Thread(target=work, name=f"alert-{sink.name}", daemon=True)
    thread.start()
    thread.join(sink.time_limit_s)
    if not outcome:
        raise DeliveryError(f"no answer within {sink.time_limit_s:g} s")
    if outcome[0] is not None:
        raise DeliveryError(outcome[0])
