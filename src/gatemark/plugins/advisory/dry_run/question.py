"""A question to a service: its setting, its input, and the NPU busy counter.

The busy counter is a file with one number that grows while the NPU works.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gatemark.plugins.advisory.dry_run.payload import encode_payload
from gatemark.plugins.advisory.fixtures.fixture import Fixture
from gatemark.plugins.advisory.record import FallbackKind, Mode, Reference
from gatemark.plugins.advisory.taxonomy import Taxonomy

DEFAULT_COUNTER: Final = "/sys/class/accel/accel0/device/npu_busy_time_us"
MAX_COUNTER_BYTES: Final = 64
MAX_COUNT: Final = 2**63 - 1


class BusyReading(NamedTuple):
    """A reading or the growth between two, or a code for why there is none."""

    value_us: int | None
    problem: str | None = None


def read_counter(path: Path) -> BusyReading:
    """Read the counter; any problem with the file becomes a code."""
    try:
        # A pipe without a writer would block forever.
        with open(path, "rb", opener=_open_without_waiting) as stream:
            data = stream.read(MAX_COUNTER_BYTES + 1) or b""
    except FileNotFoundError:
        return BusyReading(None, "counter_missing")
    except OSError:
        return BusyReading(None, "counter_unreadable")
    text = data.strip()
    if len(data) > MAX_COUNTER_BYTES or not text.isdigit() or int(text) > MAX_COUNT:
        return BusyReading(None, "counter_not_a_number")
    return BusyReading(int(text))


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def measure_busy(before: BusyReading, after: BusyReading) -> BusyReading:
    """Return the growth between two readings; unknown if the counter went back."""
    problem = before.problem or after.problem
    if before.value_us is None or after.value_us is None:
        return BusyReading(None, problem)
    if after.value_us < before.value_us:
        return BusyReading(None, "counter_went_backwards")
    return BusyReading(after.value_us - before.value_us)


class LaneSetting(msgspec.Struct, frozen=True):
    """What all records of a lane in a run share.

    ``expected_fallbacks`` are those the user announced; ``npu_in_sight`` is whether this machine
    has a busy counter at all. ``slo_ms`` is the lane's latency objective. ``is_shadow`` means that
    inputs are real ones.
    """

    run_id: str
    fixture_set: str
    service: str
    endpoint: str
    mode: Mode
    taxonomy: Taxonomy
    counter_path: str
    npu_in_sight: bool
    slo_ms: float | None = None
    expected_fallbacks: frozenset[FallbackKind] = frozenset()
    is_shadow: bool = False


class CallObservation(msgspec.Struct, frozen=True):
    """What the harness measured around one call.

    ``total_ms`` is None if nothing was called. ``alone`` is false if other calls were under way,
    whose work the counter would include.
    """

    total_ms: float | None
    before: BusyReading
    after: BusyReading
    alone: bool


class CallQuestion(msgspec.Struct, frozen=True):
    """One question: its id, its input and its reference; a health probe has no fixture."""

    decision_id: str
    input_class: str
    setting: LaneSetting
    reference: Reference
    fixture: Fixture | None = None

    @property
    def payload(self) -> object:
        """The payload to send; a sound is rendered only now."""
        if self.fixture is None:
            return None
        return encode_payload(self.input_class, self.fixture.payload)
