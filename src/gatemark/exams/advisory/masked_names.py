"""Names from evidence as they may be shown: one that looks private is replaced by a number."""

from __future__ import annotations

from collections.abc import Iterable

from gatemark.evidence.hygiene.private_text import PrivateTextScan
from gatemark.exams.advisory.categories import lane_name
from gatemark.exams.advisory.facts import LaneKey
from gatemark.exams.advisory.tally import Group, Tally, added


class ShownNames:
    """Names of lanes, fixture sets and runs, with what looks private withheld."""

    def __init__(self, tally: Tally, scan: PrivateTextScan) -> None:
        names = sorted(
            {name for group in tally for name in _names_in(group)},
            key=lambda name: (len(name), name),
        )
        withheld = [name for name in names if scan.kinds(name)]
        self._instead = {name: f"withheld-{number}" for number, name in enumerate(withheld, 1)}

    def name(self, name: str) -> str:
        """A name as it may be shown."""
        return self._instead.get(name, name)

    def lane(self, lane: str) -> str:
        """A lane as it may be shown."""
        input_class, _, service = lane.partition("/")
        return lane_name(self.name(input_class), self.name(service))

    def key(self, key: LaneKey) -> LaneKey:
        """A lane's two names as they may be shown."""
        return self.name(key[0]), self.name(key[1])

    def tally(self, tally: Tally) -> Tally:
        """The same counts under names that may be shown."""
        if not self._instead:
            return tally
        total: Tally = {}
        for group, counts in tally.items():
            total = added(total, {self._group(group): counts})
        return total

    def _group(self, group: Group) -> Group:
        match group:
            case ("lane", lane):
                return ("lane", self.lane(lane))
            case ("lane_bucket", lane, bucket):
                return ("lane_bucket", self.lane(lane), bucket)
            case ("run", run, lane):
                return ("run", self.name(run), self.lane(lane))
            case (kind, name) if kind in ("class", "service", "set"):
                return (kind, self.name(name))
            case _:
                return group


def _names_in(group: Group) -> Iterable[str]:
    match group:
        case ("run", run, _):
            return (run,)
        case (kind, name) if kind in ("class", "service", "set"):
            return (name,)
        case _:
            return ()
