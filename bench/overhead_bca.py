"""The interval of the overhead bench, found by one of the two ways in this process."""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from bench.overhead import BATCH, RESAMPLES, SEED, windows
from gatemark.statistics.resampling.bootstrap import bca_ratio


def weighted(shifts: np.ndarray, tokens: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.asarray((shifts * tokens).sum(axis=axis) / tokens.sum(axis=axis))


def main(way: str) -> None:
    tokens, bare, guarded = windows()
    rng = np.random.default_rng(SEED)
    if way == "gatemark":
        bca_ratio((guarded - bare) * tokens, tokens, rng, resamples=RESAMPLES)
    elif way == "scipy":
        stats.bootstrap(
            (guarded - bare, tokens),
            weighted,
            paired=True,
            n_resamples=RESAMPLES,
            method="BCa",
            batch=BATCH,
            rng=rng,
        )


if __name__ == "__main__":
    main(sys.argv[1])
