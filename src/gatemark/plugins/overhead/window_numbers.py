"""Numbers of paired windows besides the overhead: how many, how many changed, how they repeat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from gatemark.core.measurement import Measurement, measured, measured_count, unmeasured
from gatemark.core.reason import ReasonKind
from gatemark.plugins.overhead.arms import Defect
from gatemark.plugins.overhead.measure import NO_WINDOWS, Basis, measure_quality
from gatemark.plugins.overhead.policy import CHANGED, MISSING_TOKENS, NOISE, REPEAT, UNSEEN, WINDOWS
from gatemark.plugins.overhead.ratio_interval import Resampling
from gatemark.plugins.overhead.settings import OverheadSettings

NO_SECOND_RUN: Final = ReasonKind("no_second_run", "no second {arm} run that pairs")
SECOND_RUN_UNPAIRED: Final = ReasonKind(
    "second_run_unpaired", "the second {arm} run does not pair: {check} ({windows} windows)"
)
SECOND_RUN_UNDEFINED: Final = ReasonKind(
    "second_run_undefined", "the second {arm} run has no value"
)
SecondRun = Literal["noise", "repeat"]
SECOND_RUNS: Final[tuple[SecondRun, ...]] = ("noise", "repeat")


class WindowPair(NamedTuple):
    """One window on both arms, and on a second run of each if there is one."""

    basis: Basis
    window_id: str
    weight: float
    bare: float
    guarded: float
    noise: float | None = None
    repeat: float | None = None


def measure_changes(rows: Sequence[WindowPair], settings: OverheadSettings) -> list[Measurement]:
    """Return how many windows the guards change, and what unseen kinds of windows may cost.

    ``n`` windows without a kind of damage leave a share of up to ``1 - (1 - level) ** (1 / n)`` of
    windows that have it, at the level of the policy.
    """
    n = len(rows)
    if not n:
        reason = NO_WINDOWS()
        return [
            unmeasured(CHANGED, reason, direction="higher_is_better", unit="count"),
            unmeasured(UNSEEN, reason, direction="lower_is_better"),
        ]
    changed = sum(row.bare != row.guarded for row in rows)
    is_loss = rows[0].basis == "loss"
    damage = settings.unseen_damage if is_loss else min(1.0, settings.unseen_damage)
    shift = damage * (1 - (1 - settings.level) ** (1 / n))
    unseen = math.expm1(shift) if is_loss else shift
    caveats: tuple[str, ...] = ()
    if settings.mode == "interval" and unseen > settings.budget > 0:
        share = (math.log1p(settings.budget) if is_loss else settings.budget) / damage
        needed = math.ceil(math.log(1 - settings.level) / math.log1p(-min(share, 0.999)))
        caveats = (f"{needed:,} windows are needed to rule out rare damage of {damage:g}",)
    return [
        measured_count(CHANGED, changed, n, direction="higher_is_better"),
        measured(UNSEEN, unseen, n=n, direction="lower_is_better", caveats=caveats),
    ]


def count_amounts(rows: Sequence[WindowPair], settings: OverheadSettings) -> list[Measurement]:
    """Return the number of windows, and how many tokens are missing to the minimum."""
    n = len(rows)
    if not n:
        reason = NO_WINDOWS()
        return [
            unmeasured(WINDOWS, reason, direction="higher_is_better", unit="count"),
            unmeasured(MISSING_TOKENS, reason, direction="lower_is_better", unit="count"),
        ]
    missing = 0
    if rows[0].basis == "loss":
        missing = max(0, settings.min_tokens - int(sum(row.weight for row in rows)))
    return [
        measured_count(WINDOWS, n, n, direction="higher_is_better"),
        measured_count(MISSING_TOKENS, missing, n),
    ]


def measure_floor(
    role: SecondRun,
    rows: Sequence[WindowPair],
    defects: Sequence[Defect],
    resampling: Resampling,
) -> tuple[Measurement, float | None]:
    """Return how far a second run is off: the outer end of its interval, and its centre."""
    name, arm = (NOISE, "bare") if role == "noise" else (REPEAT, "guarded")
    reason = NO_SECOND_RUN(arm=arm)
    if defects:
        failed = defects[0]
        reason = SECOND_RUN_UNPAIRED.word(
            f"the second {arm} run does not pair: {failed.check}: {failed.message}",
            arm=arm,
            check=failed.check,
            windows=failed.count,
        )
    again = [row.noise if role == "noise" else row.repeat for row in rows]
    if not rows or None in again:
        return unmeasured(name, reason, direction="lower_is_better"), None
    weights = np.array([row.weight for row in rows])
    first = np.array([row.bare if role == "noise" else row.guarded for row in rows])
    second = np.array(again, dtype=np.float64)
    found = measure_quality(rows[0].basis, weights, first, second, resampling).found
    if found is None:
        return unmeasured(name, SECOND_RUN_UNDEFINED(arm=arm), direction="lower_is_better"), None
    ends = [abs(found.overhead)]
    # Exact repetition means no noise; a bound for unseen windows is not about noise.
    interval = next(iter(found.other_intervals), found.interval)
    if interval is not None and np.any(found.shifts):
        ends += [abs(interval.low), abs(interval.high)]
    floor = measured(name, max(ends), n=len(rows), direction="lower_is_better")
    return floor, found.overhead
