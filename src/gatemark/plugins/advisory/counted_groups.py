"""The counts of groups of records: of everything, of lanes, of buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Final

from gatemark.plugins.advisory.category import CATEGORIES
from gatemark.plugins.advisory.metrics import ADVISORY_METRICS, BREAKDOWNS, Breakdown
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.record import CASE_KINDS
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.plugins.advisory.scored_kind import ScoredKind, score_kind

_NUMERATORS: Final = [(metric.name, metric.counts) for metric in ADVISORY_METRICS if metric.counts]
_DENOMINATORS: Final = [(metric.name, metric.of) for metric in ADVISORY_METRICS if metric.of]


class GroupCounts:
    """The counts of a group of records: numerators and denominators by metric, and breakdowns.

    ``untimed`` counts inputs whose time is unknown.
    """

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()
        self.wholes: Counter[str] = Counter()
        self.by: dict[Breakdown, Counter[str]] = {name: Counter() for name in BREAKDOWNS}
        self.untimed = 0

    def count(self, scored: ScoredKind, count: int) -> None:
        """Count the records of one kind."""
        for name, counts in _NUMERATORS:
            if counts(scored):
                self.parts[name] += count
        for name, of in _DENOMINATORS:
            if of(scored):
                self.wholes[name] += count
        for name, values in BREAKDOWNS.items():
            for value in values(scored):
                if value is not None:
                    self.by[name][value] += count
        if scored.is_input and not scored.kind.timed:
            self.untimed += count

    def add(self, other: GroupCounts) -> None:
        """Add the counts of another group."""
        self.parts.update(other.parts)
        self.wholes.update(other.wholes)
        for name, counter in other.by.items():
            self.by[name].update(counter)
        self.untimed += other.untimed

    @property
    def records(self) -> int:
        """Number of records."""
        return self.parts["total_records"]

    @property
    def categories(self) -> dict[str, int]:
        """The nine categories; they add up to the records."""
        return {category: self.by["category"][category] for category in CATEGORIES}

    @property
    def missing_cases(self) -> tuple[str, ...]:
        """The kinds of cases that are not among the records."""
        return tuple(kind for kind in CASE_KINDS if not self.by["case"][kind])

    def sort_breakdown(self, name: Breakdown) -> dict[str, int]:
        """Return a breakdown sorted by name."""
        return dict(sorted(self.by[name].items()))


class CountedGroups:
    """The counts of everything, of lanes, of buckets, and of the buckets of each lane.

    Lanes have the names that may be shown. ``scored`` has the kinds themselves and their counts.
    """

    def __init__(
        self, kinds: Iterable[tuple[str, RecordKind, int]], policy: AdvisoryPolicy
    ) -> None:
        self.all = GroupCounts()
        self.lanes: dict[str, GroupCounts] = {}
        self.buckets: dict[str, GroupCounts] = {}
        self.lane_buckets: dict[tuple[str, str], GroupCounts] = {}
        self.scored: list[tuple[ScoredKind, int]] = []
        own = cache(lambda lane: (policy.taxonomy(lane), policy.bounds(lane)))
        for shown_lane, kind, count in kinds:
            scored = score_kind(kind, *own(kind.lane))
            self.lane_buckets.setdefault((shown_lane, kind.bucket), GroupCounts()).count(
                scored, count
            )
            self.scored.append((scored, count))
        for (lane, bucket), counts in self.lane_buckets.items():
            self.lanes.setdefault(lane, GroupCounts()).add(counts)
            self.buckets.setdefault(bucket, GroupCounts()).add(counts)
            self.all.add(counts)

    def count_case(self, lane: str, case: str, count: int) -> None:
        """Count records whose notes name the kind of case."""
        for counts in (self.all, self.lanes[lane]):
            counts.by["case"][case] += count

    def get_bucket(self, bucket: str, lane: str | None = None) -> GroupCounts:
        """Return the counts of a bucket, of everything or of one lane."""
        found = self.buckets.get(bucket) if lane is None else self.lane_buckets.get((lane, bucket))
        return found or GroupCounts()
