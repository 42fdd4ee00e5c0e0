"""A suite kind that examines the answers of two arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.core.result import Figure
from gatemark.evidence.exam_suite import Suite
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.item_scores import AnswerPair
from gatemark.packs.suite_spec import RegressionMode, SuiteSpec
from gatemark.scorers.judge.prompt import JudgeReply, JudgeTask

PREFERRED: Final = "preferred"
"""Whether a judge prefers the candidate: 1 if so, -1 if it prefers the baseline."""


class ArmsEvidence(msgspec.Struct, frozen=True):
    """The answers of both arms to one suite's items, and what they are judged against.

    ``baseline`` is None if the pack has none. ``margin`` is how far this suite may drop.
    ``replies`` are those of the suite's judge, by item and epoch.
    """

    spec: SuiteSpec
    rows: tuple[Row, ...]
    candidate: tuple[Answer, ...]
    baseline: tuple[Answer, ...] | None
    margin: float
    alpha: float
    replies: Mapping[tuple[str, int], tuple[JudgeReply, ...]] = {}


class ArmsReport(msgspec.Struct, frozen=True):
    """The findings of a suite about two arms.

    ``score`` and ``baseline_score`` are in [0, 1], higher is better; ``delta_error`` is the
    standard error of their difference, or None if unknown. ``pairs`` are the items that both arms
    answered, for suites that are compared item by item.
    """

    score: Measurement
    baseline_score: Measurement
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    delta_error: float | None
    pairs: tuple[AnswerPair, ...] = ()


class PackSuite(Suite, frozen=True):
    """A suite kind that examines the answers of two arms.

    ``rules`` sees only the pack, so that no rule can depend on the evidence; ``scorer`` is used if
    the pack names none, and ``default_regression`` is the mode. ``is_paired`` means that its drop
    is a mean over items, which the pooled test can include. ``judge_task`` is for kinds whose judge
    compares the answers of both arms: what it is asked.
    """

    rules: Callable[[SuiteSpec, Any], tuple[Rule, ...]]
    examine: Callable[[ArmsEvidence, Any], ArmsReport]
    scorer: str | None
    default_regression: RegressionMode
    is_paired: bool = False
    judge_task: Callable[[SuiteSpec], JudgeTask] | None = None
