"""``calibration``: whether stated confidence is accurate, on another suite's answers.

The score is 1 - ECE, in the same bins for both arms. A low error alone can be had by always naming
the mean accuracy, or by one wide bin: confidences must also say something about single answers,
and there must be enough bins. Otherwise the verdict is inconclusive.

Only answers with a confidence and a score of 0 or 1 can be judged. The rest are counted, and make
the verdict inconclusive beyond ``errors_max``; below it, the score assumes the worst for the
candidate and the best for the baseline. Too few judged answers leave no score. An input has one
answer here, its first, however often it was asked; it counts if all its answers can be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.measurement import (
    Direction,
    Interval,
    Measurement,
    measured,
    rate,
    unmeasured,
)
from gatemark.core.policy import Rule
from gatemark.core.reason import Reason, ReasonKind, find_reason
from gatemark.core.result import Figure, Reliability, ReliabilityBin
from gatemark.evidence.settings_file import about
from gatemark.packs.answers import Answer
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.arms import HARM_P
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport, PackSuite
from gatemark.statistics.confidence.bins import INFORMATIVE, explain_few_bins
from gatemark.statistics.confidence.calibration import (
    Calibration,
    bin_index,
    group_items,
    measure_calibration,
)
from gatemark.statistics.confidence.resolution import (
    LEVEL,
    METHOD,
    Resolution,
    measure_resolution,
)

SEED = 20_261_119
RESAMPLES = 999
LOST_RESOLUTION: Final = ReasonKind(
    "lost_resolution",
    "the candidate's confidences are not shown to tell right answers from wrong ones "
    "(AUROC {auroc:.4g}), the baseline's do (AUROC {baseline_auroc:.4g})",
)
NO_ANSWERS: Final = ReasonKind("no_answers", "no answers")
TOO_FEW_CONFIDENCES: Final = ReasonKind(
    "too_few_confidences", "{n} answers carry a confidence and a verdict, needs {needed}"
)
NO_COMMON_CONFIDENCE: Final = ReasonKind(
    "no_common_confidence", "no answer of both arms carries a confidence and a verdict"
)


class CalibrationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Number of bins, and the minimum number of judged inputs."""

    bins: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=1000)], about("Number of bins of the confidence.")
    ] = 15
    min_items: Annotated[
        Annotated[int, msgspec.Meta(ge=1)], about("Minimum number of judged inputs.")
    ] = 100


class CalibrationItems(NamedTuple):
    """The answers of one arm that calibration can be measured on, one for each input."""

    ids: list[str]
    confidence: np.ndarray
    correct: np.ndarray
    left_out: int


def make_rules(spec: SuiteSpec, _options: CalibrationOptions) -> tuple[Rule, ...]:
    """Return the rules on stated confidence.

    Leaving out doubtful answers would flatter the rest, and so would saying nothing about each.
    """
    return (
        spec.rule("judged", "unjudged_rate", "<=", spec.errors_max, severity="hold"),
        spec.rule(INFORMATIVE, INFORMATIVE, ">=", 1.0, severity="hold"),
    )


def examine(evidence: ArmsEvidence, options: CalibrationOptions) -> ArmsReport:
    """Return the calibration of both arms, the candidate's reliability, and the drop."""
    scope = evidence.spec.id
    arms = [_select_judged(evidence.candidate), _select_judged(evidence.baseline or ())]
    found = [_measure_arm(arm, options) for arm in arms]
    scores = [
        _measure_score(name, scope, arm, calibration, options)
        for name, arm, calibration in zip(("score", "baseline_score"), arms, found, strict=True)
    ]
    resolutions = [_measure_resolution(arm, options) for arm in arms]
    numbers = [
        _measure_unjudged(scope, arms),
        _measure_informative(scope, arms[0], resolutions, options),
        *_list_numbers(scope, arms[0], found[0]),
        *_list_aurocs(scope, arms, resolutions),
    ]
    error = None
    if evidence.baseline is not None:
        drops, error = _measure_drop(evidence, arms, scores, options)
        numbers.extend(drops)
    return ArmsReport(
        score=scores[0],
        baseline_score=scores[1],
        measurements=tuple(numbers),
        figures=_make_reliability(scope, found[0]),
        delta_error=error,
    )


def _select_judged(answers: Sequence[Answer]) -> CalibrationItems:
    by_input: dict[str, list[Answer]] = {}
    for answer in answers:
        by_input.setdefault(answer.id, []).append(answer)
    usable = [
        min(own, key=lambda answer: answer.epoch)
        for own in by_input.values()
        if all(one.confidence is not None and one.score in {0.0, 1.0} for one in own)
    ]
    return CalibrationItems(
        ids=[answer.id for answer in usable],
        confidence=np.array([answer.confidence for answer in usable], dtype=np.float64),
        correct=np.array([answer.score == 1.0 for answer in usable], dtype=bool),
        left_out=len(by_input) - len(usable),
    )


def _measure_arm(arm: CalibrationItems, options: CalibrationOptions) -> Calibration | None:
    if len(arm.ids) < options.min_items:
        return None
    groups = group_items(arm.confidence, arm.correct)
    return measure_calibration(groups, np.random.default_rng(SEED), bins=options.bins)


def _measure_resolution(arm: CalibrationItems, options: CalibrationOptions) -> Resolution | None:
    if len(arm.ids) < options.min_items:
        return None
    return measure_resolution(group_items(arm.confidence, arm.correct), options.bins)


def _measure_informative(
    scope: str,
    candidate: CalibrationItems,
    resolutions: Sequence[Resolution | None],
    options: CalibrationOptions,
) -> Measurement:
    """Return 1 if the candidate's confidences may say something, or why they do not."""
    own, baseline = resolutions
    n = len(candidate.ids)
    why: Reason | None
    if own is None:
        why = TOO_FEW_CONFIDENCES(n=n, needed=options.min_items)
    else:
        why = explain_few_bins(options.bins) or own.explain_uninformative()
        why = why or _explain_lost(own, baseline)
    if why is not None:
        return unmeasured(INFORMATIVE, why, direction="higher_is_better", n=n, scope=scope)
    return measured(INFORMATIVE, 1.0, n=n, direction="higher_is_better", scope=scope)


def _explain_lost(own: Resolution, baseline: Resolution | None) -> Reason | None:
    """Return why the candidate says less than the baseline, or None if that is not so."""
    if own.auroc is None or own.is_shown or baseline is None or not baseline.is_shown:
        return None
    return LOST_RESOLUTION(auroc=own.auroc, baseline_auroc=baseline.auroc)


def _list_aurocs(
    scope: str, arms: Sequence[CalibrationItems], resolutions: Sequence[Resolution | None]
) -> list[Measurement]:
    """Return the resolution of each arm, where it has one."""
    return [
        measured(
            name,
            found.auroc,
            n=len(arm.ids),
            direction="higher_is_better",
            interval=None if found.interval is None else Interval(*found.interval, LEVEL, METHOD),
            scope=scope,
        )
        for name, arm, found in zip(("auroc", "baseline_auroc"), arms, resolutions, strict=True)
        if found is not None and found.auroc is not None
    ]


def _measure_score(
    name: str,
    scope: str,
    arm: CalibrationItems,
    found: Calibration | None,
    options: CalibrationOptions,
) -> Measurement:
    excluded = {"without_confidence_or_verdict": arm.left_out} if arm.left_out else None
    if found is None:
        reason = TOO_FEW_CONFIDENCES(n=len(arm.ids), needed=options.min_items)
        return unmeasured(
            name,
            reason,
            direction="higher_is_better",
            n=len(arm.ids),
            excluded=excluded,
            scope=scope,
        )
    return measured(
        name,
        1 - _add_left_out(found.ece, arm, worst=name == "score"),
        n=len(arm.ids),
        direction="higher_is_better",
        excluded=excluded,
        scope=scope,
    )


def _add_left_out(ece: float, arm: CalibrationItems, *, worst: bool) -> float:
    """Return the largest or smallest possible ECE if the answers left out were judged too.

    Each of them moves the sum of the bins' gaps by at most one.
    """
    judged = len(arm.ids)
    most = arm.left_out if worst else -arm.left_out
    return min(1.0, max(0.0, (judged * ece + most) / (judged + arm.left_out)))


def _measure_unjudged(scope: str, arms: Sequence[CalibrationItems]) -> Measurement:
    """Return the share of answers without a confidence or a verdict, in the worse arm."""
    name = "unjudged_rate"
    asked = [arm for arm in arms if arm.ids or arm.left_out]
    if not asked:
        return unmeasured(name, NO_ANSWERS(), direction="lower_is_better", scope=scope)
    poorest = max(asked, key=lambda arm: arm.left_out / (len(arm.ids) + arm.left_out))
    total = len(poorest.ids) + poorest.left_out
    found = rate(name, poorest.left_out, total, direction="lower_is_better")
    return msgspec.structs.replace(found, scope=scope)


def _list_numbers(
    scope: str, arm: CalibrationItems, found: Calibration | None
) -> list[Measurement]:
    if found is None:
        return []
    values: dict[str, tuple[float | None, Direction]] = {
        "ece": (found.ece, "lower_is_better"),
        "mce": (found.mce, "lower_is_better"),
        "mce_min10": (found.mce_min10, "lower_is_better"),
        "ece_excess": (found.ece_excess, "lower_is_better"),
        "iso_dev": (found.iso_dev, "lower_is_better"),
        "brier": (found.brier.score, "lower_is_better"),
        "brier_mcb": (found.brier.mcb, "lower_is_better"),
        "brier_dsc": (found.brier.dsc, "higher_is_better"),
        "brier_unc": (found.brier.unc, "neutral"),
    }
    return [
        measured(name, value, n=len(arm.ids), direction=direction, scope=scope)
        for name, (value, direction) in values.items()
        if value is not None
    ]


def _measure_drop(
    evidence: ArmsEvidence,
    arms: Sequence[CalibrationItems],
    scores: Sequence[Measurement],
    options: CalibrationOptions,
) -> tuple[list[Measurement], float | None]:
    """Return how much worse the candidate is calibrated, by a paired bootstrap over the items.

    Includes the standard error of the difference if there is one.
    """
    scope, alpha = evidence.spec.id, evidence.alpha
    if scores[0].value is None or scores[1].value is None:
        reason = find_reason(*scores)
        return [unmeasured("regression", reason, direction="lower_is_better", scope=scope)], None
    value = scores[1].value - scores[0].value
    shared = sorted(set(arms[0].ids) & set(arms[1].ids))
    if not shared:
        reason = NO_COMMON_CONFIDENCE()
        return [unmeasured("regression", reason, direction="lower_is_better", scope=scope)], None
    places = [{name: index for index, name in enumerate(arm.ids)} for arm in arms]
    rng = np.random.default_rng(SEED)
    binned = []
    for arm, place in zip(arms, places, strict=True):
        rows = np.array([place[name] for name in shared], dtype=np.int64)
        confidence = arm.confidence[rows]
        binned.append((bin_index(confidence, options.bins), confidence - arm.correct[rows]))
    drops = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(0, len(shared), len(shared))
        candidate, baseline = (
            _compute_ece(index[drawn], gap[drawn], options.bins) for index, gap in binned
        )
        drops.append(candidate - baseline)
    low, high = np.quantile(drops, [alpha, 1 - alpha], method="inverted_cdf")
    # Answers left out are known only by their worst case, which resampling does not show.
    unknown = sum(arm.left_out / (len(arm.ids) + arm.left_out) for arm in arms)
    interval = Interval(
        low=min(float(low), value),
        high=max(float(high) + unknown, value),
        level=1 - 2 * alpha,
        method="paired_bootstrap",
    )
    found = measured(
        "regression",
        value,
        n=len(shared),
        direction="lower_is_better",
        interval=interval,
        scope=scope,
    )
    error = float(np.std(drops, ddof=1))
    within = sum(drop <= evidence.margin for drop in drops)
    chance = (1 + within) / (1 + RESAMPLES)
    return [measured(HARM_P, chance, n=len(shared), direction="neutral", scope=scope), found], error


def _compute_ece(index: np.ndarray, gap: np.ndarray, bins: int) -> float:
    """Return the error of items from the bin of each and its confidence minus its correctness."""
    gaps = np.bincount(index, weights=gap, minlength=bins)
    return float(np.abs(gaps).sum() / len(gap))


def _make_reliability(scope: str, found: Calibration | None) -> tuple[Figure, ...]:
    if found is None:
        return ()
    bins = tuple(
        ReliabilityBin(
            low=bin_.low,
            high=bin_.high,
            n=bin_.n,
            confidence=bin_.mean_confidence,
            accuracy=bin_.accuracy,
            interval_low=None if bin_.interval is None else bin_.interval[0],
            interval_high=None if bin_.interval is None else bin_.interval[1],
        )
        for bin_ in found.bins
    )
    return (Reliability(f"{scope}: reliability, with 95 % Wilson intervals", bins),)


SUITE = PackSuite(
    kind="calibration",
    summary="Whether stated confidence matches how often answers are right; the score is 1 - ECE.",
    options=CalibrationOptions,
    rules=make_rules,
    examine=examine,
    scorer=None,
    default_regression="non_inferiority",
)
