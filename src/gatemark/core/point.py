"""One watched metric of one asset over one closed window, and what such a point must not say.

A point is a value, or counts that add up over shorter windows and over several senders: sums,
k of n, a histogram, calibration bins, or categories.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.identity import is_one_line
from gatemark.core.record import Problem

NAME: Final = "gatemark.point/1"
LARGEST_VALUE: Final = 1e18
MAX_PARTS: Final = 256
SHORTEST_WINDOW: Final = timedelta(seconds=1)
LONGEST_WINDOW: Final = timedelta(days=366)

Name = Annotated[str, Meta(pattern=r"\S", max_length=256)]
Moment = Annotated[datetime, Meta(tz=True)]
Items = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Number = Annotated[float, Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
Square = Annotated[float, Meta(ge=0, le=LARGEST_VALUE**2)]


class CalibrationBins(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Items, summed confidence and correct items of each equal-width bin, lowest first."""

    items: Annotated[list[Count], Meta(min_length=1, max_length=MAX_PARTS)]
    confidence_sum: Annotated[list[float], Meta(min_length=1, max_length=MAX_PARTS)]
    correct: Annotated[list[Count], Meta(min_length=1, max_length=MAX_PARTS)]


class Point(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One window of one metric, in exactly one of six forms.

    ``value`` with ``n``; ``sum`` and ``sum_squares`` with ``n``; ``k`` with ``n``; ``histogram``,
    with its ``edges`` when they are not equal widths of [0, 1]; ``calibration``; ``categories``.
    ``source`` tells senders apart whose points of one window add up.
    """

    asset: Name
    metric: Name
    start: Moment
    end: Moment
    n: Items | UnsetType = UNSET
    value: Number | UnsetType = UNSET
    k: Count | UnsetType = UNSET
    sum: Number | UnsetType = UNSET
    sum_squares: Square | UnsetType = UNSET
    histogram: Annotated[list[Count], Meta(min_length=2, max_length=MAX_PARTS)] | UnsetType = UNSET
    edges: Annotated[list[Number], Meta(min_length=3, max_length=MAX_PARTS + 1)] | UnsetType = UNSET
    calibration: CalibrationBins | UnsetType = UNSET
    categories: (
        Annotated[dict[Name, Count], Meta(min_length=1, max_length=MAX_PARTS)] | UnsetType
    ) = UNSET
    source: Name | UnsetType = UNSET
    schema: Literal["gatemark.point/1"] | UnsetType = UNSET


FORMS: Final = ("value", "sum", "k", "histogram", "calibration", "categories")
COUNTED: Final = ("value", "sum", "k")


def point_is_whole(point: Point) -> list[Problem]:
    """Everything that no single field can show; good points pass quickly."""
    form = _only_form(point)
    if form is None:
        return _form_problems(point)
    length = point.end - point.start
    if (
        not SHORTEST_WINDOW <= length <= LONGEST_WINDOW
        or point.start.microsecond
        or point.end.microsecond
    ):
        return _window_problems(point)
    if not point.metric.isprintable() or point.source is not UNSET or form == "categories":
        names = _name_problems(point)
        if names:
            return names
    if (
        (form in COUNTED) != (point.n is not UNSET)
        or (form == "sum") != (point.sum_squares is not UNSET)
        or (form != "histogram" and point.edges is not UNSET)
    ):
        return _part_problems(point, form)
    return _CHECKS[form](point) if form != "value" else []


def _only_form(point: Point) -> str | None:
    """The one form a point has; None when it has several or none."""
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


def _form_problems(point: Point) -> list[Problem]:
    forms = [name for name in FORMS if getattr(point, name) is not UNSET]
    listed = ", ".join(forms) or "none"
    return [Problem("$", f"a point must have exactly one of {', '.join(FORMS)}; got {listed}")]


def _window_problems(point: Point) -> list[Problem]:
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
    return [
        Problem(f"$.{field}", f"{name!r} has a control character")
        for field, name in names
        if not is_one_line(name)
    ]


def _part_problems(point: Point, form: str) -> list[Problem]:
    if (form in COUNTED) != (point.n is not UNSET):
        verb = "needs" if form in COUNTED else "counts by itself and must not have"
        return [Problem("$.n", f"{form} {verb} n")]
    if (form == "sum") != (point.sum_squares is not UNSET):
        return [Problem("$.sum_squares", "sum and sum_squares come together")]
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
        return [Problem("$.histogram", "a histogram must count something, got n=0")]
    if point.edges is UNSET:
        return []
    if len(point.edges) != len(point.histogram) + 1:
        finding = f"{len(point.histogram)} bins have {len(point.edges)} edges"
        return [Problem("$.edges", f"edges must be one more than bins, {finding}")]
    if any(high <= low for low, high in zip(point.edges, point.edges[1:], strict=False)):
        return [Problem("$.edges", "edges must rise")]
    return []


def _check_calibration(point: Any) -> list[Problem]:
    bins = point.calibration
    if not len(bins.items) == len(bins.confidence_sum) == len(bins.correct):
        return [Problem("$.calibration", "every bin needs items, confidence_sum and correct")]
    if not any(bins.items):
        return [Problem("$.calibration.items", "calibration must count something, got n=0")]
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
        return [Problem("$.categories", "categories must count something, got n=0")]
    return []


_CHECKS: Final = {
    "k": _check_k,
    "sum": _check_sum,
    "histogram": _check_histogram,
    "calibration": _check_calibration,
    "categories": _check_categories,
}
