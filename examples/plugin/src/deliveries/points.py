"""Observations for drift monitoring: whether each trip with a time and a courier was late."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import UNSET

from deliveries.records import SCHEMA, Trip
from gatemark.evidence.observations import Hit, Observation, PointSource
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import find_sources
from gatemark.evidence.whole_file import admitted_batches


def _read(
    paths: Sequence[str], choices: ReadingChoices
) -> Iterator[tuple[str, Iterator[Observation]]]:
    """Read files of trips one by one."""
    form = SCHEMA.form("trip")
    with tempfile.TemporaryDirectory(prefix="deliveries-") as folder:
        for source in find_sources(paths, choices.limits, Path(folder)):
            batches = admitted_batches(source, form, choices)
            found = (one for batch in batches for _, trip in batch for one in _observations(trip))
            yield source.name, found


def _observations(trip: Trip) -> Iterator[Observation]:
    if trip.at is UNSET or trip.courier is UNSET:
        return
    is_late = trip.minutes > trip.promised_minutes
    yield Observation(trip.courier, "late_ratio", trip.at, Hit(is_late))


POINTS = PointSource("deliveries", _read)
