"""Kullback-Leibler divergence of a histogram from its baseline, beyond sampling noise."""

from __future__ import annotations

from math import log
from typing import Annotated, Final

import msgspec
import numpy as np

from gatemark.release.drift.judging.detector import (
    Detector,
    KnownReading,
    Readings,
    SeriesSample,
    judge_values,
    make_readings,
)
from gatemark.statistics.control_chart import deviations_each, moments_each
from gatemark.statistics.histogram_distance import (
    js_each,
    kl_each,
    kl_null_mean_each,
    kl_null_sd_each,
)


class KlOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``smoothing`` is added to every bin; ``floor`` uses sampling noise as the minimum spread."""

    smoothing: Annotated[float, msgspec.Meta(gt=0, le=10)] = 0.5
    floor: bool = True


def judge(sample: SeriesSample, options: KlOptions) -> Readings:
    """Return the sigma of KL(current || baseline) less its null mean.

    Each baseline window is compared with the others without itself, as the judged window is. Points
    that are plain values are taken as divergences that were computed elsewhere.
    """
    if sample.form == "value":
        return judge_values(sample, has_floor=options.floor)
    bins = sample.baseline.shape[2]
    pool, pool_items = sample.baseline.sum(axis=1), sample.baseline_items.sum(axis=1)
    others = pool[:, None, :] - sample.baseline
    other_items = pool_items[:, None] - sample.baseline_items
    history = kl_each(sample.baseline, others, options.smoothing) - kl_null_mean_each(
        bins, sample.baseline_items, other_items
    )
    present = (sample.baseline_items > 0) & (other_items > 0)
    moments = moments_each(np.where(present, history, 0.0), present)
    divergence = kl_each(sample.current, pool, options.smoothing)
    value = divergence - kl_null_mean_each(bins, sample.items, pool_items)
    floor = kl_null_sd_each(bins, sample.items, pool_items) if options.floor else None
    extras = {"kl": divergence, "js": js_each(sample.current, pool)}
    return make_readings(value, moments.mean, deviations_each(value, moments, floor), extras)


_EVEN: Final = (100.0, (50.0, 50.0))
_NULL: Final = 0.5 * (1 / 100 + 1 / 300)
_SHARE: Final = 90.5 / 101

DETECTOR: Final = Detector(
    name="kl",
    summary="Sigma of the KL divergence of a histogram, less what it is by chance.",
    options=KlOptions,
    forms=frozenset({"histogram", "value"}),
    named_forms=frozenset({"value"}),
    judge=judge,
    formula=(
        "KL(c || b) = sum p log(p / q) in nats over fixed bins, p and q from counts + 0.5, "
        "less (K - 1)/2 (1/n_b + 1/n_c); sigma over the same of each baseline window against "
        "the others; floor sqrt((K - 1)/2) (1/n_b + 1/n_c). Jensen-Shannon is shown beside it."
    ),
    references=(
        "S. Kullback and R. A. Leibler, On Information and Sufficiency, "
        "Annals of Mathematical Statistics 22(1), 1951",
        "J. Lin, Divergence Measures Based on the Shannon Entropy, "
        "IEEE Transactions on Information Theory 37(1), 1991",
    ),
    known=(
        KnownReading(
            title="nine in ten after three even windows, spread by chance alone",
            form="histogram",
            baseline=(_EVEN,) * 3,
            recent=((100.0, (90.0, 10.0)),),
            expected={
                "value": _SHARE * log(_SHARE * 2) + (1 - _SHARE) * log((1 - _SHARE) * 2) - _NULL,
                "mu": -0.5 * (1 / 100 + 1 / 200),
                "sd": 0.5**0.5 * (1 / 100 + 1 / 300),
            },
        ),
        KnownReading(
            title="one baseline window has no others to compare with",
            form="histogram",
            baseline=(_EVEN,),
            recent=(_EVEN,),
            expected={"mu": None, "sd": None, "sigma": None, "z": None},
        ),
    ),
)
