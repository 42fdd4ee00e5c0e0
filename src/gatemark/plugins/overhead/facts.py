"""Facts about two arms that the report and the figures need besides the measurements."""

from __future__ import annotations

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.plugins.overhead.arms import Defect
from gatemark.plugins.overhead.document import ArmPart, CostsPart, WorstWindow
from gatemark.plugins.overhead.measure import Basis
from gatemark.plugins.overhead.measure_costs import (
    NO_COSTS,
    OverheadCosts,
    leave_costs_unmeasured,
)
from gatemark.plugins.overhead.ratio_interval import Resampling
from gatemark.plugins.overhead.window_numbers import SecondRun


class ArmsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the arms besides their windows; ``second_defects`` are those of second runs."""

    kind: str | None = None
    arms: dict[str, ArmPart] = {}
    defects: tuple[Defect, ...] = ()
    second_defects: dict[SecondRun, tuple[Defect, ...]] = {}
    expected: int = 0
    schedule: str | None = None
    spent: OverheadCosts = leave_costs_unmeasured(NO_COSTS())
    costs: CostsPart | None = None


class Facts(ArmsHeader, frozen=True, kw_only=True):
    """What the report and the figures need besides the measurements.

    ``second_runs`` has, for each one, how far it is off, and its overhead.
    """

    basis: Basis | None
    windows: int
    weight: int
    worst: tuple[WorstWindow, ...]
    resampling: Resampling
    second_runs: dict[SecondRun, tuple[Measurement, float | None]]


Numbers = dict[str, Measurement]
