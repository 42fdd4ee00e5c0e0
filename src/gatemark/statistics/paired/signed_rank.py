"""Wilcoxon's signed-rank test of paired differences."""

from __future__ import annotations

from collections.abc import Sequence


def signed_rank_p_value(differences: Sequence[float]) -> float | None:
    """The two-sided p-value that differences are as often and as far up as down.

    Pairs without a difference say nothing and are left out; None when that leaves none.
    """
    moved = [difference for difference in differences if difference != 0]
    if not moved:
        return None
    # Loading all of scipy's distributions costs more than most commands take.
    from scipy.stats import wilcoxon  # noqa: PLC0415

    # The exact distribution where ranks are not tied, and the normal one elsewhere.
    ranks_are_tied = len({abs(difference) for difference in moved}) < len(moved)
    method = "asymptotic" if ranks_are_tied or len(moved) > 50 else "exact"
    return float(wilcoxon(moved, method=method).pvalue)
