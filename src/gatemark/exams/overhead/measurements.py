"""The measurements that a guard-overhead comparison gives, each a value or a reason."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Direction, Measurement, measured, unmeasured
from gatemark.exams.overhead.estimates import LEVEL, PairedOverhead, count_overhead, loss_overhead
from gatemark.statistics.proportion import zero_width_caveat
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES

Basis = Literal["loss", "count"]

OVERHEAD: Final = "quality_overhead"
IMPROVEMENT: Final = "quality_improvement"
DETECTABLE: Final = "detectable_overhead"
P95: Final = "window_shift_p95"
WORST: Final = "window_shift_worst"
WORSE_RATE: Final = "worse_window_rate"
BARE: Final = "bare_value"
GUARDED: Final = "guarded_value"
NAMES: Final = (OVERHEAD, IMPROVEMENT, BARE, GUARDED, DETECTABLE, P95, WORST, WORSE_RATE)

IDENTICAL: Final = (
    "every window is the same in both arms: the guards never acted, or the toggle did nothing"
)


class Quality(msgspec.Struct, frozen=True):
    """The measurements, and the comparison behind them where there is one."""

    measurements: tuple[Measurement, ...]
    found: PairedOverhead | None


class Resampling(msgspec.Struct, frozen=True):
    """How an interval is found: with which seed, how wide, from how many resamples."""

    seed: int
    level: float = LEVEL
    resamples: int = DEFAULT_RESAMPLES

    def rng(self) -> np.random.Generator:
        """A fresh stream, so that every number can be found again by itself."""
        return np.random.default_rng(self.seed)


def measure_quality(
    basis: Basis,
    weights: ArrayLike,
    bare: ArrayLike,
    guarded: ArrayLike,
    resampling: Resampling,
) -> Quality:
    """Every quality number of windows that are known to pair."""
    compare = loss_overhead if basis == "loss" else count_overhead
    how = {"level": resampling.level, "resamples": resampling.resamples}
    try:
        found = compare(weights, bare, guarded, resampling.rng(), **how)  # type: ignore[arg-type]
    except InvalidValueError as error:
        return Quality(quality_unmeasured(str(error)), None)
    return Quality(_measurements(basis, found), found)


def quality_unmeasured(reason: str, others: str | None = None) -> tuple[Measurement, ...]:
    """The same names, each with the reason why there is no number; ``others`` is a short one."""
    return tuple(
        unmeasured(
            name, reason if name == OVERHEAD else others or reason, direction="lower_is_better"
        )
        for name in NAMES
    )


def smallest_reaching(values: NDArray[np.float64], share: float) -> float:
    """The smallest observed value whose cumulative share reaches ``share``."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def _measurements(basis: Basis, found: PairedOverhead) -> tuple[Measurement, ...]:
    n = found.shifts.size
    unit, of_windows, better = (
        ("perplexity", "nats", "lower_is_better")
        if basis == "loss"
        else ("accuracy", "ratio", "higher_is_better")
    )
    direction: Direction = "higher_is_better" if better == "higher_is_better" else "lower_is_better"
    worse: Direction = "lower_is_better"
    caveats = [found.interval_reason] if found.interval_reason else []
    if not caveats:
        caveats.extend(zero_width_caveat(found.interval))
    if not np.any(found.shifts):
        caveats.append(IDENTICAL)
    return (
        measured(
            OVERHEAD,
            found.overhead,
            n=n,
            direction=worse,
            interval=found.interval,
            other_intervals=found.other_intervals,
            caveats=tuple(caveats),
        ),
        measured(IMPROVEMENT, max(0.0, -found.overhead), n=n, direction="neutral"),
        measured(BARE, found.bare, n=n, direction=direction, unit=unit),
        measured(GUARDED, found.guarded, n=n, direction=direction, unit=unit),
        unmeasured(DETECTABLE, "nothing shows any spread", n=n, direction=worse)
        if found.detectable is None
        else measured(DETECTABLE, found.detectable, n=n, direction=worse),
        measured(P95, smallest_reaching(found.shifts, 0.95), n=n, direction=worse, unit=of_windows),
        measured(WORST, float(found.shifts.max()), n=n, direction=worse, unit=of_windows),
        measured(WORSE_RATE, float((found.shifts > 0).mean()), n=n, direction=worse),
    )
