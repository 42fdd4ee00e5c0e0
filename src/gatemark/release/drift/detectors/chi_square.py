"""The chi-square test of homogeneity: whether classes occur as often as in the baseline."""

from __future__ import annotations

import math
from typing import Annotated, Final

import msgspec
import numpy as np
import scipy

from gatemark.release.drift.judging.detector import Detector, KnownReading, Readings, SeriesSample
from gatemark.statistics.two_samples import (
    SMALLEST_EXPECTED,
    balanced_v_each,
    chi_square_each,
    chi_square_p_each,
    compare_two_samples,
)

SMALLEST_P: Final = 1e-300
UNDOUBTED_P: Final = 0.2


class ChiSquareOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``min_effect`` is the minimum Cramer's V; ``tables`` and ``seed`` are for simulation."""

    min_effect: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    tables: Annotated[int, msgspec.Meta(ge=99, le=99_999)] = 999
    seed: Annotated[int, msgspec.Meta(ge=0)] = 7


def judge(sample: SeriesSample, options: ChiSquareOptions) -> Readings:
    """Return the p-value of each window's class counts against its pooled baseline."""
    pool = sample.baseline.sum(axis=1)
    current = sample.current
    statistic, df, v, least = chi_square_each(current, pool)
    p_value = chi_square_p_each(statistic, df)
    balanced_v = balanced_v_each(current, pool)
    is_material = (np.maximum(v, balanced_v) >= options.min_effect) & (df > 0)
    # Simulate only where it can matter: a large effect, and a p-value near a threshold.
    doubtful = is_material & (least < SMALLEST_EXPECTED) & (p_value < UNDOUBTED_P)
    for row in np.flatnonzero(doubtful):
        rng = np.random.default_rng(options.seed)
        p_value[row] = compare_two_samples(
            current[row], pool[row], rng, tables=options.tables
        ).p_value
    empty = (sample.items <= 0) | (pool.sum(axis=1) <= 0)
    p_value = np.where(empty, np.nan, p_value)
    z = np.where(empty, np.nan, -scipy.special.ndtri(np.maximum(p_value, SMALLEST_P) / 2))
    unseen = (current > 0) & (pool == 0)
    missing = np.full(z.shape, np.nan)
    return Readings(
        value=np.where(empty, np.nan, statistic),
        mu=missing,
        sd=missing,
        sigma=missing,
        z=z,
        p_value=p_value,
        is_degenerate=np.zeros(z.shape, dtype=bool),
        is_new=unseen.any(axis=1) & ~empty,
        is_material=is_material,
        extras={"cramers_v": v, "balanced_v": balanced_v, "df": df},
    )


DETECTOR: Final = Detector(
    name="chi_square",
    summary="Whether classes occur as often as in the baseline; a new class is reported.",
    options=ChiSquareOptions,
    forms=frozenset({"categories"}),
    judge=judge,
    is_directed=False,
    formula=(
        "X2 = sum (observed - expected)^2 / expected over the 2 x K table of current and summed "
        "baseline counts, K - 1 degrees of freedom, no continuity correction; V = sqrt(X2 / N). "
        "A change matters when V, or V as if both rows had the same volume, is at least 0.1. "
        "With an expected count below 5: Fisher's exact test for K = 2, else (1 + hits)/(1 + R) "
        "over R tables with the same margins."
    ),
    references=(
        "K. Pearson, On the criterion that a given system of deviations ... "
        "Philosophical Magazine 50, 1900",
        "H. Cramer, Mathematical Methods of Statistics, 1946",
        "A. C. A. Hope, A Simplified Monte Carlo Significance Test Procedure, "
        "Journal of the Royal Statistical Society B 30(3), 1968",
    ),
    known=(
        KnownReading(
            title="60 to 40 after 500 to 500",
            form="categories",
            baseline=((500.0, (250.0, 250.0)),) * 2,
            recent=((100.0, (60.0, 40.0)),),
            expected={
                "value": 100 / (1100 * (560 / 1100) * (540 / 1100)) * 10,
                "p_value": math.erfc(math.sqrt(1000 / (1100 * (56 / 110) * (54 / 110)) / 2)),
                "sigma": None,
                "is_new": False,
                "is_material": True,
            },
        ),
        KnownReading(
            title="a class that the baseline never had",
            form="categories",
            baseline=((100.0, (60.0, 40.0, 0.0)),) * 3,
            recent=((100.0, (60.0, 39.0, 1.0)),),
            expected={"is_new": True, "is_material": False},
        ),
        KnownReading(
            title="one class only",
            form="categories",
            baseline=((100.0, (100.0,)),) * 3,
            recent=((50.0, (50.0,)),),
            expected={"value": 0, "p_value": 1, "z": 0, "is_new": False, "is_material": False},
        ),
    ),
)
