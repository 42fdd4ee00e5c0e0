"""The deltas of the comparison, resampled by one of the two ways in this process."""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from bench.compare import RESAMPLES, SEED, scores
from gatemark.statistics.paired.comparison import compare_deltas


def main(way: str, batch: int) -> None:
    base, cand = scores(graded=True)
    deltas = cand - base
    rng = np.random.default_rng(SEED)
    if way == "gatemark":
        compare_deltas(deltas, rng, resamples=RESAMPLES)
    elif way == "scipy":
        stats.bootstrap(
            (deltas,), np.mean, n_resamples=RESAMPLES, method="BCa", batch=batch, rng=rng
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
