"""Append an alert to a file as one whole line."""

from __future__ import annotations

import os
from pathlib import Path

from gatemark.release.alerts.alert import Alert, FileSink


def send(alert: Alert, sink: FileSink) -> None:
    """Append an alert as one line of JSON."""
    target = Path(sink.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # One write in append mode, so that lines of several writers do not mix.
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, alert.body + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
