"""Compare the latest windows with the fixed score of the version's sealed result."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.release.drift.judging.detector import Detector, KnownReading, Readings, SeriesSample
from gatemark.release.drift.judging.parts import values_of
from gatemark.statistics.change_point import correct_for_cuts
from gatemark.statistics.control_chart import (
    correlation_each,
    moments_each,
    normal_scores,
    widening_each,
)

Floats = NDArray[np.float64]

LATEST: Final = (1, 2, 4, 7)
"""Numbers of latest windows that are pooled and compared."""
LEAST_SPREAD: Final = 3
"""Minimum number of earlier windows for an estimate of the spread between windows."""
_MANY: Final = 1e9
"""Degrees of freedom if only sampling noise counts."""


class SealedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No options."""


def judge(sample: SeriesSample, options: SealedOptions) -> Readings:
    """Return the largest distance of the latest windows from the sealed score."""
    _ = options
    count = sample.items.shape[0]
    reference = np.full((count, 2), np.nan) if sample.reference is None else sample.reference
    sealed, sealed_items = reference[:, 0], reference[:, 1]
    spread = _Spread.of(sample)
    scores = np.asarray([_score(sample, reference, spread, latest) for latest in LATEST])
    at = np.argmax(np.abs(np.nan_to_num(scores)), axis=0)
    value = values_of(sample.form, sample.items, sample.current)
    is_known = np.isfinite(value) & np.isfinite(sealed) & (value >= 0) & (value <= 1)
    best = np.where(is_known, scores[at, np.arange(count)], np.nan)
    z, p_value = correct_for_cuts(best, np.full(count, _MANY), np.full(count, len(LATEST)))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = _pool_item_variance(reference, sample.items, sample.current[:, 0]) / sample.items
        sd = np.where(is_known, np.sqrt(np.maximum(noise, spread.sd**2)), np.nan)
        sigma = (value - sealed) / sd
    return Readings(
        value=value,
        mu=sealed,
        sd=sd,
        sigma=sigma,
        z=z,
        p_value=np.where(np.isfinite(z), p_value, np.nan),
        is_degenerate=np.zeros(count, dtype=bool),
        is_new=np.zeros(count, dtype=bool),
        is_material=np.ones(count, dtype=bool),
        extras={
            "sealed_items": sealed_items,
            "latest_windows": np.asarray(LATEST, dtype=np.float64)[at],
        },
    )


class _Spread(NamedTuple):
    """The spread between the earlier windows; zero if there are too few of them."""

    sd: Floats
    correlation: Floats
    windows: Floats

    @classmethod
    def of(cls, sample: SeriesSample) -> _Spread:
        values = values_of(sample.form, sample.baseline_items, sample.baseline)
        present = sample.baseline_items > 0
        moments = moments_each(values, present)
        residuals = np.where(present, values - moments.mean[:, None], 0.0)
        sd = np.where(moments.windows >= LEAST_SPREAD, moments.sd, 0.0)
        correlation = correlation_each(residuals, np.maximum(moments.windows, 1))
        return cls(sd, correlation, moments.windows)


def _pool_item_variance(reference: Floats, items: Floats, total: Floats) -> Floats:
    """Return the variance of one item, pooled over the sealed result and the windows.

    One success and one failure are added, so that a failure after a perfect score is possible.
    """
    sealed, sealed_items = reference[:, 0], reference[:, 1]
    rate = (sealed * sealed_items + total + 1) / (sealed_items + items + 2)
    return np.maximum(rate * (1 - rate), 0.0)


def _score(sample: SeriesSample, reference: Floats, spread: _Spread, latest: int) -> Floats:
    """Return the normal score of the latest windows, pooled."""
    items = sample.recent_items[:, -latest:].sum(axis=1)
    total = sample.recent[:, -latest:, 0].sum(axis=1)
    windows = (sample.recent_items[:, -latest:] > 0).sum(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        counting = _pool_item_variance(reference, items, total)
        noise = counting / items
        between = spread.sd**2 * widening_each(spread.correlation, windows) / windows
        whole = np.maximum(noise, between) + counting / reference[:, 1]
        t = (total / items - reference[:, 0]) / np.sqrt(whole)
    freedom = np.where(between > noise, np.maximum(spread.windows - 1, 1), _MANY)
    score, _ = normal_scores(t, freedom)
    return score


_SEALED: Final = (0.9, 400.0)
_RATE: Final = (360 + 180 + 1) / (400 + 200 + 2)

DETECTOR: Final = Detector(
    name="sealed",
    summary="The latest windows against the fixed score of the version's sealed result.",
    options=SealedOptions,
    forms=frozenset({"value", "k"}),
    judge=judge,
    recent=lambda _: LATEST[-1],
    is_self_starting=True,
    needs_reference=True,
    windows_per_look=4.0,
    formula=(
        f"For each j of {', '.join(map(str, LATEST))}: t_j = (x_j - s) / sqrt(max(v / n_j, "
        "b^2 w_j / j) + v / n_s), x_j the rate of the last j windows with n_j items, s the sealed "
        "score over n_s items, v = p(1 - p) with p the rate of both and one success and one "
        "failure, b the spread of the earlier windows (3 at least), w the widening by correlation "
        "of neighbours. p = min(1, number of j * p of the largest |t_j|), z its normal score."
    ),
    references=(
        "E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, "
        "Journal of the American Statistical Association 22, 1927",
        "D. C. Montgomery, Introduction to Statistical Quality Control, chapter 7",
    ),
    known=(
        KnownReading(
            title="the sealed score again, without any earlier window",
            form="k",
            baseline=((0.0, (0.0,)),),
            recent=((0.0, (0.0,)),) * 6 + ((200.0, (180.0,)),),
            reference=_SEALED,
            expected={
                "value": 0.9,
                "mu": 0.9,
                "sd": (_RATE * (1 - _RATE) / 200) ** 0.5,
                "sigma": 0,
                "z": 0,
                "p_value": 1,
            },
        ),
        KnownReading(
            title="a percentage is not a share, so that nothing can be said",
            form="value",
            baseline=((0.0, (0.0,)),),
            recent=((0.0, (0.0,)),) * 6 + ((200.0, (18_000.0,)),),
            reference=_SEALED,
            expected={"value": 90, "z": None, "p_value": None},
        ),
        KnownReading(
            title="no sealed score",
            form="k",
            baseline=((200.0, (180.0,)),) * 14,
            recent=((200.0, (180.0,)),) * 7,
            expected={"value": 0.9, "mu": None, "z": None},
        ),
    ),
)
