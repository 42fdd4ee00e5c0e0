"""A point: one watched metric of one asset over one closed window."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

NAME: Final = "gatemark.point/1"
LARGEST_VALUE: Final = 1e18
MAX_PARTS: Final = 256
SHORTEST_WINDOW: Final = timedelta(seconds=1)
LONGEST_WINDOW: Final = timedelta(days=366)

Name = Annotated[str, Meta(pattern=r"\S", max_length=256)]
Moment = Annotated[datetime, Meta(tz=True)]
Items = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**53 - 1)]
VersionName = Annotated[str, Meta(pattern=r'^[^\s"{}]+$', max_length=128)]
Number = Annotated[float, Meta(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
Square = Annotated[float, Meta(ge=0, le=LARGEST_VALUE**2)]


class CalibrationBins(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Items, summed confidence and correct items of equal-width bins, lowest first."""

    items: Annotated[list[Count], Meta(min_length=1, max_length=MAX_PARTS)]
    confidence_sum: Annotated[list[float], Meta(min_length=1, max_length=MAX_PARTS)]
    correct: Annotated[list[Count], Meta(min_length=1, max_length=MAX_PARTS)]


class Point(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One window of one metric, in exactly one of six forms.

    ``value`` with ``n``; ``sum`` and ``sum_squares`` with ``n``; ``k`` with ``n``; ``histogram``,
    with its ``edges`` when they are not equal widths of [0, 1]; ``calibration``; ``categories``.
    ``source`` distinguishes senders whose points of one window add up; in any spelling it is one.
    ``version`` is the version that was measured; without it a point is about the version that
    served the window.
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
    version: VersionName | UnsetType = UNSET
    schema: Literal["gatemark.point/1"] | UnsetType = UNSET


FORMS: Final = ("value", "sum", "k", "histogram", "calibration", "categories")


class Pushed(Struct, frozen=True):
    """The number of points of a push that were new, already known, or corrections."""

    received: int
    added: int
    repeated: int
    corrected: int
    series_added: int
