"""``calibration``: whether stated confidence means anything, on another suite's answers.

The score is 1 - ECE. Only answers with a confidence and a score of 0 or 1 can be judged; the rest
are counted, and too few leave no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from gatemark.core.answers import Answer
from gatemark.core.exam import ArmsEvidence, ArmsReport, PackSuite
from gatemark.core.exhibit import Exhibit, Reliability, ReliabilityBin
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.pack import SuiteSpec
from gatemark.core.policy import Rule
from gatemark.statistics.calibration import Calibration, bin_index, grouped, measure_calibration

SEED = 20_261_119
RESAMPLES = 999


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many bins, and how many judged answers it takes to speak of calibration at all."""

    bins: int = 15
    min_items: int = 100


class Judged(NamedTuple):
    """The answers of one arm that calibration can be measured on."""

    ids: list[tuple[str, int]]
    confidence: np.ndarray
    correct: np.ndarray
    left_out: int


def rules(_spec: SuiteSpec, _options: Options) -> tuple[Rule, ...]:
    """A calibration suite has no rules besides those of every suite."""
    return ()


def examine(evidence: ArmsEvidence, options: Options) -> ArmsReport:
    """Calibration of both arms, the reliability of the candidate, and the drop between them."""
    lane = evidence.spec.id
    arms = [_judged(evidence.candidate), _judged(evidence.baseline or ())]
    found = [_measured(arm, options) for arm in arms]
    scores = [
        _score(name, lane, arm, calibration, options)
        for name, arm, calibration in zip(("score", "baseline_score"), arms, found, strict=True)
    ]
    numbers = _numbers(lane, arms[0], found[0])
    if evidence.baseline is not None:
        numbers.append(_drop(lane, arms, scores, options, evidence.alpha))
    return ArmsReport(
        score=scores[0],
        baseline_score=scores[1],
        measurements=tuple(numbers),
        exhibits=_reliability(lane, found[0]),
        delta_error=None,
    )


def _judged(answers: Sequence[Answer]) -> Judged:
    usable = [a for a in answers if a.confidence is not None and a.score in {0.0, 1.0}]
    return Judged(
        ids=[(answer.id, answer.epoch) for answer in usable],
        confidence=np.array([answer.confidence for answer in usable], dtype=np.float64),
        correct=np.array([answer.score == 1.0 for answer in usable], dtype=bool),
        left_out=len(answers) - len(usable),
    )


def _measured(arm: Judged, options: Options) -> Calibration | None:
    if len(arm.ids) < options.min_items:
        return None
    groups = grouped(arm.confidence, arm.correct)
    return measure_calibration(groups, np.random.default_rng(SEED), bins=options.bins)


def _score(
    name: str, lane: str, arm: Judged, found: Calibration | None, options: Options
) -> Measurement:
    excluded = {"without_confidence_or_verdict": arm.left_out} if arm.left_out else None
    if found is None:
        reason = (
            f"{len(arm.ids)} answers carry a confidence and a verdict, needs {options.min_items}"
        )
        return unmeasured(
            name, reason, direction="higher_is_better", n=len(arm.ids), excluded=excluded, lane=lane
        )
    return measured(
        name,
        1 - found.ece,
        n=len(arm.ids),
        direction="higher_is_better",
        excluded=excluded,
        lane=lane,
    )


def _numbers(lane: str, arm: Judged, found: Calibration | None) -> list[Measurement]:
    if found is None:
        return []
    values = {
        "ece": found.ece,
        "mce": found.mce,
        "mce_min10": found.mce_min10,
        "ece_excess": found.ece_excess,
        "iso_dev": found.iso_dev,
        "brier": found.brier.score,
    }
    return [
        measured(name, value, n=len(arm.ids), direction="lower_is_better", lane=lane)
        for name, value in values.items()
        if value is not None
    ]


def _drop(
    lane: str,
    arms: Sequence[Judged],
    scores: Sequence[Measurement],
    options: Options,
    alpha: float,
) -> Measurement:
    """How much worse calibrated the candidate is, with a paired bootstrap over the items."""
    if scores[0].value is None or scores[1].value is None:
        reason = scores[0].reason or scores[1].reason or "no score"
        return unmeasured("regression", reason, direction="lower_is_better", lane=lane)
    value = scores[1].value - scores[0].value
    shared = sorted(set(arms[0].ids) & set(arms[1].ids))
    places = [{name: index for index, name in enumerate(arm.ids)} for arm in arms]
    rng = np.random.default_rng(SEED)
    rows = np.array([[place[name] for place in places] for name in shared], dtype=np.int64)
    drops = []
    for _ in range(RESAMPLES):
        drawn = rows[rng.integers(0, len(rows), len(rows))]
        candidate, baseline = (
            _ece(arm.confidence[drawn[:, side]], arm.correct[drawn[:, side]], options.bins)
            for side, arm in enumerate(arms)
        )
        drops.append(candidate - baseline)
    low, high = np.quantile(drops, [alpha, 1 - alpha], method="inverted_cdf")
    interval = Interval(
        low=min(float(low), value),
        high=max(float(high), value),
        level=1 - 2 * alpha,
        method="paired_bootstrap",
    )
    return measured(
        "regression",
        value,
        n=len(shared),
        direction="lower_is_better",
        interval=interval,
        lane=lane,
    )


def _ece(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    index = bin_index(confidence, bins)
    gaps = np.bincount(index, weights=confidence - correct, minlength=bins)
    return float(np.abs(gaps).sum() / len(confidence))


def _reliability(lane: str, found: Calibration | None) -> tuple[Exhibit, ...]:
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
    return (Reliability(f"{lane}: reliability, with 95 % Wilson intervals", bins),)


SUITE = PackSuite(
    kind="calibration",
    summary="Whether stated confidence matches how often answers are right; the score is 1 - ECE.",
    options=Options,
    rules=rules,
    examine=examine,
    scorer=None,
    default_regression="non_inferiority",
)
