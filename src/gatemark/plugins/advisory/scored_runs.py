"""The runs that are scored, under names that may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gatemark.plugins.advisory.confidence_buckets import BUCKETS
from gatemark.plugins.advisory.exam_state import AdvisoryExamState

LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""


class ScoredRuns(NamedTuple):
    """The runs that are scored: bucket counts and first seconds by run.

    Records without a run form one together. A replayed recording counts in no bucket: it was not
    executed again. Names are safe to show.
    """

    buckets: dict[str, LaneBuckets]
    began: dict[str, str]
    fixture_sets: tuple[str, ...]


def group_scored_runs(
    state: AdvisoryExamState, shown: Mapping[str, str], shown_lanes: Mapping[str, str]
) -> ScoredRuns:
    """Return the runs of a state under names that may be shown."""
    buckets: dict[str, LaneBuckets] = {}
    named = [
        ((shown.get(key.run, key.run), shown_lanes[key.lane]), key, count)
        for key, count in state.runs.items()
    ]
    for (run, lane), key, count in sorted(named, key=lambda row: row[0]):
        by_bucket = buckets.setdefault(run, {}).setdefault(lane, dict.fromkeys(BUCKETS, 0))
        if not key.replayed:
            by_bucket[key.bucket] += count
    return ScoredRuns(
        buckets=buckets,
        began={shown.get(run, run): moment for run, moment in state.first_times.items()},
        fixture_sets=tuple(sorted(shown.get(name, name) for name in state.fixture_sets)),
    )
