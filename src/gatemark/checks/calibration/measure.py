"""Calibration of stated confidences: items are ``(confidence, correct)``.

A confidence or an outcome of None cannot be judged and is counted as excluded. The state holds one
17-byte row per distinct (confidence, correct); confidences given in steps need almost nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec
import numpy as np

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Direction, Interval, Measurement, measured, unmeasured
from gatemark.core.reason import ReasonKind
from gatemark.statistics.confidence.calibration import (
    DEFAULT_BINS,
    Calibration,
    Groups,
    group_items,
    measure_calibration,
)
from gatemark.statistics.confidence.resolution import LEVEL, METHOD, Resolution, measure_resolution
from gatemark.statistics.multiset import Runs, add_rows, merge_runs, row_type, union_rows

DEFAULT_SEED = 19
FEW_ITEMS = 100
NO_CONFIDENCES: Final = ReasonKind("no_confidences", "no item has a confidence and an outcome")
NO_FULL_BIN: Final = ReasonKind("no_full_bin", "no bin has 10 items")
_ROW = row_type(("confidence", "<f8"), ("correct", "u1"))
_GIVES = (
    "ece",
    "mce",
    "mce_min10",
    "ece_excess",
    "iso_dev",
    "brier",
    "brier_mcb",
    "brier_dsc",
    "brier_unc",
    "auroc",
)
NO_AUROC: Final = ReasonKind("no_auroc", "all answers are right, or all are wrong")


class CalibrationState(msgspec.Struct, frozen=True):
    """Counted (confidence, correct) rows, and what could not be judged."""

    runs: Runs = ()
    no_confidence_count: int = 0
    no_outcome_count: int = 0


def step(state: CalibrationState, batch: Batch) -> CalibrationState:
    """Count a batch of items into the state."""
    rows = []
    no_confidence = no_outcome = 0
    for (confidence, correct), count in Counter(batch).items():
        if confidence is None:
            no_confidence += count
        elif correct is None:
            no_outcome += count
        elif not 0 <= confidence <= 1:
            raise InvalidValueError(f"confidence must be inside [0, 1], got {confidence}")
        else:
            rows.append((confidence + 0.0, bool(correct), count))
    return CalibrationState(
        runs=add_rows(state.runs, rows, _ROW),
        no_confidence_count=state.no_confidence_count + no_confidence,
        no_outcome_count=state.no_outcome_count + no_outcome,
    )


def merge(left: CalibrationState, right: CalibrationState) -> CalibrationState:
    """Merge two states."""
    return CalibrationState(
        runs=merge_runs(left.runs, right.runs, _ROW),
        no_confidence_count=left.no_confidence_count + right.no_confidence_count,
        no_outcome_count=left.no_outcome_count + right.no_outcome_count,
    )


def summarize_calibration(
    state: CalibrationState,
    *,
    bins: int = DEFAULT_BINS,
    seed: int = DEFAULT_SEED,
) -> Calibration | None:
    """Return every number and bin, or None if there is no item to judge."""
    groups = _group_rows(state)
    if groups is None:
        return None
    return measure_calibration(groups, np.random.default_rng(seed), bins=bins)


def summarize_resolution(state: CalibrationState, *, bins: int = DEFAULT_BINS) -> Resolution | None:
    """Return how well confidences tell right answers from wrong ones, or None without items."""
    groups = _group_rows(state)
    return None if groups is None else measure_resolution(groups, bins)


def measure_auroc(found: Resolution, **about: Any) -> Measurement:
    """Return the area under the ROC curve with its interval, or why there is none."""
    if found.auroc is None:
        return unmeasured("auroc", NO_AUROC(), direction="higher_is_better", **about)
    ends = found.interval
    interval = None if ends is None else Interval(*ends, LEVEL, METHOD)
    return measured("auroc", found.auroc, direction="higher_is_better", interval=interval, **about)


def _group_rows(state: CalibrationState) -> Groups | None:
    rows = union_rows(state.runs, _ROW)
    if rows.size == 0:
        return None
    return group_items(rows["confidence"], rows["correct"], rows["count"])


def finish(state: CalibrationState) -> tuple[Measurement, ...]:
    """Return the measurements, with 15 bins and the default seed of the simulated twins."""
    excluded = {
        name: count
        for name, count in (
            ("no_confidence", state.no_confidence_count),
            ("no_outcome", state.no_outcome_count),
        )
        if count
    }
    found = summarize_calibration(state)
    n = 0 if found is None else found.n
    reason = NO_CONFIDENCES() if found is None else NO_FULL_BIN()
    caveats = (f"fewer than {FEW_ITEMS} items: binned errors are mostly chance",)
    about: dict[str, Any] = {
        "n": n,
        "excluded": excluded,
        "caveats": caveats if 0 < n < FEW_ITEMS else (),
    }
    resolution = summarize_resolution(state)
    values: dict[str, float | None] = dict.fromkeys(_GIVES[:-1])
    if found is not None:
        values = {name: getattr(found, name) for name in _GIVES[:5]}
        values["brier"] = found.brier.score
        values |= {f"brier_{part}": getattr(found.brier, part) for part in ("mcb", "dsc", "unc")}
    return (
        *(
            unmeasured(name, reason, direction=_choose_direction(name), **about)
            if value is None
            else measured(name, value, direction=_choose_direction(name), **about)
            for name, value in values.items()
        ),
        unmeasured("auroc", reason, direction="higher_is_better", **about)
        if resolution is None
        else measure_auroc(resolution, **about),
    )


def _choose_direction(name: str) -> Direction:
    if name == "brier_unc":
        return "neutral"
    return "higher_is_better" if name == "brier_dsc" else "lower_is_better"


MEASURE = Measure(
    name="calibration",
    summary="How far stated confidences are from observed accuracy.",
    state=CalibrationState,
    zero=CalibrationState,
    step=step,
    merge=merge,
    finish=finish,
    known=(
        KnownAnswer(
            title="ten items at 0.8, six of them right",
            batch=[(0.8, i < 6) for i in range(10)],
            expected={
                "ece": 0.2,
                "mce": 0.2,
                "mce_min10": 0.2,
                "iso_dev": 0.2,
                "brier": 0.28,
                "brier_mcb": 0.04,
                "brier_dsc": 0.0,
                "brier_unc": 0.24,
                "auroc": 0.5,
            },
        ),
        KnownAnswer(
            title="edges: zero sits in the first bin, one in the last",
            batch=[(0.0, False), (1.0, True)],
            expected={
                "ece": 0.0,
                "mce": 0.0,
                "mce_min10": None,
                "ece_excess": 0.0,
                "iso_dev": 0.0,
                "brier": 0.0,
                "brier_mcb": 0.0,
                "brier_dsc": 0.25,
                "brier_unc": 0.25,
                "auroc": 1.0,
            },
        ),
        KnownAnswer(
            title="nothing to judge",
            batch=[(None, True), (0.5, None)],
            expected=dict.fromkeys(_GIVES),
        ),
    ),
    gives=_GIVES,
    counted=True,
)
