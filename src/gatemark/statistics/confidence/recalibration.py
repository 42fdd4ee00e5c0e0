"""Recalibrate confidences by temperature or isotonic regression, if it helps on held-out items."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.confidence.calibration import group_items, pool_adjacent_violators
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES, BcaInterval, bca_mean

Floats = NDArray[np.float64]
Kind = Literal["temperature", "isotonic"]

# A confidence of exactly 0 or 1 has no finite log-odds; this much is added or removed.
CLIP = 1e-6
LEVEL = 0.95
TEMPERATURE_RANGE = (0.05, 20.0)
MIN_ITEMS: dict[Kind, int] = {"temperature": 100, "isotonic": 1000}


class TemperatureMap(msgspec.Struct, frozen=True, tag="temperature"):
    """Divides log-odds by one number; keeps the ranking."""

    temperature: float

    def apply(self, confidence: ArrayLike) -> Floats:
        """Return the recalibrated confidences."""
        return np.asarray(scipy.special.expit(_log_odds(confidence) / self.temperature))


class IsotonicMap(msgspec.Struct, frozen=True, tag="isotonic"):
    """A nondecreasing piecewise linear map; constant beyond both ends."""

    confidence: tuple[float, ...]
    rate: tuple[float, ...]

    def apply(self, confidence: ArrayLike) -> Floats:
        """Return the recalibrated confidences."""
        return np.interp(np.asarray(confidence, dtype=np.float64), self.confidence, self.rate)


class Refit(msgspec.Struct, frozen=True):
    """A recalibration map and whether it is accepted.

    ``gain`` bounds the improvement of the Brier score on held-out items; null if there were too few
    items to try.
    """

    kind: Kind
    is_accepted: bool
    reason: str
    fitted_items: int
    held_out_items: int
    mending: TemperatureMap | IsotonicMap | None
    gain: BcaInterval | None


def fit_temperature(confidence: ArrayLike, correct: ArrayLike) -> TemperatureMap:
    """Return the temperature with the least log loss inside ``TEMPERATURE_RANGE``."""
    x, y = _log_odds(confidence), np.asarray(correct, dtype=np.float64)
    low, high = (math.log(t) for t in TEMPERATURE_RANGE)
    for _ in range(60):
        middle = (low + high) / 2
        # Log loss is convex in the inverse temperature; this is its slope there.
        slope = float((x * (scipy.special.expit(x * math.exp(-middle)) - y)).sum())
        if slope > 0:
            low = middle
        else:
            high = middle
    return TemperatureMap(math.exp((low + high) / 2))


def fit_isotonic(confidence: ArrayLike, correct: ArrayLike) -> IsotonicMap:
    """Return the nondecreasing map with the least squared error."""
    groups = group_items(confidence, correct)
    rates = pool_adjacent_violators(groups.correct.tolist(), groups.items.tolist())
    is_corner = np.ones(rates.size, dtype=bool)
    is_corner[1:-1] = (rates[1:-1] != rates[:-2]) | (rates[1:-1] != rates[2:])
    return IsotonicMap(
        tuple(groups.confidence[is_corner].tolist()), tuple(rates[is_corner].tolist())
    )


def judge_refit(
    kind: Kind,
    confidence: ArrayLike,
    correct: ArrayLike,
    rng: np.random.Generator,
    *,
    held_out_share: float = 0.5,
    resamples: int = DEFAULT_RESAMPLES,
) -> Refit:
    """Fit on a random part; accept if the Brier score on the rest clearly improves."""
    c, y = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if c.ndim != 1 or c.shape != y.shape:
        raise InvalidValueError("a refit needs one outcome per confidence")
    if not 0 < held_out_share < 1:
        raise InvalidValueError(f"held_out_share must be inside (0, 1), got {held_out_share}")
    order = rng.permutation(c.size)
    held_out_count = round(c.size * held_out_share)
    held_out, fitted = order[:held_out_count], order[held_out_count:]
    if fitted.size < MIN_ITEMS[kind] or not held_out.size:
        reason = (
            f"{kind} needs >= {MIN_ITEMS[kind]} items to fit and some to check,"
            f" got {fitted.size} and {held_out.size}"
        )
        return Refit(
            kind=kind,
            is_accepted=False,
            reason=reason,
            fitted_items=fitted.size,
            held_out_items=held_out.size,
            mending=None,
            gain=None,
        )
    fit = fit_temperature if kind == "temperature" else fit_isotonic
    mending = fit(c[fitted], y[fitted])
    before = (c[held_out] - y[held_out]) ** 2
    after = (mending.apply(c[held_out]) - y[held_out]) ** 2
    gain = bca_mean(before - after, rng, level=LEVEL, resamples=resamples)
    is_accepted = gain.low > 0
    verb = "falls" if is_accepted else "does not clearly fall"
    reason = (
        f"held-out Brier score {verb}: gain {gain.estimate:.4g} [{gain.low:.4g}, {gain.high:.4g}]"
    )
    return Refit(
        kind=kind,
        is_accepted=is_accepted,
        reason=reason,
        fitted_items=fitted.size,
        held_out_items=held_out.size,
        mending=mending,
        gain=gain,
    )


def _log_odds(confidence: ArrayLike) -> Floats:
    c = np.asarray(confidence, dtype=np.float64)
    return np.asarray(scipy.special.logit(np.clip(c, CLIP, 1 - CLIP)))
