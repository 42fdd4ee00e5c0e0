"""M3 to M7b: what the summaries say, held against the trace. All over sets of concepts.

M5, M6a and M6b are shares of concepts WITHOUT support: lower is better, whatever their names in
other places suggest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gatemark.exams.runlog.records.metrics import (
    BUDGETS,
    THRESHOLDS,
    BudgetCoverage,
    ThresholdRates,
)

Concepts = frozenset[str]


def mean(values: Sequence[float]) -> float | None:
    """The plain mean; None of nothing."""
    return sum(values) / len(values) if values else None


def jaccard(left: Concepts, right: Concepts) -> float:
    """Shared concepts over all concepts; two empty sets share nothing."""
    union = left | right
    return len(left & right) / len(union) if union else 0.0


def consecutive_jaccards(summaries: Sequence[Concepts]) -> tuple[float, ...]:
    """M3: how much each summary repeats the one before it."""
    return tuple(jaccard(earlier, later) for earlier, later in pairwise(summaries))


def threshold_rates(jaccards: Sequence[float]) -> ThresholdRates:
    """M3: the share of neighbours at least this alike; null without neighbours."""
    return ThresholdRates(
        *(
            sum(value >= least for value in jaccards) / len(jaccards) if jaccards else None
            for least in THRESHOLDS
        )
    )


def covered(said: Concepts, trace: Concepts) -> float:
    """M4: the share of the trace's concepts that were said; 0 of a trace without concepts."""
    return len(said & trace) / len(trace) if trace else 0.0


def unsupported(said: Concepts, support: Concepts) -> float:
    """M5, M6: the share of what was said that has no support; 0 when nothing was said."""
    return len(said - support) / len(said) if said else 0.0


def covered_within(
    sizes: Sequence[int], summaries: Sequence[Concepts], trace: Concepts
) -> BudgetCoverage:
    """M7b: coverage by the summaries that fit a budget of text units.

    Only a prefix counts: the first summary that does not fit blocks those after it. A failed
    summary uses up its size and says nothing.
    """
    found: list[float] = []
    for budget in BUDGETS:
        said: set[str] = set()
        used = 0
        for size, concepts in zip(sizes, summaries, strict=True):
            used += size
            if used > budget:
                break
            said |= concepts
        found.append(covered(frozenset(said), trace))
    return BudgetCoverage(*found)


def union(summaries: Sequence[Concepts]) -> Concepts:
    """Everything that any summary said."""
    return frozenset().union(*summaries)
