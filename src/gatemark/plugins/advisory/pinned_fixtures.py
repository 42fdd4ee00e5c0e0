"""The fixtures that every run must have, and how runs differ from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from gatemark.plugins.advisory.input_rows import hash_inputs
from gatemark.plugins.advisory.lane_inputs import RunInputs, show_run
from gatemark.plugins.advisory.record import HASH_PATTERN, ContentHash


class PinnedFixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input that every run must have."""

    input_class: str
    fixture_id: str
    content_hash: Annotated[ContentHash, msgspec.Meta(pattern=HASH_PATTERN)]


class PinnedFixtures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fixtures that every run must have, and no others."""

    fixture_set: str
    fixtures: tuple[PinnedFixture, ...]


NAMED_RUNS: Final = 3


def hash_pinned(pinned: PinnedFixtures, input_class: str) -> set[bytes]:
    """Return the pinned fixtures of one kind of input, as the rows of ``RunInputs`` have them."""
    own = [fixture for fixture in pinned.fixtures if fixture.input_class == input_class]
    pairs = hash_inputs(
        {
            "source.fixture_set": [pinned.fixture_set] * len(own),
            "source.fixture_id": [fixture.fixture_id for fixture in own],
            "source.content_hash": [fixture.content_hash for fixture in own],
        }
    )
    data = pairs.tobytes()
    return {data[start : start + 16] for start in range(0, len(data), 16)}


def compare_with_pinned(
    runs: Mapping[str, RunInputs], pinned: PinnedFixtures, lane: str
) -> tuple[int, tuple[str, ...]]:
    """Return how many pinned fixtures are missing and how many are not pinned, over all runs."""
    wanted = hash_pinned(pinned, lane.partition("/")[0])
    total, found = 0, []
    for run, own in runs.items():
        given = {own.pairs[start : start + 16] for start in range(0, len(own.pairs), 16)}
        missing, strange = len(wanted - given), len(given - wanted)
        if missing or strange:
            total += missing + strange
            found.append(
                f"run {show_run(run)}: {missing} pinned fixtures are missing, "
                f"{strange} are not pinned"
            )
    more = (f"and {len(found) - NAMED_RUNS} more runs",) if len(found) > NAMED_RUNS else ()
    return total, (*found[:NAMED_RUNS], *more)
