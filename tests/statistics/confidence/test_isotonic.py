from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.confidence.calibration import pool_adjacent_violators


def test_the_fit_is_that_of_sklearn():
    rng = np.random.default_rng(1)
    for _ in range(250):
        groups = int(rng.integers(1, 60))
        trials = rng.integers(1, 20, groups)
        hits = rng.binomial(trials, rng.random(groups))
        theirs = IsotonicRegression().fit_transform(
            np.arange(groups), hits / trials, sample_weight=trials
        )
        ours = pool_adjacent_violators(hits.tolist(), trials.tolist())
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_fit_never_falls_and_keeps_the_total():
    rng = np.random.default_rng(2)
    trials = rng.integers(1, 9, 500)
    hits = rng.binomial(trials, 0.5)
    fit = pool_adjacent_violators(hits.tolist(), trials.tolist())
    assert np.all(np.diff(fit) >= 0)
    assert (fit * trials).sum() == pytest.approx(hits.sum())


def test_no_groups_give_no_fit():
    assert pool_adjacent_violators([], []).size == 0


@pytest.mark.parametrize(("hits", "trials"), [([1], []), ([2], [1]), ([-1], [1]), ([0], [0])])
def test_impossible_counts_are_refused(hits, trials):
    with pytest.raises(InvalidValueError):
        pool_adjacent_violators(hits, trials)
