"""Send an alert to a program; at the time limit, it is stopped with all its children."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Final

from gatemark.release.alerts.alert import Alert, CommandSink
from gatemark.release.alerts.sinks import DeliveryError

MAX_SHOWN: Final = 200
_GRACE: Final = 0.9


def send(alert: Alert, sink: CommandSink) -> None:
    """Run the program with the alert as JSON on its standard input."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the owner of the policy names it
            list(sink.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise DeliveryError(f"{sink.command[0]}: {error.strerror or error}") from error
    try:
        _, complaint = process.communicate(alert.body, timeout=sink.time_limit_s * _GRACE)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise DeliveryError(f"{sink.command[0]}: did not end in time and was stopped") from error
    if process.returncode:
        said = complaint.decode(errors="replace").strip()[:MAX_SHOWN]
        raise DeliveryError(f"{sink.command[0]}: ended with {process.returncode}: {said}")
