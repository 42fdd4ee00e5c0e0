"""Observations of watched metrics in records; drift counts them into points.

An exam offers a ``PointSource`` named ``POINTS`` in its module ``points``. The entry point of a
plugin is called ``point_source.NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

import msgspec

from gatemark.core.registry import Registry
from gatemark.evidence.reading_choices import ReadingChoices


class Hit(NamedTuple):
    """One item of a rate."""

    is_hit: bool


class ConfidenceValue(NamedTuple):
    """One stated confidence, and whether the answer was right; None if unknown."""

    score: float
    is_correct: bool | None = None


class Occurrence(NamedTuple):
    """One occurrence of a class."""

    name: str


class Observation(NamedTuple):
    """One value of a metric; ``subject`` is what the record is about."""

    subject: str
    metric: str
    at: datetime
    value: Hit | ConfidenceValue | Occurrence


class PointSource(msgspec.Struct, frozen=True):
    """A kind of file that holds observations; ``read`` gives them file by file, in order.

    The observations of a file must be taken before the next file is asked for.
    """

    name: str
    read: Callable[[Sequence[str], ReadingChoices], Iterator[tuple[str, Iterator[Observation]]]]


@cache
def point_sources() -> Registry[PointSource]:
    """Return the kinds of files that drift can derive points from."""
    return Registry(
        kind="point source",
        places=(),
        attribute="POINTS",
        plugin_type=PointSource,
        name_of=lambda source: source.name,
    )
