"""The detector ``log_sigma``: the sigma probe on logarithms, for times that only grow."""

from __future__ import annotations

import msgspec
import numpy as np

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    judge_values,
)


class LogSigmaOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to set."""


def judge(sample: SeriesSample, _options: LogSigmaOptions) -> Readings:
    """Sigma of the logarithm of the judged window of each series."""
    return judge_values(
        sample._replace(
            baseline=_logarithms(sample.baseline_items, sample.baseline),
            recent=_logarithms(sample.recent_items, sample.recent),
        ),
        has_floor=False,
    )


def _logarithms(items: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Each window's sum, as if its mean were the logarithm of its mean."""
    count = np.maximum(items, 1)[..., None]
    return np.log(np.maximum(parts / count, 1e-9)) * items[..., None]


_DOUBLING = tuple((1.0, (value,)) for value in (1.0, 2.0, 4.0))

DETECTOR = Detector(
    name="log_sigma",
    summary="Distance from the baseline mean of the logarithms, in their standard deviations.",
    options=LogSigmaOptions,
    forms=frozenset({"value"}),
    judge=judge,
    formula="sigma = (log x - mean(log b)) / sd(log b), sd with ddof 1",
    references=("The sigma probe of Gatemark, on logarithms",),
    known=(
        KnownReading(
            title="eight after one, two, four is two steps of log 2 above log 2",
            form="value",
            baseline=_DOUBLING,
            recent=((1.0, (8.0,)),),
            expected={"sigma": 2.0},
        ),
    ),
)
