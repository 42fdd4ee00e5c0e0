"""Agreement of two raters: percent agreement, Cohen's kappa and Gwet's AC1 with intervals.

An item is the pair of labels (first rater's, second rater's).
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Interval, Measurement, measured, rate, unmeasured
from gatemark.statistics.contingency import (
    Counts,
    affordable_resamples,
    cohen_kappa,
    cohen_kappa_each,
    confusion,
    gwet_ac1,
    gwet_ac1_each,
    kappa_analytic_interval,
    labels_of,
    multinomial_bootstrap,
)
from gatemark.statistics.proportion import wilson, zero_width_caveat

BOOTSTRAP_SEED = 20_261_101
"""Fixed, so that the same counts give the same intervals on every run."""
LEVEL = 0.95
MAX_LABELS = 256
"""More distinct labels than this are free text, not categories."""
LOW_INFORMATION_USES = 10

_Pair = tuple[str, str]


class AgreementState(msgspec.Struct):
    """How often each pair of labels occurred: ``cells[first][second]``."""

    cells: dict[str, dict[str, int]] = {}


def _step(state: AgreementState, batch: Batch) -> AgreementState:
    """Count a batch into ``state`` itself: a copy would cost more than the counting."""
    cells = state.cells
    has_new_cells = False
    for (first, second), count in Counter(batch).items():
        try:
            cells[first][second] += count
        except KeyError:
            cells.setdefault(first, {})[second] = count
            has_new_cells = True
    return _bounded(state) if has_new_cells else state


def _merge(left: AgreementState, right: AgreementState) -> AgreementState:
    cells = {first: row.copy() for first, row in left.cells.items()}
    for first, counts in right.cells.items():
        row = cells.setdefault(first, {})
        for second, count in counts.items():
            row[second] = row.get(second, 0) + count
    return _bounded(AgreementState(cells))


def _bounded(state: AgreementState) -> AgreementState:
    label_count = len(labels_of(state.cells))
    if label_count > MAX_LABELS:
        raise BadInputError(f"agreement takes at most {MAX_LABELS} labels, got {label_count}")
    return state


def _finish(state: AgreementState) -> tuple[Measurement, ...]:
    _, table = confusion(state.cells)
    n = int(table.sum())
    agreed_count = int(np.trace(table))
    return (
        rate(
            "percent_agreement",
            agreed_count,
            n,
            direction="higher_is_better",
            interval=_wilson_interval(agreed_count, n),
        ),
        _kappa(table, n),
        _ac1(table, n),
    )


def _wilson_interval(count: int, n: int) -> Interval | None:
    if n == 0:
        return None
    low, high = wilson(count, n, LEVEL)
    return Interval(low=low, high=high, level=LEVEL, method="wilson")


def _kappa(table: Counts, n: int) -> Measurement:
    kappa = cohen_kappa(table)
    caveats = ("low_information",) if n and _is_low_information(table) else ()
    if kappa.value is None:
        return unmeasured(
            "kappa", str(kappa.reason), n=n, direction="higher_is_better", caveats=caveats
        )
    analytic = kappa_analytic_interval(table, LEVEL).interval
    bootstrap = multinomial_bootstrap(
        table,
        cohen_kappa_each,
        resamples=affordable_resamples(table),
        seed=BOOTSTRAP_SEED,
        level=LEVEL,
    )
    return measured(
        "kappa",
        kappa.value,
        n=n,
        direction="higher_is_better",
        interval=analytic,
        other_intervals=() if bootstrap.interval is None else (bootstrap.interval,),
        caveats=tuple(dict.fromkeys((*caveats, *zero_width_caveat(analytic), *bootstrap.caveats))),
    )


def _ac1(table: Counts, n: int) -> Measurement:
    # The table holds the labels that occur, and a redraw keeps that label space.
    ac1 = gwet_ac1(table, label_space="table")
    if ac1.value is None:
        return unmeasured("ac1", str(ac1.reason), n=n, direction="higher_is_better")
    bootstrap = multinomial_bootstrap(
        table,
        lambda tables: gwet_ac1_each(tables, "table"),
        resamples=affordable_resamples(table),
        seed=BOOTSTRAP_SEED,
        level=LEVEL,
    )
    return measured(
        "ac1",
        ac1.value,
        n=n,
        direction="higher_is_better",
        interval=bootstrap.interval,
        caveats=bootstrap.caveats,
    )


def _is_low_information(table: Counts) -> bool:
    uses = np.sort(table.sum(axis=0) + table.sum(axis=1))
    return uses.size < 2 or bool(uses[-2] < LOW_INFORMATION_USES)


def _pairs(*cells: tuple[str, str, int]) -> tuple[_Pair, ...]:
    return tuple((first, second) for first, second, count in cells for _ in range(count))


MEASURE: Measure[AgreementState] = Measure(
    name="agreement",
    summary="How far two raters give the same items the same labels, beyond chance as well.",
    state=AgreementState,
    zero=AgreementState,
    step=_step,
    merge=_merge,
    counted=True,
    finish=_finish,
    gives=("percent_agreement", "kappa", "ac1"),
    known=(
        KnownAnswer(
            title=(
                "20 5 / 10 15: PA 35/50; p_e = (25*30 + 25*20)/2500 = .5, kappa .2/.5; "
                "pi = .55, .45, p_e = 2*.55*.45 = .495, AC1 .205/.505"
            ),
            batch=_pairs(("A", "A", 20), ("A", "B", 5), ("B", "A", 10), ("B", "B", 15)),
            expected={"percent_agreement": 0.7, "kappa": 0.4, "ac1": 0.205 / 0.505},
        ),
        KnownAnswer(
            title=(
                "118 5 / 2 0, skewed: PA 118/125; p_e = (123*120 + 2*5)/15625 = .94528, "
                "kappa -.00128/.05472; pi = .972, .028, p_e = .054432, AC1 .889568/.945568"
            ),
            batch=_pairs(("yes", "yes", 118), ("yes", "no", 5), ("no", "yes", 2)),
            expected={
                "percent_agreement": 0.944,
                "kappa": -0.00128 / 0.05472,
                "ac1": 0.889568 / 0.945568,
            },
        ),
        KnownAnswer(
            title=(
                "one constant rater, 3 1 / 0 0: PA 3/4 = p_e, so kappa is 0; "
                "pi = .875, .125, p_e = .21875, AC1 .53125/.78125 = .68"
            ),
            batch=_pairs(("A", "A", 3), ("A", "B", 1)),
            expected={"percent_agreement": 0.75, "kappa": 0.0, "ac1": 0.68},
        ),
        KnownAnswer(
            title="50 of 50 agree on one label: p_e = 1, kappa is 0/0 and has a reason; AC1 is 1",
            batch=_pairs(("VALID", "VALID", 50)),
            expected={"percent_agreement": 1.0, "kappa": None, "ac1": 1.0},
        ),
        KnownAnswer(
            title="no items: three reasons",
            batch=(),
            expected={"percent_agreement": None, "kappa": None, "ac1": None},
        ),
    ),
)
