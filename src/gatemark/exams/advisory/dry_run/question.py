"""A question put to a service: in which setting, about what, and what was seen around it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatemark.exams.advisory.categories import Taxonomy
from gatemark.exams.advisory.decision import FallbackKind, Mode
from gatemark.exams.advisory.dry_run.write_record import BusyReading
from gatemark.exams.advisory.fixtures.fixture import Fixture
from gatemark.exams.advisory.fixtures.references import Given


class LaneSetting(msgspec.Struct, frozen=True):
    """What is the same for every record of a lane in a run.

    ``expected_fallbacks`` are those the user announced; ``npu_in_sight`` says whether this machine
    has a busy counter at all. ``slo_ms`` is what the lane promised to stay under.
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


class CallObservation(msgspec.Struct, frozen=True):
    """What the harness measured around one call.

    ``total_ms`` is None when nothing was called. ``alone`` is false when other calls were under
    way, whose work the counter would show as well.
    """

    total_ms: float | None
    before: BusyReading
    after: BusyReading
    alone: bool


class DryRunQuestion(msgspec.Struct, frozen=True):
    """One question: its id, its moment, its input, what it is compared with.

    A health probe has no fixture.
    """

    decision_id: str
    at: datetime
    input_class: str
    fixture: Fixture | None
    reference: Given
