"""The measures of agreement, each with intervals and known answers.

An item is the tuple of its raters' labels. ``krippendorff`` takes any number of raters, with
``None`` for one who did not rate the item; the other measures take two.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from gatemark.checks.agreement.label_use import LABEL_MINS, LabelUse, label_uses
from gatemark.checks.agreement.records import ABSTAIN
from gatemark.core.errors import BadInputError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Interval, Measurement, measured, rate, unmeasured
from gatemark.core.reason import ReasonKind, find_reason
from gatemark.statistics.contingency import (
    Counts,
    EachStatistic,
    affordable_resamples,
    build_confusion,
    cohen_kappa,
    cohen_kappa_each,
    gwet_ac1,
    gwet_ac1_each,
    kappa_analytic_interval,
    list_labels,
    multinomial_bootstrap,
    nominal_alpha,
    nominal_alpha_each,
)
from gatemark.statistics.proportion import Bootstrap, wilson_interval, zero_width_caveat

BOOTSTRAP_SEED = 20_261_101
"""Fixed, so that the same counts give the same intervals on every run."""
LEVEL = 0.95
MAX_LABELS = 256
"""More distinct labels than this are free text, not categories."""
LOW_INFORMATION_USES = 10
NO_LABEL: Final = ReasonKind("no_label", "no item has a label")

_Pair = tuple[str, str]


class AgreementState(msgspec.Struct):
    """How often each pair of labels occurred: ``cells[first][second]``."""

    cells: dict[str, dict[str, int]] = {}


def _count_pairs(state: AgreementState, batch: Batch) -> AgreementState:
    """Count a batch into ``state`` itself; copying would cost more than counting."""
    cells = state.cells
    has_new_cells = False
    for (first, second), count in Counter(batch).items():
        try:
            cells[first][second] += count
        except KeyError:
            cells.setdefault(first, {})[second] = count
            has_new_cells = True
    return _check_pair_bound(state) if has_new_cells else state


def _merge_pairs(left: AgreementState, right: AgreementState) -> AgreementState:
    cells = {first: row.copy() for first, row in left.cells.items()}
    for first, counts in right.cells.items():
        row = cells.setdefault(first, {})
        for second, count in counts.items():
            row[second] = row.get(second, 0) + count
    return _check_pair_bound(AgreementState(cells))


def _check_pair_bound(state: AgreementState) -> AgreementState:
    label_count = len(list_labels(state.cells))
    if label_count > MAX_LABELS:
        raise BadInputError(f"agreement takes at most {MAX_LABELS} labels, got {label_count}")
    return state


def _measure_agreement(state: AgreementState) -> tuple[Measurement, ...]:
    _, table = build_confusion(state.cells)
    n = int(table.sum())
    agreed_count = int(np.trace(table))
    return (
        rate(
            "percent_agreement",
            agreed_count,
            n,
            direction="higher_is_better",
            interval=_compute_wilson(agreed_count, n),
        ),
        _measure_kappa(table, n),
        _measure_ac1(table, n),
    )


def _compute_wilson(count: int, n: int) -> Interval | None:
    if n == 0:
        return None
    low, high = wilson_interval(count, n, LEVEL)
    return Interval(low=low, high=high, level=LEVEL, method="wilson")


def _measure_kappa(table: Counts, n: int) -> Measurement:
    kappa = cohen_kappa(table)
    caveats = ("low_information",) if n and _is_low_information(table) else ()
    if kappa.value is None:
        return unmeasured(
            "kappa", find_reason(kappa), n=n, direction="higher_is_better", caveats=caveats
        )
    analytic = kappa_analytic_interval(table, LEVEL).interval
    bootstrap = _run_bootstrap(table, cohen_kappa_each, BOOTSTRAP_SEED)
    return measured(
        "kappa",
        kappa.value,
        n=n,
        direction="higher_is_better",
        interval=analytic,
        other_intervals=() if bootstrap.interval is None else (bootstrap.interval,),
        caveats=tuple(dict.fromkeys((*caveats, *zero_width_caveat(analytic), *bootstrap.caveats))),
    )


def _measure_ac1(table: Counts, n: int) -> Measurement:
    # The table has the labels that occur; resampling keeps this label space.
    ac1 = gwet_ac1(table, label_space="table")
    if ac1.value is None:
        return unmeasured("ac1", find_reason(ac1), n=n, direction="higher_is_better")
    bootstrap = _run_bootstrap(table, lambda tables: gwet_ac1_each(tables, "table"), BOOTSTRAP_SEED)
    return measured(
        "ac1",
        ac1.value,
        n=n,
        direction="higher_is_better",
        interval=bootstrap.interval,
        caveats=bootstrap.caveats,
    )


def _run_bootstrap(counts: Counts, statistic: EachStatistic, seed: int) -> Bootstrap:
    return multinomial_bootstrap(
        counts, statistic, resamples=affordable_resamples(counts), seed=seed, level=LEVEL
    )


def _is_low_information(table: Counts) -> bool:
    uses = np.sort(table.sum(axis=0) + table.sum(axis=1))
    return uses.size < 2 or bool(uses[-2] < LOW_INFORMATION_USES)


def _list_pairs(*cells: tuple[str, str, int]) -> tuple[_Pair, ...]:
    return tuple((first, second) for first, second, count in cells for _ in range(count))


AGREEMENT: Measure[AgreementState] = Measure(
    name="agreement",
    summary="How far two raters give the same items the same labels, beyond chance as well.",
    state=AgreementState,
    zero=AgreementState,
    step=_count_pairs,
    merge=_merge_pairs,
    counted=True,
    finish=_measure_agreement,
    gives=("percent_agreement", "kappa", "ac1"),
    known=(
        KnownAnswer(
            title=(
                "20 5 / 10 15: PA 35/50; p_e = (25*30 + 25*20)/2500 = .5, kappa .2/.5; "
                "pi = .55, .45, p_e = 2*.55*.45 = .495, AC1 .205/.505"
            ),
            batch=_list_pairs(("A", "A", 20), ("A", "B", 5), ("B", "A", 10), ("B", "B", 15)),
            expected={"percent_agreement": 0.7, "kappa": 0.4, "ac1": 0.205 / 0.505},
        ),
        KnownAnswer(
            title=(
                "118 5 / 2 0, skewed: PA 118/125; p_e = (123*120 + 2*5)/15625 = .94528, "
                "kappa -.00128/.05472; pi = .972, .028, p_e = .054432, AC1 .889568/.945568"
            ),
            batch=_list_pairs(("yes", "yes", 118), ("yes", "no", 5), ("no", "yes", 2)),
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
            batch=_list_pairs(("A", "A", 3), ("A", "B", 1)),
            expected={"percent_agreement": 0.75, "kappa": 0.0, "ac1": 0.68},
        ),
        KnownAnswer(
            title="50 of 50 agree on one label: p_e = 1, kappa is 0/0 and has a reason; AC1 is 1",
            batch=_list_pairs(("VALID", "VALID", 50)),
            expected={"percent_agreement": 1.0, "kappa": None, "ac1": 1.0},
        ),
        KnownAnswer(
            title="no items: three reasons",
            batch=(),
            expected=dict.fromkeys(("percent_agreement", "kappa", "ac1")),
        ),
    ),
)


def _label_agreement(state: AgreementState) -> tuple[Measurement, ...]:
    """Find the worst label. Abstentions are not judgements and have their own rate."""
    cells = {(one, other): n for one, row in state.cells.items() for other, n in row.items()}
    uses = {label: use for label, use in label_uses(cells).items() if label != ABSTAIN}
    if not uses:
        return tuple(
            unmeasured(name, NO_LABEL(), direction="higher_is_better") for name in LABEL_MINS
        )
    by_value = min(uses, key=lambda label: (uses[label].agreement, uses[label].interval.high))
    by_upper = min(uses, key=lambda label: uses[label].interval.high)
    return (
        _measure_worst("label_agreement_min", uses[by_value].agreement, by_value, uses[by_value]),
        _measure_worst(
            "label_agreement_upper_min", uses[by_upper].interval.high, by_upper, uses[by_upper]
        ),
    )


def _measure_worst(name: str, value: float, label: str, use: LabelUse) -> Measurement:
    return measured(
        name,
        value,
        n=use.n,
        direction="higher_is_better",
        interval=use.interval if name == "label_agreement_min" else None,
        caveats=(f"worst in {label}",),
    )


LABEL_AGREEMENT: Measure[AgreementState] = Measure(
    name="label_agreement",
    summary="Agreement on the label that two raters agree on least.",
    state=AgreementState,
    zero=AgreementState,
    step=_count_pairs,
    merge=_merge_pairs,
    counted=True,
    finish=_label_agreement,
    gives=LABEL_MINS,
    known=(
        KnownAnswer(
            title=(
                "20 5 / 10 15: A 2*20/(25+30), B 2*15/(25+20) is less; the upper end for B: "
                "15 of 30 by Wilson is .668459, 2*.668459/1.668459"
            ),
            batch=_list_pairs(("A", "A", 20), ("A", "B", 5), ("B", "A", 10), ("B", "B", 15)),
            expected={
                "label_agreement_min": 2 / 3,
                "label_agreement_upper_min": 0.8012889094931779,
            },
        ),
        KnownAnswer(
            title=(
                "one rater never says no, 9 of 300: agreement 0; the upper end is that of 0 of 9, "
                "z^2/(9 + z^2) = .299145, 2*.299145/1.299145"
            ),
            batch=_list_pairs(("yes", "yes", 291), ("yes", "no", 9)),
            expected={"label_agreement_min": 0.0, "label_agreement_upper_min": 0.4605260186820011},
        ),
        KnownAnswer(
            title="abstentions are left out: full agreement on one label",
            batch=_list_pairs(("yes", "yes", 5), (ABSTAIN, ABSTAIN, 1)),
            expected={"label_agreement_min": 1.0, "label_agreement_upper_min": 1.0},
        ),
        KnownAnswer(
            title="no items: two reasons",
            batch=(),
            expected=dict.fromkeys(LABEL_MINS),
        ),
    ),
)


_ABSTAIN_RATES = ("abstain_rate_first", "abstain_rate_second", "abstain_rate_either")


class AbstentionState(msgspec.Struct, frozen=True):
    """Items seen, and how many of them each rater abstained on."""

    item_count: int = 0
    first_count: int = 0
    second_count: int = 0
    either_count: int = 0


def _count_abstentions(state: AbstentionState, batch: Batch) -> AbstentionState:
    for (first, second), count in Counter(batch).items():
        abstained = (first == ABSTAIN, second == ABSTAIN, ABSTAIN in {first, second})
        state = _merge_abstentions(
            state, AbstentionState(count, *(count * found for found in abstained))
        )
    return state


def _merge_abstentions(left: AbstentionState, right: AbstentionState) -> AbstentionState:
    pairs = zip(msgspec.structs.astuple(left), msgspec.structs.astuple(right), strict=True)
    return AbstentionState(*(one + other for one, other in pairs))


def _measure_abstention(state: AbstentionState) -> tuple[Measurement, ...]:
    n, counts = state.item_count, msgspec.structs.astuple(state)[1:]
    return tuple(
        rate(name, count, n, direction="lower_is_better", interval=_compute_wilson(count, n))
        for name, count in zip(_ABSTAIN_RATES, counts, strict=True)
    )


ABSTENTION: Measure[AbstentionState] = Measure(
    name="abstention",
    summary=f"How often the first, the second or either rater answers {ABSTAIN}.",
    state=AbstentionState,
    zero=AbstentionState,
    step=_count_abstentions,
    merge=_merge_abstentions,
    counted=True,
    finish=_measure_abstention,
    gives=_ABSTAIN_RATES,
    known=(
        KnownAnswer(
            title="5 items: first abstains on 1 and 2, second on 2 and 3: 2/5, 2/5, either 3/5",
            batch=(
                (ABSTAIN, "VALID"),
                (ABSTAIN, ABSTAIN),
                ("VALID", ABSTAIN),
                ("VALID", "VALID"),
                ("VALID", "REJECT"),
            ),
            expected=dict(zip(_ABSTAIN_RATES, (0.4, 0.4, 0.6), strict=True)),
        ),
        KnownAnswer(
            title="only the second rater abstains, 3 of 63: 0, 1/21, 1/21",
            batch=(("VALID", ABSTAIN),) * 3 + (("VALID", "VALID"),) * 60,
            expected=dict(zip(_ABSTAIN_RATES, (0.0, 1 / 21, 1 / 21), strict=True)),
        ),
        KnownAnswer(
            title="no items: a rate over nothing is a reason",
            batch=(),
            expected=dict.fromkeys(_ABSTAIN_RATES),
        ),
    ),
)


ALPHA_SEED = 20_261_102
"""Fixed, so that the same counts give the same interval on every run."""
MAX_PATTERNS = 2**16
"""A memory limit; a pattern is stored once, however many items share it."""

_Pattern = tuple[tuple[str, int], ...]
_Item = tuple[str | None, ...]


class KrippendorffState(msgspec.Struct):
    """How many items got each pattern of ratings: the sorted labels with their numbers."""

    patterns: dict[_Pattern, int] = {}


@lru_cache(maxsize=4096)
def _make_pattern(item: _Item) -> _Pattern:
    return tuple(sorted(Counter(label for label in item if label is not None).items()))


def _count_patterns(state: KrippendorffState, batch: Batch) -> KrippendorffState:
    """Count a batch into ``state`` itself; copying would cost more than counting."""
    patterns = state.patterns
    known_count = len(patterns)
    for item, count in Counter(batch).items():
        pattern = _make_pattern(item)
        patterns[pattern] = patterns.get(pattern, 0) + count
    return _check_pattern_bound(state, known_count)


def _merge_patterns(left: KrippendorffState, right: KrippendorffState) -> KrippendorffState:
    patterns = left.patterns.copy()
    for pattern, count in right.patterns.items():
        patterns[pattern] = patterns.get(pattern, 0) + count
    return _check_pattern_bound(KrippendorffState(patterns), len(left.patterns))


def _check_pattern_bound(state: KrippendorffState, known_count: int) -> KrippendorffState:
    pattern_count = len(state.patterns)
    if pattern_count == known_count:
        return state
    if pattern_count > MAX_PATTERNS:
        raise BadInputError(
            f"krippendorff takes at most {MAX_PATTERNS} rating patterns, got {pattern_count}"
        )
    label_count = len(_collect_labels(state.patterns))
    if label_count > MAX_LABELS:
        raise BadInputError(f"krippendorff takes at most {MAX_LABELS} labels, got {label_count}")
    return state


def _collect_labels(patterns: dict[_Pattern, int]) -> set[str]:
    return {label for pattern in patterns for label, _ in pattern}


def _measure_alpha(state: KrippendorffState) -> tuple[Measurement, ...]:
    patterns = {
        pattern: count
        for pattern, count in sorted(state.patterns.items())
        if sum(uses for _, uses in pattern) >= 2
    }
    n = sum(patterns.values())
    unpaired_count = sum(state.patterns.values()) - n
    excluded = {"fewer_than_two_ratings": unpaired_count} if unpaired_count else {}
    units, unit_counts = _build_matrix(patterns)
    alpha = nominal_alpha(units, unit_counts)
    if alpha.value is None:
        return (
            unmeasured(
                "krippendorff_alpha",
                find_reason(alpha),
                n=n,
                direction="higher_is_better",
                excluded=excluded,
            ),
        )
    bootstrap = _run_bootstrap(
        unit_counts, lambda draws: nominal_alpha_each(draws, units), ALPHA_SEED
    )
    return (
        measured(
            "krippendorff_alpha",
            alpha.value,
            n=n,
            direction="higher_is_better",
            interval=bootstrap.interval,
            excluded=excluded,
            caveats=bootstrap.caveats,
        ),
    )


def _build_matrix(patterns: dict[_Pattern, int]) -> tuple[Counts, Counts]:
    """Return patterns by category, and the number of items with each pattern."""
    position = {label: index for index, label in enumerate(sorted(_collect_labels(patterns)))}
    units = np.zeros((len(patterns), len(position)), dtype=np.int64)
    for row, pattern in enumerate(patterns):
        for label, uses in pattern:
            units[row, position[label]] = uses
    return units, np.array(list(patterns.values()), dtype=np.int64)


KRIPPENDORFF: Measure[KrippendorffState] = Measure(
    name="krippendorff",
    summary="Krippendorff's alpha: agreement of two or more raters, with missing ratings allowed.",
    state=KrippendorffState,
    zero=KrippendorffState,
    step=_count_patterns,
    merge=_merge_patterns,
    counted=True,
    finish=_measure_alpha,
    gives=("krippendorff_alpha",),
    known=(
        KnownAnswer(
            title=(
                "AA AA BB AB: 8 ratings, 5 A and 3 B; observed 2, expected 5*3 + 3*5 = 30; "
                "alpha = 1 - 7*2/30"
            ),
            batch=(("A", "A"), ("A", "A"), ("B", "B"), ("A", "B")),
            expected={"krippendorff_alpha": 1 - 14 / 30},
        ),
        KnownAnswer(
            title=(
                "AAB BB. A..: the last has no pair; 5 ratings, 2 A and 3 B; "
                "observed (2*1 + 1*2)/2 = 2, expected 2*3 + 3*2 = 12; alpha = 1 - 4*2/12"
            ),
            batch=(("A", "A", "B"), ("B", "B", None), ("A", None, None)),
            expected={"krippendorff_alpha": 1 / 3},
        ),
        KnownAnswer(
            title="full agreement on two labels: observed disagreement 0, alpha = 1",
            batch=(("A", "A"), ("B", "B")),
            expected={"krippendorff_alpha": 1.0},
        ),
        KnownAnswer(
            title="one label only: expected disagreement 0, alpha is 0/0 and has a reason",
            batch=(("A", "A"), ("A", "A", "A")),
            expected={"krippendorff_alpha": None},
        ),
        KnownAnswer(
            title="nobody rated the same item: no pair, no alpha",
            batch=(("A", None), (None, "B"), (None, None)),
            expected={"krippendorff_alpha": None},
        ),
    ),
)

MEASURE = (AGREEMENT, LABEL_AGREEMENT, ABSTENTION, KRIPPENDORFF)
