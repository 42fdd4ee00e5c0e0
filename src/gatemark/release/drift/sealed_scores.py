"""Scores in sealed results that drift watches, and the metric of each suite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gatemark.core.result import Result

GOLDEN: Final = "golden_accuracy"
LANES: Final = {"golden": ("score", GOLDEN), "calibration": ("ece", "calibration_ece")}
"""For each watched kind of suite: the measurement, and the metric it is stored as."""


class SuiteScore(NamedTuple):
    """A measurement of one suite in a result, and the metric that it belongs to."""

    metric: str
    value: float
    items: int


def list_suite_scores(result: Result) -> Iterator[SuiteScore]:
    """Yield the measurements of a result that are values of watched metrics."""
    for suite, kind in _list_suites(result).items():
        if kind in LANES:
            wanted, metric = LANES[kind]
            for value, items in _list_measured(result, wanted, suite):
                yield SuiteScore(metric, value, items)


def select_fixed_scores(results: Iterable[Result]) -> dict[str, tuple[float, int]]:
    """Return accuracy and item count by metric, from the latest result that has the metric.

    The metrics are golden accuracy, over all golden suites, and each suite under its own name.
    """
    found: dict[str, tuple[float, int]] = {}
    for result in sorted(results, key=lambda one: one.finished_at):
        scores: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for score in list_suite_scores(result):
            if score.metric == GOLDEN:
                scores[GOLDEN].append((score.value, score.items))
        for suite in _list_suites(result):
            if suite != GOLDEN:
                scores[suite].extend(_list_measured(result, "score", suite, only_higher=True))
        for metric, parts in scores.items():
            items = sum(count for _, count in parts)
            if items and all(0 <= value <= 1 for value, _ in parts):
                found[metric] = (sum(value * count for value, count in parts) / items, items)
    return found


def _list_suites(result: Result) -> dict[str, str]:
    return {e.checks["suite"]: e.checks["kind"] for e in result.evidence if "suite" in e.checks}


def _list_measured(
    result: Result, name: str, suite: str, *, only_higher: bool = False
) -> Iterator[tuple[float, int]]:
    for one in result.measurements:
        is_wanted = not only_higher or one.direction == "higher_is_better"
        if one.key == (name, suite) and one.value is not None and is_wanted:
            yield one.value, one.n
