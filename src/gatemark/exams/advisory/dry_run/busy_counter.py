"""The NPU's busy counter: a file with one number that grows while the NPU works."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

DEFAULT_COUNTER: Final = "/sys/class/accel/accel0/device/npu_busy_time_us"
MAX_COUNTER_BYTES: Final = 64
MAX_COUNT: Final = 2**63 - 1


class BusyReading(NamedTuple):
    """A reading, or the code of why there is none."""

    value_us: int | None
    problem: str | None = None


class Delta(NamedTuple):
    """How much a counter grew between two readings, or the code of why that is unknown."""

    busy_us: int | None
    problem: str | None = None


def read_counter(path: Path) -> BusyReading:
    """The counter as it stands; whatever is wrong with the file becomes a code."""
    try:
        # A pipe without a writer would keep the harness waiting for ever.
        with open(path, "rb", opener=_without_waiting) as stream:
            data = stream.read(MAX_COUNTER_BYTES + 1) or b""
    except FileNotFoundError:
        return BusyReading(None, "counter_missing")
    except OSError:
        return BusyReading(None, "counter_unreadable")
    text = data.strip()
    if len(data) > MAX_COUNTER_BYTES or not text.isdigit() or int(text) > MAX_COUNT:
        return BusyReading(None, "counter_not_a_number")
    return BusyReading(int(text))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def busy_delta(before: BusyReading, after: BusyReading) -> Delta:
    """What two readings say; a counter that went backwards says nothing."""
    problem = before.problem or after.problem
    if before.value_us is None or after.value_us is None:
        return Delta(None, problem)
    if after.value_us < before.value_us:
        return Delta(None, "counter_went_backwards")
    return Delta(after.value_us - before.value_us)
