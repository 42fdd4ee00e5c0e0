"""Earlier runs. They are derived from their records: a summary is not evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.plugins.advisory.input_rows import InputTable
from gatemark.plugins.advisory.pinned_fixtures import PinnedFixtures
from gatemark.plugins.advisory.policy import AdvisoryPolicy, Stability
from gatemark.plugins.advisory.ranged_number import NumberKey, RangedNumber
from gatemark.plugins.advisory.scored_runs import LaneBuckets, ScoredRuns


class EarlierRun(NamedTuple):
    """An earlier run, derived from its records. ``broken`` has the rules it broke, by lane.

    ``high_false_positives`` counts false positives of high severity by lane, in the first run of a
    file for all of its runs. ``began`` is its first second, in UTC. Lanes have the names that may
    be shown. ``shared`` counts the records of its file, called ``name``, that are being scored as
    well.
    """

    run: str
    began: str
    evidence: str
    lanes: LaneBuckets
    inputs: InputTable
    broken: Mapping[str, tuple[str, ...]]
    name: str = ""
    shared: int = 0
    high_false_positives: Mapping[str, int] | None = None


class Terms(NamedTuple):
    """What a state is judged by besides the policy: earlier runs and pinned fixtures."""

    earlier: Sequence[EarlierRun] = ()
    fixtures: PinnedFixtures | None = None


def list_runs_before(terms: Terms, runs: ScoredRuns) -> list[EarlierRun]:
    """Return the earlier runs that are not scored now; none may share records with these."""
    before = [run for run in terms.earlier if run.run not in runs.buckets]
    for run in before:
        if run.shared:
            raise BadInputError(
                f"{run.name}: has {run.shared} records that are in the scored files too"
            )
    return before


def add_earlier_false_positives(
    counted: Mapping[NumberKey, RangedNumber],
    before: Sequence[EarlierRun],
    lanes: Iterable[str],
    policy: AdvisoryPolicy,
) -> Iterator[tuple[NumberKey, RangedNumber]]:
    """Yield the false positives of high severity over the runs that are judged together."""
    name = "high_severity_false_positive_count"
    recent = before[-(policy.stability.clean_runs - 1) :] if policy.stability.clean_runs > 1 else ()
    for lane in (None, *lanes):
        earlier = sum(
            count
            for run in recent
            for own, count in (run.high_false_positives or {}).items()
            if lane in (None, own)
        )
        if not earlier:
            continue
        found, low, high = counted[name, lane]
        if found.value is not None:
            found = msgspec.structs.replace(
                found,
                value=found.value + earlier,
                caveats=(*found.caveats, f"{earlier} of them in earlier runs"),
            )
        yield (
            (name, lane),
            RangedNumber(found, low + earlier, None if high is None else high + earlier),
        )


def list_failed_runs(
    before: Sequence[EarlierRun], runs: ScoredRuns, lane: str, stability: Stability
) -> list[str]:
    """Return the earlier runs that broke a rule of a lane, unless enough clean runs followed."""
    failed = [run for run in before if run.broken.get(lane)]
    if not failed:
        return []
    last = max(run.began for run in failed)
    times = [run.began for run in before if not run.broken.get(lane)]
    times += [runs.began.get(run, "") for run in runs.buckets]
    clean = sum(moment > last for moment in times)
    if clean >= stability.clean_runs:
        return []
    return [
        *(f"run {run.run} broke {', '.join(run.broken[lane])}" for run in failed),
        f"{clean} clean runs since then, needs {stability.clean_runs}",
    ]
