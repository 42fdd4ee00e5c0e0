"""The ``gatemark.point/1`` record: one watched metric of one asset over one closed window.

A point is a value, or counts that add up over shorter windows and several senders: sums, k of n, a
histogram, calibration bins, or categories.
"""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import UNSET

from gatemark.core.record import BadExample, Form, Problem, RecordSchema
from gatemark.core.text import is_one_line
from gatemark.release.drift.point import (
    FORMS,
    LONGEST_WINDOW,
    NAME,
    SHORTEST_WINDOW,
    Point,
)
from gatemark.release.drift.signal import split_metric

COUNTED: Final = ("value", "sum", "k")


def point_is_whole(point: Point) -> list[Problem]:
    """Return the problems that involve several fields; valid points return early."""
    form = _find_only_form(point)
    if form is None:
        return _check_form(point)
    length = point.end - point.start
    if (
        not SHORTEST_WINDOW <= length <= LONGEST_WINDOW
        or point.start.microsecond
        or point.end.microsecond
    ):
        return _check_window(point)
    if (
        not point.metric.isprintable()
        or point.metric.endswith('"}')
        or point.source is not UNSET
        or form == "categories"
    ):
        names = _name_problems(point)
        if names:
            return names
    if (
        (form in COUNTED) != (point.n is not UNSET)
        or (form == "sum") != (point.sum_squares is not UNSET)
        or (form != "histogram" and point.edges is not UNSET)
    ):
        return _check_parts(point, form)
    return _CHECKS[form](point) if form != "value" else []


def _find_only_form(point: Point) -> str | None:
    """Return the form of a point, or None if it has several or none."""
    found = None
    for name, held in (
        ("value", point.value),
        ("k", point.k),
        ("sum", point.sum),
        ("histogram", point.histogram),
        ("calibration", point.calibration),
        ("categories", point.categories),
    ):
        if held is not UNSET:
            if found is not None:
                return None
            found = name
    return found


def _check_form(point: Point) -> list[Problem]:
    forms = [name for name in FORMS if getattr(point, name) is not UNSET]
    listed = ", ".join(forms) or "none"
    return [Problem("$", f"a point must have exactly one of {', '.join(FORMS)}; got {listed}")]


def _check_window(point: Point) -> list[Problem]:
    if point.start.microsecond or point.end.microsecond:
        return [Problem("$.start", "a window must start and end on whole seconds")]
    found = f"{point.start.isoformat()} to {point.end.isoformat()}"
    return [Problem("$.end", f"a window must last 1 s to 366 d, got {found}")]


def _name_problems(point: Point) -> list[Problem]:
    names = [("metric", point.metric)]
    if point.source is not UNSET:
        names.append(("source", point.source))
    if point.categories is not UNSET:
        names.extend(("categories", name) for name in point.categories)
    if split_metric(point.metric)[1] is not None:
        return [Problem("$.metric", f"{point.metric!r} names a version; use the field version")]
    return [
        Problem(f"$.{field}", f"{name!r} has a control character")
        for field, name in names
        if not is_one_line(name)
    ]


def _check_parts(point: Point, form: str) -> list[Problem]:
    if (form in COUNTED) != (point.n is not UNSET):
        verb = "needs" if form in COUNTED else "has its own counts and must not have"
        return [Problem("$.n", f"{form} {verb} n")]
    if (form == "sum") != (point.sum_squares is not UNSET):
        return [Problem("$.sum_squares", "sum and sum_squares must be given together")]
    return [Problem("$.edges", "only a histogram has edges")]


def _check_k(point: Any) -> list[Problem]:
    if point.k > point.n:
        return [Problem("$.k", f"k must be <= n, got k={point.k}, n={point.n}")]
    return []


def _check_sum(point: Any) -> list[Problem]:
    least = point.sum**2 / point.n
    if point.sum_squares < least * (1 - 1e-9) - 1e-300:
        finding = f"got {point.sum_squares}, sum^2 / n is {least}"
        return [Problem("$.sum_squares", f"sum_squares must be >= sum^2 / n, {finding}")]
    return []


def _check_histogram(point: Any) -> list[Problem]:
    if not any(point.histogram):
        return [Problem("$.histogram", "a histogram must have at least one item, got n=0")]
    if point.edges is UNSET:
        return []
    if len(point.edges) != len(point.histogram) + 1:
        finding = f"{len(point.histogram)} bins have {len(point.edges)} edges"
        return [Problem("$.edges", f"edges must be one more than bins, {finding}")]
    if any(high <= low for low, high in zip(point.edges, point.edges[1:], strict=False)):
        return [Problem("$.edges", "edges must be in increasing order")]
    return []


def _check_calibration(point: Any) -> list[Problem]:
    bins = point.calibration
    if not len(bins.items) == len(bins.confidence_sum) == len(bins.correct):
        return [Problem("$.calibration", "every bin needs items, confidence_sum and correct")]
    if not any(bins.items):
        return [Problem("$.calibration.items", "calibration must have at least one item, got n=0")]
    problems = []
    for place, (n, promised, correct) in enumerate(
        zip(bins.items, bins.confidence_sum, bins.correct, strict=True)
    ):
        if correct > n:
            message = f"correct must be <= items, got {correct} of {n}"
            problems.append(Problem(f"$.calibration.correct[{place}]", message))
        if not (math.isfinite(promised) and 0 <= promised <= n * (1 + 1e-9)):
            message = f"summed confidence must be inside [0, {n}], got {promised}"
            problems.append(Problem(f"$.calibration.confidence_sum[{place}]", message))
    return problems


def _check_categories(point: Any) -> list[Problem]:
    if not any(point.categories.values()):
        return [Problem("$.categories", "categories must have at least one item, got n=0")]
    return []


_CHECKS: Final = {
    "k": _check_k,
    "sum": _check_sum,
    "histogram": _check_histogram,
    "calibration": _check_calibration,
    "categories": _check_categories,
}

_WINDOW: Final = {
    "asset": "support-triage",
    "metric": "golden_accuracy",
    "start": "2026-03-01T00:00:00Z",
    "end": "2026-03-02T00:00:00Z",
}
_VALUE: Final = _WINDOW | {"value": 0.93, "n": 200}
_BINS: Final = {"items": [0, 40], "confidence_sum": [0, 33.5], "correct": [0, 31]}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One watched metric of one asset over one closed window.",
    forms=(
        Form(
            name="point",
            type=Point,
            marks=frozenset({"asset", "metric", "start", "end"}),
            identity="asset",
            unique=("asset", "metric", "start", "source", "version"),
            good=(
                _VALUE,
                _VALUE | {"schema": NAME, "source": "replica-2", "value": -1.5},
                _VALUE | {"version": "2.1.0"},
                _WINDOW | {"n": 10, "sum": 4.0, "sum_squares": 2.5},
                _WINDOW | {"n": 200, "k": 7},
                _WINDOW | {"histogram": [0, 3, 9, 0]},
                _WINDOW | {"histogram": [5, 1], "edges": [0, 0.5, 20]},
                _WINDOW | {"calibration": _BINS},
                _WINDOW | {"categories": {"timeout": 3, "none": 190}},
            ),
            bad=(
                BadExample("no form", _WINDOW, "$"),
                BadExample("two forms", _VALUE | {"k": 3}, "$"),
                BadExample("a value without n", _WINDOW | {"value": 0.5}, "$.n"),
                BadExample("no items", _VALUE | {"n": 0}, "$.n"),
                BadExample("a value that is null", _VALUE | {"value": None}, "$.value"),
                BadExample("NaN as a string", _VALUE | {"value": "NaN"}, "$.value"),
                BadExample("a value out of bounds", _VALUE | {"value": 1e300}, "$.value"),
                BadExample("more hits than items", _WINDOW | {"n": 3, "k": 4}, "$.k"),
                BadExample("a sum alone", _WINDOW | {"n": 3, "sum": 1.0}, "$.sum_squares"),
                BadExample(
                    "impossible squares",
                    _WINDOW | {"n": 2, "sum": 4.0, "sum_squares": 7.0},
                    "$.sum_squares",
                ),
                BadExample("an empty histogram", _WINDOW | {"histogram": [0, 0]}, "$.histogram"),
                BadExample(
                    "edges that do not fit",
                    _WINDOW | {"histogram": [1, 2], "edges": [0, 1, 2, 3]},
                    "$.edges",
                ),
                BadExample(
                    "edges out of order",
                    _WINDOW | {"histogram": [1, 2], "edges": [0, 2, 1]},
                    "$.edges",
                ),
                BadExample("edges without a histogram", _VALUE | {"edges": [0, 1, 2]}, "$.edges"),
                BadExample("n beside counts", _WINDOW | {"n": 3, "histogram": [1, 2]}, "$.n"),
                BadExample(
                    "more correct than items",
                    _WINDOW | {"calibration": _BINS | {"correct": [0, 41]}},
                    "$.calibration.correct[1]",
                ),
                BadExample(
                    "too much confidence",
                    _WINDOW | {"calibration": _BINS | {"confidence_sum": [0, 40.5]}},
                    "$.calibration.confidence_sum[1]",
                ),
                BadExample(
                    "bins of two lengths",
                    _WINDOW | {"calibration": _BINS | {"correct": [3]}},
                    "$.calibration",
                ),
                BadExample("nothing counted", _WINDOW | {"categories": {"a": 0}}, "$.categories"),
                BadExample(
                    "a category of two lines", _WINDOW | {"categories": {"a\nb": 1}}, "$.categories"
                ),
                BadExample("ends before it starts", _VALUE | {"end": _WINDOW["start"]}, "$.end"),
                BadExample("no time zone", _VALUE | {"start": "2026-03-01T00:00:00"}, "$.start"),
                BadExample(
                    "half a second", _VALUE | {"start": "2026-03-01T00:00:00.5Z"}, "$.start"
                ),
                BadExample("a metric on two lines", _VALUE | {"metric": "a\nb"}, "$.metric"),
                BadExample("a version with a space", _VALUE | {"version": "2 1"}, "$.version"),
                BadExample(
                    "a version in the metric",
                    _VALUE | {"metric": 'accuracy{version="2.1.0"}'},
                    "$.metric",
                ),
                BadExample("a misspelled field", _VALUE | {"windows": 3}, "$"),
                BadExample("another schema", _VALUE | {"schema": "gatemark.vote/1"}, "$.schema"),
            ),
            rules=(point_is_whole,),
        ),
    ),
)
