"""Fix the clock and chance of a command: run in its process before it starts.

The command server runs this file where ``GATEMARK_TEST_FIXED`` names it. Commands that share the
counter file of ``GATEMARK_TEST_COUNTER`` are a minute apart, and draw other secrets each. Where
``GATEMARK_TEST_LINE`` is set, the clock stands still and the line decides what is drawn, so that a
new line changes what no other line prints.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import import_module
from itertools import count
from pathlib import Path

CLOCKS = ("gatemark.workspace", "gatemark.release.cli.canary", "gatemark.release.cli.demo")
"""Modules that read the clock; another copy of the package may lack some, and has loaded none."""
START = datetime(2026, 4, 6, 8, tzinfo=UTC)
AFTER_THE_SCENE = START + timedelta(hours=2)
"""When every line happens that has the clock to itself."""
TICK_S = 0.001


def fix(now: datetime, chance: str) -> None:
    """Fix the time that a command sees, and what it draws."""
    drawn = count()

    class FixedDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return now.astimezone(tz)

    def token_bytes(nbytes: int | None = None) -> bytes:
        seed = f"{chance} {next(drawn)}".encode()
        return hashlib.shake_256(seed).digest(32 if nbytes is None else nbytes)

    for name in CLOCKS:
        with suppress(ImportError):
            import_module(name)
    for name, module in sorted(sys.modules.items()):
        # Only where the clock is read: a type of a record must stay the one that msgspec knows.
        file = getattr(module, "__file__", None)
        if name.startswith("gatemark.") and file and "datetime.now(" in Path(file).read_text():
            module.datetime = FixedDatetime  # type: ignore[attr-defined]
    ticks = count()
    time.time = now.timestamp
    time.perf_counter = lambda: next(ticks) * TICK_S
    secrets.token_bytes = token_bytes
    secrets.token_hex = lambda nbytes=None: token_bytes(nbytes).hex()
    secrets.token_urlsafe = lambda nbytes=None: token_bytes(nbytes).hex()
    uuid.uuid4 = lambda: uuid.UUID(bytes=token_bytes(16), version=4)


def _next_number(place: Path) -> int:
    number = int(place.read_text()) + 1 if place.exists() else 0
    place.write_text(str(number))
    return number


if __name__ == "__main__":
    number = _next_number(Path(os.environ["GATEMARK_TEST_COUNTER"]))
    if (line := os.environ.get("GATEMARK_TEST_LINE")) is None:
        fix(START + timedelta(minutes=number), str(number))
    else:
        fix(AFTER_THE_SCENE, line)
