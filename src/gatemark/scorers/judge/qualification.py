"""Whether a judge may gate: its agreement with people on the same items, by lower bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from gatemark.core.canonical import is_digest
from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.core.reason import Reason, ReasonKind
from gatemark.scorers.scorer import JudgeQualification
from gatemark.statistics.contingency import (
    Counts,
    affordable_resamples,
    build_confusion,
    cohen_kappa,
    cohen_kappa_each,
    gwet_ac1,
    gwet_ac1_each,
    kappa_analytic_interval,
    multinomial_bootstrap,
)

DEFAULT_GATE: Final = 0.6
MIN_ITEMS: Final = 50
"""With fewer items, intervals of kappa do not reach their nominal coverage."""
MIN_USES: Final = 10
"""Minimum uses of the second most frequent label, over both raters, for a reliable kappa."""
LEVEL: Final = 0.95
BOOTSTRAP_SEED: Final = 20_261_102
NO_GRADE: Final = "(no grade)"
TOO_FEW_LABELLED: Final = ReasonKind(
    "too_few_labelled", "judge.items must be >= {needed}, got {n} labelled by people"
)
SECOND_LABEL_RARE: Final = ReasonKind(
    "second_label_rare", "judge.second_label_uses must be >= {needed}, got {seen} (n={n})"
)
NO_AGREEMENT_BOUND: Final = ReasonKind(
    "no_agreement_bound", "judge.{metric} has no lower bound (n={n})"
)
AGREEMENT_TOO_LOW: Final = ReasonKind(
    "agreement_too_low",
    "judge.{metric} lower bound must be >= {needed:g}, got {low:.4f} (n={n})",
)


def judge_agreement(
    judge_labels: Mapping[str, str | None],
    human_labels: Mapping[str, str],
    *,
    judge: str,
    gate: float = DEFAULT_GATE,
    min_items: int = MIN_ITEMS,
    seed: int = BOOTSTRAP_SEED,
) -> JudgeQualification:
    """Return the qualification of the judge whose identity has the digest ``judge``.

    Labels are by item id. Every item that a person labelled counts: if the judge gave no label,
    that is a disagreement. The judge is qualified if the lower bounds of both kappa and AC1 reach
    ``gate``. A set in which almost every item has one label qualifies no judge, however high the
    agreement: a judge that always says the same would pass it.
    """
    if not is_digest(judge):
        raise InvalidValueError(f"judge must be the digest of its identity, got {judge!r}")
    if not 0 < gate <= 1:
        raise InvalidValueError(f"gate must be in (0, 1], got {gate}")
    if NO_GRADE in human_labels.values():
        raise InvalidValueError(f"{NO_GRADE!r} is not a label that a person may give")
    table = _count_table(judge_labels, human_labels)
    n = int(table.sum())
    kappa, ac1 = cohen_kappa(table), gwet_ac1(table, label_space="table")
    kappa_low, ac1_low = _bound_kappa(table, seed), _bound_ac1(table, seed)
    reason = _find_objection(table, n, kappa_low, ac1_low, gate=gate, min_items=min_items)
    return JudgeQualification(
        judge=judge,
        n=n,
        kappa=kappa.value,
        kappa_low=kappa_low,
        ac1=ac1.value,
        ac1_low=ac1_low,
        gate=gate,
        allowed=reason is None,
        reason=reason,
    )


def _count_table(judge_labels: Mapping[str, str | None], human_labels: Mapping[str, str]) -> Counts:
    cells: dict[str, dict[str, int]] = {}
    for item, human in human_labels.items():
        row = cells.setdefault(judge_labels.get(item) or NO_GRADE, {})
        row[human] = row.get(human, 0) + 1
    return build_confusion(cells)[1]


def _bound_kappa(table: Counts, seed: int) -> float | None:
    """Return the lower of the analytic and bootstrap bounds: each can be too narrow."""
    bootstrap = multinomial_bootstrap(
        table,
        cohen_kappa_each,
        resamples=affordable_resamples(table),
        seed=seed,
        level=LEVEL,
    )
    return _find_lowest(kappa_analytic_interval(table, LEVEL).interval, bootstrap.interval)


def _bound_ac1(table: Counts, seed: int) -> float | None:
    bootstrap = multinomial_bootstrap(
        table,
        lambda tables: gwet_ac1_each(tables, "table"),
        resamples=affordable_resamples(table),
        seed=seed,
        level=LEVEL,
    )
    return _find_lowest(bootstrap.interval)


def _find_lowest(*intervals: Interval | None) -> float | None:
    lows = [interval.low for interval in intervals if interval is not None]
    return min(lows) if len(lows) == len(intervals) else None


def _find_objection(
    table: Counts,
    n: int,
    kappa_low: float | None,
    ac1_low: float | None,
    *,
    gate: float,
    min_items: int,
) -> Reason | None:
    """Return why the judge may not gate, or None."""
    if n < min_items:
        return TOO_FEW_LABELLED(needed=min_items, n=n)
    uses = np.sort(table.sum(axis=0) + table.sum(axis=1))
    if uses.size < 2 or uses[-2] < MIN_USES:
        seen = 0 if uses.size < 2 else int(uses[-2])
        return SECOND_LABEL_RARE(needed=MIN_USES, seen=seen, n=n)
    for name, low in (("kappa", kappa_low), ("ac1", ac1_low)):
        if low is None:
            return NO_AGREEMENT_BOUND(metric=name, n=n)
        if low < gate:
            return AGREEMENT_TOO_LOW(metric=name, needed=gate, low=low, n=n)
    return None
