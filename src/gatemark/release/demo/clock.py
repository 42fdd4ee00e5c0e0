"""The clock of the demo."""

from __future__ import annotations

from datetime import datetime, timedelta


class DemoClock:
    """A clock that moves when it is set, and a little on every read."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now
