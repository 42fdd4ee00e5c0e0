"""``preference``: a model judge compares both arms' answers to another suite's items.

The judge sees every pair in both orders, and a win counts only if both orders agree. Equal answers
are ties, and nobody is asked. A pair counts as lost if the candidate gave no answer, and also if
the baseline gave none or the judge's reply cannot be read: what is missing never helps the
candidate. Beyond ``errors_max`` it leaves the suite without a score. Items that share a cluster or
an input count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import UsageError
from gatemark.core.measurement import Interval, Measurement, measured, rate, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.reason import Reason, ReasonKind
from gatemark.core.result import Figure, Table
from gatemark.evidence.rows import Row
from gatemark.evidence.settings_file import about
from gatemark.packs.answers import Answer, ItemKey
from gatemark.packs.item_scores import AnswerPair, ItemScore
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.arms import (
    NO_COMMON_ITEM,
    PairedItems,
    estimate_delta_error,
    find_units,
    list_worse_items,
    measure_baseline_score,
    measure_mean_score,
    measure_suite_drop,
)
from gatemark.packs.suites.suite import PREFERRED, ArmsEvidence, ArmsReport, PackSuite
from gatemark.scorers.judge.pairwise import (
    FIRST,
    SECOND,
    TIE,
    PairwiseOptions,
    find_majority,
    read_rounds,
)
from gatemark.scorers.scorer import Scorable
from gatemark.statistics.preference import (
    MIN_DECISIVE,
    TOO_FEW_DECISIVE,
    Preference,
    judge_preference,
)

NOTHING_COMPARED: Final = ReasonKind("nothing_compared", "the judge compared nothing")
PAIRS_NOT_COMPARED: Final = ReasonKind(
    "pairs_not_compared", "{share:.1%} of the pairs could not be compared"
)
_WORTH: Final = {FIRST: 1.0, TIE: 0.5, SECOND: 0.0}
_DECIDING: Final = frozenset({"score", "baseline_score", "regression", PREFERRED})


class ComparisonOptions(PairwiseOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The judge that compares, and how it is asked."""

    judge: Annotated[str, about("Judge of the pack that compares the answers.")]


class ComparedPair(NamedTuple):
    """The outcome for one pair: FIRST if the candidate won, SECOND if the baseline did, or TIE.

    ``choice`` is None if it is unknown. ``is_judged`` is False if nobody compared two answers.
    """

    choice: str | None
    is_judged: bool = True
    rounds: int = 0
    disagreements: int = 0


Comparisons = Mapping[ItemKey, ComparedPair]
UNKNOWN: Final = ComparedPair(None, is_judged=False)
NO_ANSWER: Final = ComparedPair(SECOND, is_judged=False)
EQUAL: Final = ComparedPair(TIE)


def parse_comparison_options(spec: SuiteSpec) -> ComparisonOptions:
    """Return how the judge of a suite compares."""
    return msgspec.convert(spec.options, ComparisonOptions)


def make_rules(spec: SuiteSpec, _options: ComparisonOptions) -> tuple[Rule, ...]:
    """Return the rules: the candidate is preferred, and what was not compared is tolerable."""
    if spec.source is None:
        raise UsageError(
            f"suite {spec.id}: kind preference compares the answers to another suite; "
            "give that suite the dataset, and name it here with from: ID"
        )
    if spec.scorer is not None:
        raise UsageError(
            f"suite {spec.id}: kind preference takes no scorer; name the judge in "
            "options: {judge: NAME}"
        )
    return (
        spec.rule("compared", "uncompared_rate", "<=", spec.errors_max, severity="hold"),
        spec.rule("preferred", PREFERRED, ">=", 1.0),
    )


def make_pairs(
    rows: Iterable[Row], candidate: Iterable[Answer], baseline: Iterable[Answer]
) -> dict[ItemKey, Scorable]:
    """Return what both arms answered, as pairs that a judge can compare; the candidate is first.

    Values are as they are stored, so that judging again makes the same prompts.
    """
    inputs = {row.id: row.input for row in rows}
    before = {(answer.id, answer.epoch): answer for answer in baseline if answer.error is None}
    pairs = {}
    for answer in candidate:
        other = before.get((answer.id, answer.epoch))
        if answer.error is None and other is not None and answer.id in inputs:
            output = _read_as_stored({"first": answer.output, "second": other.output})
            asked = _read_as_stored(inputs[answer.id])
            pairs[answer.id, answer.epoch] = Scorable(answer.id, asked, None, output)
    return pairs


def _read_as_stored(value: object) -> object:
    return msgspec.json.decode(canonical_bytes(value))


def are_equal(pair: Scorable) -> bool:
    """Whether the two answers are the same."""
    return isinstance(pair.output, dict) and pair.output["first"] == pair.output["second"]


def examine(evidence: ArmsEvidence, options: ComparisonOptions) -> ArmsReport:
    """Return how often each arm won, and whether that is more than chance.

    (1) Read the outcome of every pair. (2) Join items that share a cluster or an input. (3) Test
    wins against losses. (4) Withhold what too many unknown pairs could change.
    """
    scope = evidence.spec.id
    # Step 1.
    found = _find_comparisons(evidence, options)
    pairs = _pair_answers(evidence, found)
    # Step 2.
    units = find_units((PairedItems(scope, 1.0, pairs, evidence.rows),))
    unit_of = {pair.id: unit for pair, unit in zip(pairs, units, strict=True)}
    by_unit: dict[str, list[ComparedPair]] = {}
    for (item, _), comparison in found.items():
        by_unit.setdefault(unit_of[item], []).append(comparison)
    # Step 3.
    strict, lenient = (
        _measure_preference(list(by_unit.values()), evidence.alpha, unknown_as=choice)
        for choice in (SECOND, TIE)
    )
    preferred = _measure_preferred(scope, strict, lenient, _count_decisions(by_unit.values()))
    uncompared = rate(
        "uncompared_rate",
        sum(one.choice is None for one in found.values()),
        len(found),
        direction="lower_is_better",
        empty_reason=NO_COMMON_ITEM(),
    )
    report = ArmsReport(
        score=measure_mean_score("score", scope, [pair.candidate for pair in pairs]),
        baseline_score=measure_baseline_score(scope, [pair.baseline for pair in pairs]),
        measurements=(
            preferred,
            msgspec.structs.replace(uncompared, scope=scope),
            _measure_order_disagreement(scope, found),
            *_count_choices(scope, strict, evidence.alpha),
            *(measure_suite_drop(evidence, pairs) if evidence.baseline is not None else ()),
        ),
        figures=(
            _make_table(scope, strict, found, preferred),
            *_list_lost_items(evidence, pairs),
        ),
        delta_error=estimate_delta_error(pairs),
    )
    # Step 4.
    if uncompared.value is None or uncompared.value <= evidence.spec.errors_max:
        return report
    return _withhold(report, PAIRS_NOT_COMPARED(share=uncompared.value))


def _find_comparisons(evidence: ArmsEvidence, options: ComparisonOptions) -> Comparisons:
    """Return the outcome for every item and epoch that an arm was asked."""
    baseline = evidence.baseline or ()
    pairs = make_pairs(evidence.rows, evidence.candidate, baseline)
    keys = {(answer.id, answer.epoch) for answer in (*evidence.candidate, *baseline)}
    answered = {(answer.id, answer.epoch) for answer in baseline if answer.error is None}
    failed = answered - {(a.id, a.epoch) for a in evidence.candidate if a.error is None}
    found = {}
    for key in sorted(keys):
        if key not in pairs:
            found[key] = NO_ANSWER if key in failed else UNKNOWN
        elif are_equal(pairs[key]):
            found[key] = EQUAL
        else:
            read = read_rounds(options, pairs[key], evidence.replies.get(key, ()))
            found[key] = ComparedPair(
                read.choice, read.choice is not None, read.read_count, read.inconsistent_count
            )
    return found


def _pair_answers(evidence: ArmsEvidence, found: Comparisons) -> tuple[AnswerPair, ...]:
    """Return every item with the share that each arm won; what is unknown is lost."""
    rows = {row.id: row for row in evidence.rows}
    by_item: dict[str, list[ComparedPair]] = {}
    for (item, _), comparison in found.items():
        by_item.setdefault(item, []).append(comparison)
    pairs = []
    for item, comparisons in by_item.items():
        won = sum(_WORTH[one.choice or SECOND] for one in comparisons) / len(comparisons)
        score = ItemScore(
            mean=won,
            repeats=len(comparisons),
            scored=sum(one.choice is not None for one in comparisons),
            right=sum(one.choice == FIRST for one in comparisons),
            confidence=None,
            cluster=rows[item].cluster if item in rows else None,
            tags=(rows[item].tags,) if item in rows else (),
        )
        pairs.append(AnswerPair(item, score, score._replace(mean=1 - won)))
    return tuple(pairs)


def _measure_preference(
    units: Sequence[Sequence[ComparedPair]], alpha: float, *, unknown_as: str
) -> Preference:
    """Count each unit once, by more than half of its pairs, and test the counts."""
    choices = Counter(_choose_for_unit(unit, unknown_as) for unit in units)
    return judge_preference(choices[FIRST], choices[SECOND], choices[TIE], alpha=alpha)


def _choose_for_unit(unit: Sequence[ComparedPair], unknown_as: str) -> str:
    return find_majority([one.choice or unknown_as for one in unit], len(unit)) or TIE


def _count_decisions(units: Iterable[Sequence[ComparedPair]]) -> int:
    """Count decisive units without what only stands for missing answers.

    Otherwise a candidate could reach the minimum of decisive pairs by losing answers.
    """
    return sum(
        choice == FIRST or (choice == SECOND and all(one.is_judged for one in unit))
        for unit in units
        for choice in (_choose_for_unit(unit, SECOND),)
    )


def _measure_preferred(
    scope: str, strict: Preference, lenient: Preference, judged: int
) -> Measurement:
    """Return 1 if the candidate is preferred, -1 if the baseline is, else a reason.

    To prefer the candidate, what is unknown counts as lost; to prefer the baseline, as tied.
    """
    sign: float | None = None
    reason = strict.reason
    if judged < MIN_DECISIVE:
        reason = TOO_FEW_DECISIVE(decisive=judged, needed=MIN_DECISIVE)
    elif strict.outcome == "pass":
        sign = 1.0
    elif lenient.outcome == "fail":
        sign = -1.0
    if sign is None:
        return unmeasured(
            PREFERRED, reason, direction="higher_is_better", n=judged, unit="sign", scope=scope
        )
    return measured(
        PREFERRED, sign, n=judged, direction="higher_is_better", unit="sign", scope=scope
    )


def _measure_order_disagreement(scope: str, found: Comparisons) -> Measurement:
    """Return the share of rounds in which the judge changed its mind with the order."""
    number = rate(
        "order_disagreement_rate",
        sum(one.disagreements for one in found.values()),
        sum(one.rounds for one in found.values()),
        direction="lower_is_better",
        empty_reason=NOTHING_COMPARED(),
    )
    return msgspec.structs.replace(number, scope=scope)


def _count_choices(scope: str, strict: Preference, alpha: float) -> list[Measurement]:
    decisive = strict.wins + strict.losses
    n = decisive + strict.ties
    numbers = [
        measured("wins", strict.wins, n=n, direction="higher_is_better", unit="count", scope=scope),
        measured(
            "losses", strict.losses, n=n, direction="lower_is_better", unit="count", scope=scope
        ),
        measured("ties", strict.ties, n=n, direction="neutral", unit="count", scope=scope),
    ]
    if strict.win_rate is not None and strict.interval and strict.p_value is not None:
        interval = Interval(*strict.interval, level=1 - alpha, method="wilson")
        numbers += [
            measured(
                "win_rate",
                strict.win_rate,
                n=decisive,
                direction="higher_is_better",
                interval=interval,
                scope=scope,
            ),
            measured(
                "win_p_value", strict.p_value, n=decisive, direction="lower_is_better", scope=scope
            ),
        ]
    return numbers


def _make_table(
    scope: str, strict: Preference, found: Comparisons, preferred: Measurement
) -> Figure:
    rounds = sum(one.rounds for one in found.values())
    disagreements = sum(one.disagreements for one in found.values())
    interval = strict.interval
    rows = (
        ("won, lost, tied", f"{strict.wins}, {strict.losses}, {strict.ties}"),
        ("equal answers, tied without asking", sum(one is EQUAL for one in found.values())),
        ("not compared", sum(not one.is_judged for one in found.values())),
        ("win rate", None if strict.win_rate is None else round(strict.win_rate, 4)),
        (
            "Wilson interval",
            None if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}",
        ),
        ("one-sided p", None if strict.p_value is None else round(strict.p_value, 6)),
        ("rounds in which the two orders disagreed", f"{disagreements} of {rounds}"),
        ("outcome", str(preferred.reason or strict.reason)),
    )
    return Table(f"{scope}: which answer the judge prefers", ("fact", "value"), rows, len(rows))


def _list_lost_items(evidence: ArmsEvidence, pairs: Sequence[AnswerPair]) -> tuple[Figure, ...]:
    both = {a.id for a in evidence.candidate} & {a.id for a in evidence.baseline or ()}
    shown = [pair for pair in pairs if pair.id in both]
    title = f"{evidence.spec.id}: where the baseline won"
    return list_worse_items(evidence, shown, title=title, expected="expected")


def _withhold(report: ArmsReport, why: Reason) -> ArmsReport:
    """Return a report without the numbers that pairs without an outcome could change."""

    def held(number: Measurement) -> Measurement:
        if number.name not in _DECIDING:
            return number
        return unmeasured(
            number.name,
            why,
            direction=number.direction,
            unit=number.unit,
            n=number.n,
            version=number.version,
            scope=number.scope,
        )

    return msgspec.structs.replace(
        report,
        score=held(report.score),
        baseline_score=held(report.baseline_score),
        measurements=tuple(map(held, report.measurements)),
        delta_error=None,
    )


SUITE = PackSuite(
    kind="preference",
    summary="Whether a model judge, asked in both orders, prefers the candidate's answers.",
    options=ComparisonOptions,
    rules=make_rules,
    examine=examine,
    scorer=None,
    default_regression="non_inferiority",
    judge_task=parse_comparison_options,
)
