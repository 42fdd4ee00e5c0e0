from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

from gatemark.statistics.paired.permutation import signed_rank_p_value


def enumerated(differences: list[float]) -> float:
    """The two-sided p-value by trying every assignment of signs to the ranks."""
    ranks = rankdata(np.abs(differences))
    centre = ranks.sum() / 2
    observed = abs(ranks[np.array(differences) > 0].sum() - centre)
    sums = [
        sum(rank for rank, up in zip(ranks, signs, strict=True) if up)
        for signs in product((False, True), repeat=len(ranks))
    ]
    return float(np.mean([abs(total - centre) >= observed - 1e-9 for total in sums]))


@pytest.mark.parametrize(
    "differences",
    [[1.0, 2.0, 3.0, 4.0, 5.0], [0.1, -0.2, 0.3, -0.4, 0.5, 0.7], [-3.0, 1.0, -2.0]],
)
def test_a_few_untied_differences_are_counted_out(differences: list[float]) -> None:
    assert signed_rank_p_value(differences) == pytest.approx(enumerated(differences))


def test_pairs_without_a_difference_say_nothing() -> None:
    assert signed_rank_p_value([0.0, 0.0]) is None
    assert signed_rank_p_value([]) is None
    assert signed_rank_p_value([0.0, 1.0, 2.0, -4.0]) == signed_rank_p_value([1.0, 2.0, -4.0])


def test_tied_differences_are_judged_by_the_normal_distribution() -> None:
    differences = [0.25, 0.25, -0.25, 0.5, 0.5, 0.5, 0.75, 0.25]
    assert signed_rank_p_value(differences) == pytest.approx(enumerated(differences), abs=0.04)
