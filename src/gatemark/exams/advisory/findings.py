"""Everything found in the evidence under a policy: numbers by lane, runs, times, other lanes."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Rule
from gatemark.evidence.hygiene import PrivateTextScan
from gatemark.exams.advisory.decision import BUCKETS
from gatemark.exams.advisory.inputs import (
    InputTable,
    LaneInputs,
    PinnedFixtures,
    RunInputs,
    fixture_differences,
    joined_tables,
    lane_inputs,
    lane_problems,
    unequal_runs,
)
from gatemark.exams.advisory.measure import lanes_of
from gatemark.exams.advisory.metrics import (
    COUNTS,
    METRIC,
    RATES,
    CountedGroups,
    Counts,
    ScoredKind,
    score_kind,
)
from gatemark.exams.advisory.policy import (
    ASKED_OVERALL,
    FIRST_RULES,
    HIGH_SEVERITIES,
    UNCERTAIN_BUCKETS,
    AdvisoryPolicy,
    RulesVersion,
    Stability,
    global_rules,
    input_rules,
    lane_name,
    lane_rules,
    overall_rules,
)
from gatemark.exams.advisory.state import AdvisoryExamState, ViolatedField, Violation
from gatemark.statistics.homogeneity import homogeneity, largest_shift
from gatemark.statistics.quantiles import Floats, percentile_disc, rank, sketch_percentile

SHOWN_VIOLATIONS: Final = 100
RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SEED: Final = 20_260_606

NumberKey = tuple[str, str | None]
LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


class Times(NamedTuple):
    """The times of some records, one by one or as a sketch."""

    exact: Floats | None
    sketch: Mapping[int, int]

    @property
    def n(self) -> int:
        """Number of times."""
        return sum(self.sketch.values()) if self.exact is None else int(self.exact.size)

    @property
    def method(self) -> str:
        """How a percentile of these times is computed."""
        return "percentile_disc" if self.exact is not None else "percentile_disc of a sketch"

    def percentile(self, percent: int) -> float | None:
        """Return the percentile, or None without times."""
        if self.n == 0:
            return None
        if self.exact is None:
            return sketch_percentile(self.sketch, percent)
        return percentile_disc(self.exact, percent)

    def bounds(self, percent: int, unknown: int) -> tuple[float, float | None]:
        """Return the range of the percentile with ``unknown`` more times; None is unbounded."""
        wanted = rank(percent, self.n + unknown)
        if self.n == 0:
            return 0.0, None
        low = self._nth(wanted - unknown) if wanted > unknown else 0.0
        return low, self._nth(wanted) if wanted <= self.n else None

    def _nth(self, place: int) -> float:
        if self.exact is not None:
            return float(self.exact[place - 1])
        first: dict[int, int] = {}
        for key in sorted(self.sketch):
            first[key] = min(self.sketch[key], place)
            place -= first[key]
            if place == 0:
                break
        return sketch_percentile(first, 100)


def times_of(state: AdvisoryExamState, lanes: Iterable[str]) -> Times:
    """Return the times of several lanes together."""
    chosen = list(lanes)
    if any(lane in state.sketches for lane in chosen) or (
        state.sketches and not state.times_by_lane
    ):
        total: Counter[int] = Counter()
        for lane in chosen:
            total.update(state.sketches.get(lane, {}))
        return Times(None, total)
    parts = [np.frombuffer(state.times_by_lane.get(lane, b""), np.float64) for lane in chosen]
    return Times(np.sort(np.concatenate(parts)) if parts else np.zeros(0), {})


class Number(NamedTuple):
    """A measurement and its possible range; ``high`` None means unbounded.

    A record that was refused, lost or set aside could have been anything. So every number has a
    range: as if all lost records were in favour of the lane, and as if all were against it.
    """

    measurement: Measurement
    low: float
    high: float | None


def group_numbers(counts: Counts, lost: int, lane: str | None = None) -> list[Number]:
    """Return every count and rate of one group."""
    found = []
    for metric in COUNTS:
        count = counts.parts[metric.name]
        number = metric.measured(count, n=counts.records, lane=lane)
        found.append(Number(number, count, count + lost))
    for metric in RATES:
        count, n = counts.parts[metric.name], counts.wholes[metric.name]
        if n == 0 and metric.or_of is not None:
            n = counts.wholes[metric.or_of]
        if n == 0:
            found.append(Number(metric.unmeasured(metric.empty, lane=lane), 0.0, 1.0))
        else:
            number = metric.measured(count / n, n=n, lane=lane)
            found.append(Number(number, count / (n + lost), (count + lost) / (n + lost)))
    return found


def case_number(counts: Counts, lost: int, lane: str) -> Number:
    """Return how many of the four kinds of cases a lane lacks."""
    lacking = len(counts.missing_cases)
    found = METRIC["missing_case_kind_count"].measured(lacking, n=counts.records, lane=lane)
    return Number(found, max(0, lacking - lost), lacking)


def holds(rule: Rule, value: float | None) -> bool:
    """Whether a value meets a rule; an unbounded one meets no upper limit."""
    if value is None:
        return rule.op in (">=", ">")
    return _COMPARE[rule.op](value, rule.bound)


def judged(rule: Rule, number: Number | None) -> bool | None:
    """Whether a number certainly meets or certainly breaks a rule; None if neither is certain."""
    if number is None or number.measurement.value is None:
        return None
    low, high = holds(rule, number.low), holds(rule, number.high)
    return low if low == high else None


def guarded(number: Number, rules: list[Rule], lost: int) -> Measurement:
    """Return the measurement, without its value if lost records could change a rule's outcome."""
    found = number.measurement
    if found.value is None or all(judged(rule, number) is not None for rule in rules):
        return found
    spread = "has no end" if number.high is None else f"could be up to {number.high:.6g}"
    unknown = found.excluded.get("unknown", lost)
    reason = (
        f"{found.value:.6g} over what is known, but {unknown} records are lost or untimed: "
        f"it could be as low as {number.low:.6g} and {spread}"
    )
    return msgspec.structs.replace(found, value=None, reason=reason, interval=None)


class PastRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bucket counts of an earlier run, its fixtures, and its files."""

    run: str
    fixture_sets: tuple[str, ...]
    evidence: tuple[str, ...]
    lanes: LaneBuckets


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
    """What a state is judged by besides the policy: version, earlier runs, pinned fixtures."""

    version: RulesVersion = FIRST_RULES
    summaries: Sequence[PastRun] = ()
    earlier: Sequence[EarlierRun] = ()
    fixtures: PinnedFixtures | None = None


class OtherLane(NamedTuple):
    """The default limits broken by a lane that the policy does not name, or leaves open."""

    broken: tuple[str, ...]
    open: tuple[str, ...]


class AllTimes(NamedTuple):
    """All times, and the times by lane, service and input class."""

    all: Times
    lanes: dict[str, Times]
    services: dict[str, Times]
    classes: dict[str, Times]


class WrongRecord(NamedTuple):
    """A record for people to look at: what is wrong with it, expected and given."""

    decision_id: str
    fixture_id: str | None
    run: str | None
    lane: str
    problem: str
    expected: str | None
    given: str
    bucket: str


class WrongRecords(NamedTuple):
    """The worst of the wrong, uncertain and violating records, and their total number."""

    total: int
    by_problem: dict[str, int]
    worst: list[WrongRecord]


class Findings(NamedTuple):
    """The findings in the evidence under a policy. Names are safe to show."""

    policy: AdvisoryPolicy
    version: RulesVersion
    lost: int
    counts: CountedGroups
    numbers: dict[NumberKey, Number]
    lanes: tuple[str, ...]
    times: AllTimes
    runs: dict[str, LaneBuckets]
    past_runs: tuple[str, ...]
    other_fixture_runs: int
    held_by: dict[str, dict[str, list[str]]]
    began: dict[str, str]
    public_names: dict[str, str]
    fixture_sets: tuple[str, ...]
    other_lanes: dict[str, OtherLane]
    violations: list[Violation]
    violation_counts: dict[ViolatedField, int]
    wrong: WrongRecords

    def number(self, name: str, lane: str | None = None) -> Measurement:
        """Return a measurement over the records that were not lost."""
        return self.numbers[name, lane].measurement

    def guarded(self, rules: Mapping[NumberKey, list[Rule]]) -> tuple[Measurement, ...]:
        """Return all measurements, without values that lost records could change."""
        return tuple(
            guarded(number, rules.get(key, []), self.lost) for key, number in self.numbers.items()
        )


def find(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    terms: Terms,
    scan: PrivateTextScan,
    *,
    lost: int,
    digests: frozenset[str],
) -> Findings:
    """Return the findings of a settled state whose labels are all defined."""
    shown = _shown_names(state, scan)
    shown_lanes = {
        lane: lane_name(*(shown.get(name, name) for name in lane.split("/")))
        for lane in lanes_of(state)
    }
    counts = CountedGroups(
        ((shown_lanes[kind.lane], kind, count) for kind, count in state.kinds.items()),
        policy,
        terms.version,
    )
    for noted, count in state.cases.items():
        counts.count_case(shown_lanes[noted.lane], noted.case, count)
    lanes = tuple(sorted(counts.lanes))
    fixture_sets = tuple(sorted(shown.get(name, name) for name in state.fixture_sets))
    times = _all_times(state, shown_lanes)
    runs, sure = _runs(state, shown, shown_lanes)
    numbers = _numbers(counts, times, lost)
    held_by: dict[str, dict[str, list[str]]] = {}
    began = {shown.get(run, run): moment for run, moment in state.first_times.items()}
    if terms.version == FIRST_RULES:
        past, other_runs = comparable_history(terms.summaries, runs, fixture_sets, digests)
        shift_of = partial(
            shift_number, rule=policy.stability, lost=lost, same_inputs=bool(fixture_sets)
        )
        all_runs = [*(run.lanes for run in past), *runs.values()]
        numbers |= _first_numbers(counts, all_runs, sure, lost, shift_of)
        past_names = tuple(run.run for run in past)
    else:
        other_runs = 0
        before = _runs_before(terms, runs)
        past_names = tuple(run.run for run in before)
        everything = joined_tables([state.inputs, *(run.inputs for run in before)])
        for raw, lane in shown_lanes.items():
            judge = _LaneHistory(state, policy, before, (raw, lane), shown, version=terms.version)
            judge.problems = list(lane_problems(everything, raw, terms.version))
            found, held_by[lane] = judge.numbers(runs, began, terms.fixtures, lost)
            numbers.update({(name, lane): number for name, number in found.items()})
        _add_earlier_false_positives(numbers, before, lanes, policy)
    others = _other_lanes(policy, lanes, numbers, terms)
    numbers["other_lanes_below_count", None] = _other_lanes_number(others, len(lanes), lost)
    return Findings(
        policy=policy,
        version=terms.version,
        lost=lost,
        counts=counts,
        numbers=numbers,
        lanes=lanes,
        times=times,
        runs=runs,
        past_runs=past_names,
        other_fixture_runs=other_runs,
        held_by=held_by,
        began=began,
        public_names=shown,
        fixture_sets=fixture_sets,
        other_lanes=others,
        violations=_first_violations(state),
        violation_counts=dict(sorted(state.violation_counts.items())),
        wrong=_wrong_records(
            state, policy, terms.version, shown=shown, shown_lanes=shown_lanes, scan=scan
        ),
    )


def _first_numbers(
    counts: CountedGroups,
    runs: Sequence[LaneBuckets],
    sure: Mapping[str, Mapping[str, int]],
    lost: int,
    shift_of: Callable[[str, Sequence[Mapping[str, int]]], Number],
) -> Iterator[tuple[NumberKey, Number]]:
    """Yield the numbers on runs and inputs by version 1 of the rules."""
    for lane, own in sorted(counts.lanes.items()):
        yield ("bucket_shift", lane), shift_of(lane, [run.get(lane, {}) for run in runs])
        yield ("comparable_inputs", lane), _inputs_number(lane, own, sure.get(lane, {}), lost)


def _runs_before(terms: Terms, runs: Mapping[str, LaneBuckets]) -> list[EarlierRun]:
    """Return the earlier runs that are not scored now; none may share records with these."""
    before = [run for run in terms.earlier if run.run not in runs]
    for run in before:
        if run.shared:
            raise BadInputError(
                f"{run.name}: has {run.shared} records that are in the scored files too"
            )
    return before


def _add_earlier_false_positives(
    numbers: dict[NumberKey, Number],
    before: Sequence[EarlierRun],
    lanes: Sequence[str],
    policy: AdvisoryPolicy,
) -> None:
    """Count false positives of high severity over the runs that are judged together."""
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
        number = numbers[name, lane]
        found = number.measurement
        if found.value is not None:
            found = msgspec.structs.replace(
                found,
                value=found.value + earlier,
                caveats=(*found.caveats, f"{earlier} of them in earlier runs"),
            )
        high = None if number.high is None else number.high + earlier
        numbers[name, lane] = Number(found, number.low + earlier, high)


class _LaneHistory:
    """The inputs of one lane, now and in earlier runs."""

    problems: list[str]

    def __init__(
        self,
        state: AdvisoryExamState,
        policy: AdvisoryPolicy,
        before: Sequence[EarlierRun],
        lanes: tuple[str, str],
        shown: Mapping[str, str],
        *,
        version: int,
    ) -> None:
        raw, lane = lanes
        self.policy = policy
        self.before = before
        self.lane = lane
        self.full = state.too_many_inputs or state.too_many_runs
        self.now: LaneInputs = lane_inputs(state.inputs, raw, policy, version)
        self.by_run: dict[str, RunInputs] = {}
        for run in before:
            own = lane_inputs(run.inputs, raw, policy, version).by_run
            for inputs in own.values():
                self.by_run[run.run] = inputs
        self.by_run |= {shown.get(run, run): own for run, own in self.now.by_run.items()}

    def numbers(
        self,
        runs: Mapping[str, LaneBuckets],
        began: Mapping[str, str],
        fixtures: PinnedFixtures | None,
        lost: int,
    ) -> tuple[dict[str, Number], dict[str, list[str]]]:
        """Return the numbers on inputs and earlier runs, and the blockers of the lane as text."""
        failed = self._failed_runs(runs, began)
        conflicts = len(self.problems)
        found = {
            "bucket_shift": self._shift(runs, lost),
            "comparable_inputs": self._counted("comparable_inputs", self.now.comparable, lost),
            "input_conflict_count": self._counted("input_conflict_count", conflicts, lost),
            "failed_run_count": self._counted("failed_run_count", max(0, len(failed) - 1), 0),
        }
        held = {"inputs": self.problems, "history": failed}
        if self.now.real:
            held["comparable"] = [f"{self.now.real} inputs of a shadow do not count here"]
        if fixtures is not None:
            now = {run: own for run, own in self.by_run.items() if run in runs}
            count, texts = fixture_differences(now, fixtures, self.lane)
            found["fixture_difference_count"] = self._counted(
                "fixture_difference_count", count, lost
            )
            held["fixtures"] = list(texts)
        return found, {name: texts for name, texts in held.items() if texts}

    def _counted(self, name: str, count: int, lost: int) -> Number:
        metric = METRIC[name]
        if self.full:
            why = "there are too many runs or inputs to tell them apart"
            return Number(metric.unmeasured(why, lane=self.lane), 0, None)
        n = sum(own.size for own in self.by_run.values())
        return Number(metric.measured(count, n=n, lane=self.lane), count, count + lost)

    def _shift(self, runs: Mapping[str, LaneBuckets], lost: int) -> Number:
        lane, metric = self.lane, METRIC["bucket_shift"]
        spread = {run.run: run.lanes.get(lane, {}) for run in self.before}
        spread |= {run: found.get(lane, {}) for run, found in runs.items()}
        used = {run: own for run, own in self.by_run.items() if any(spread.get(run, {}).values())}
        number = shift_number(
            lane, list(spread.values()), self.policy.stability, lost, same_inputs=False
        )
        why = unequal_runs(used) if len(used) > 1 else None
        if self.full or (number.measurement.value is not None and why is not None):
            reason = why or "there are too many runs or inputs to tell them apart"
            return Number(metric.unmeasured(reason, lane=lane), 0.0, 1.0)
        return number

    def _failed_runs(self, runs: Mapping[str, LaneBuckets], began: Mapping[str, str]) -> list[str]:
        """Return the earlier runs that broke a rule, unless enough clean runs followed."""
        failed = [run for run in self.before if run.broken.get(self.lane)]
        if not failed:
            return []
        last = max(run.began for run in failed)
        times = [run.began for run in self.before if not run.broken.get(self.lane)]
        times += [began.get(run, "") for run in runs]
        clean = sum(moment > last for moment in times)
        if clean >= self.policy.stability.clean_runs:
            return []
        wanted = self.policy.stability.clean_runs
        return [
            *(f"run {run.run} broke {', '.join(run.broken[self.lane])}" for run in failed),
            f"{clean} clean runs since then, needs {wanted}",
        ]


def broken_rules(found: Findings, policy: AdvisoryPolicy) -> dict[str, tuple[str, ...]]:
    """Return the rules that the runs of some evidence break on their own, by lane.

    The numbers of inputs and runs are judged over all runs together and left out. Since version 3,
    limits that apply only to all lanes together count for each of them.
    """
    together = [
        rule
        for rule in overall_rules(policy.overall)
        if found.version >= 3 and rule.id.removeprefix("advisory.") in ASKED_OVERALL
    ]
    shared = [
        rule.id
        for rule in (*global_rules(), *together)
        if judged(rule, found.numbers.get((rule.metric, None))) is False
    ]
    broken = {}
    for lane in found.lanes:
        own = lane_rules(policy, lane, found.version)
        broken[lane] = (
            *shared,
            *(
                rule.id.removeprefix(f"{lane}.")
                for rule in own
                if rule.metric not in _OVER_ALL_RUNS
                and judged(rule, found.numbers.get((rule.metric, lane))) is False
            ),
        )
    return broken


_OVER_ALL_RUNS: Final = frozenset(("comparable_inputs", "missing_case_kind_count", "bucket_shift"))


def _shown_names(state: AdvisoryExamState, scan: PrivateTextScan) -> dict[str, str]:
    """Return replacements for names that look private: a number for each."""
    names = {name for lane in lanes_of(state) for name in lane.split("/")}
    names |= {*state.fixture_sets, *(key.run for key in state.runs)}
    ordered = sorted(names, key=lambda name: (len(name), name))
    withheld = [name for name in ordered if scan.kinds(name)]
    return {name: f"withheld-{number}" for number, name in enumerate(withheld, 1)}


def _all_times(state: AdvisoryExamState, shown_lanes: Mapping[str, str]) -> AllTimes:
    def together(part: Callable[[str], str]) -> dict[str, Times]:
        lanes: dict[str, list[str]] = {}
        for lane, shown in shown_lanes.items():
            lanes.setdefault(part(shown), []).append(lane)
        return {name: times_of(state, lanes[name]) for name in sorted(lanes)}

    return AllTimes(
        all=times_of(state, shown_lanes),
        lanes=together(lambda lane: lane),
        services=together(lambda lane: lane.split("/")[1]),
        classes=together(lambda lane: lane.split("/")[0]),
    )


def _runs(
    state: AdvisoryExamState, shown: Mapping[str, str], shown_lanes: Mapping[str, str]
) -> tuple[dict[str, LaneBuckets], dict[str, dict[str, int]]]:
    """Return the bucket counts of every run, and the number of its certain records by lane.

    Records without a run form one together. A replayed recording counts among the certain records
    only: it was not executed again.
    """
    buckets: dict[str, LaneBuckets] = {}
    sure: dict[str, dict[str, int]] = {}
    named = [
        ((shown.get(key.run, key.run), shown_lanes[key.lane]), key, count)
        for key, count in state.runs.items()
    ]
    for (run, lane), key, count in sorted(named, key=lambda row: row[0]):
        by_bucket = buckets.setdefault(run, {}).setdefault(lane, dict.fromkeys(BUCKETS, 0))
        if not key.replayed:
            by_bucket[key.bucket] += count
        by_run = sure.setdefault(lane, {})
        by_run[run] = by_run.get(run, 0) + count * (key.bucket not in UNCERTAIN_BUCKETS)
    return buckets, sure


def _numbers(counts: CountedGroups, times: AllTimes, lost: int) -> dict[NumberKey, Number]:
    found = [
        *group_numbers(counts.all, lost),
        *_latency_numbers(times.all, counts.all.untimed, lost),
    ]
    for lane, own in times.lanes.items():
        of_lane = counts.lanes[lane]
        found += group_numbers(of_lane, lost, lane)
        found.append(case_number(of_lane, lost, lane))
        found += _latency_numbers(own, of_lane.untimed, lost, lane)
    return {number.measurement.key: number for number in found}


def _latency_numbers(
    times: Times, untimed: int, lost: int, lane: str | None = None
) -> Iterable[Number]:
    """Yield the median and the 95th percentile of total time."""
    unknown = untimed + lost
    caveats = () if times.exact is not None else ("from a sketch, up to 0.1 % too high",)
    for percent in (50, 95):
        metric = METRIC[f"p{percent}_total_ms"]
        value = times.percentile(percent)
        low, high = times.bounds(percent, unknown) if unknown else (value or 0.0, value)
        excluded = {"unknown": unknown} if unknown else None
        found = (
            metric.unmeasured(metric.empty, lane=lane)
            if value is None
            else metric.measured(value, n=times.n, lane=lane, caveats=caveats, excluded=excluded)
        )
        yield Number(found, low, high)


def _inputs_number(lane: str, counts: Counts, sure: Mapping[str, int], lost: int) -> Number:
    """Return how many inputs of a lane were compared; asking again does not add one.

    No more than the comparable records, and no more than the certain records of the largest run.
    """
    metric = METRIC["comparable_inputs"]
    n = counts.records
    if not sure:
        # This reason has always had the default unit, and measurements are sealed, so it stays.
        why = "there are too many runs to tell them apart"
        missing = unmeasured(metric.name, why, direction=metric.direction, n=n, lane=lane)
        return Number(missing, 0, None)
    inputs = min(counts.parts["comparable_records"], max(sure.values()))
    return Number(metric.measured(inputs, n=n, lane=lane), inputs, inputs + lost)


def comparable_history(
    history: Sequence[PastRun],
    here: Mapping[str, LaneBuckets],
    fixture_sets: Sequence[str],
    digests: frozenset[str],
) -> tuple[list[PastRun], int]:
    """Return the earlier runs over the same fixtures, each once, and how many were left out.

    A run in the evidence itself, or a summary of that very evidence, is not an earlier run.
    """
    kept: dict[str, PastRun] = {}
    other_runs = 0
    for past in history:
        if sorted(past.fixture_sets) != sorted(fixture_sets):
            other_runs += 1
        elif past.run not in here and digests.isdisjoint(past.evidence):
            kept[past.run] = past
    return [kept[run] for run in sorted(kept)], other_runs


def shift_number(
    lane: str,
    runs: Sequence[Mapping[str, int]],
    rule: Stability,
    lost: int,
    *,
    same_inputs: bool,
) -> Number:
    """Return how far the most distant run is from the others.

    A shift beyond the tolerance that may be chance measures neither instability nor stability. Runs
    over the ``same_inputs`` have the same number of records each; if not, some are missing, and the
    rest cannot show stability. Other runs may differ in size, but no run may be a mere sample of
    another.
    """
    metric = METRIC["bucket_shift"]
    table = [[run.get(bucket, 0) for bucket in BUCKETS] for run in runs if any(run.values())]
    table = table[-RUNS_MAX:]
    n = sum(map(sum, table))
    if len(table) < rule.runs_min:
        why = f"{len(table)} runs have records of this lane, needs {rule.runs_min}"
        return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    shift = largest_shift(table)
    if shift > rule.shift_max:
        test = homogeneity(table, np.random.default_rng(SEED))
        if test.p_value >= rule.alpha:
            why = (
                f"a shift of {shift:.4f} may be chance (p = {test.p_value:.3f} by {test.method}, "
                f"{len(table)} runs, n = {n})"
            )
            return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    least, most = min(map(sum, table)), max(map(sum, table))
    if shift <= rule.shift_max and least < most * (1 if same_inputs else OTHER_INPUTS_SHARE):
        why = f"runs have from {least} to {most} records of this lane: not all saw the same inputs"
        return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    found = metric.measured(shift, n=n, lane=lane)
    if not lost:
        return Number(found, shift, shift)
    # Lost records could have shifted two distributions, or have been a run of their own.
    room = lost / (min(map(sum, table)) + lost / 2)
    return Number(found, max(0.0, shift - room), 1.0)


def _other_lanes(
    policy: AdvisoryPolicy,
    lanes: Sequence[str],
    numbers: Mapping[NumberKey, Number],
    terms: Terms,
) -> dict[str, OtherLane]:
    others = {}
    for lane in lanes:
        if lane in policy.lanes:
            continue
        rules = (
            *lane_rules(policy, lane, terms.version),
            *input_rules(lane, terms.version, pinned=terms.fixtures is not None),
        )
        answers = {
            rule.id.removeprefix(f"{lane}."): judged(rule, numbers.get((rule.metric, lane)))
            for rule in rules
        }
        others[lane] = OtherLane(
            broken=tuple(name for name, answer in answers.items() if answer is False),
            open=tuple(name for name, answer in answers.items() if answer is None),
        )
    return others


def _other_lanes_number(others: Mapping[str, OtherLane], lane_count: int, lost: int) -> Number:
    """Return how many lanes that the policy does not name break the default limits."""
    metric = METRIC["other_lanes_below_count"]
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            f"could not be judged: {'; '.join(unsure[:3])}"
            + (f" and {len(unsure) - 3} more" if len(unsure) > 3 else "")
            if unsure
            else f"{lost} lost records may be of any lane"
        )
        return Number(metric.unmeasured(why, n=lane_count, lane=None), 0, None)
    caveats = tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5])
    found = metric.measured(len(broken), n=lane_count, lane=None, caveats=caveats)
    return Number(found, len(broken), len(broken))


PROBLEMS: Final = (
    "authority_violation",
    "side_effect",
    "privacy_violation",
    "false_negative",
    "false_positive_high",
    "false_positive",
    "disagree",
    "severity_undercall",
    "severity_overcall",
    "missing_reference",
    "unexpected_fallback",
    "fallback_without_reason",
    "uncertain",
)
"""What can be wrong with a record, worst first; a record is named by its worst problem."""
SHOWN_WRONG: Final = 100


def _problem(row: ScoredKind) -> str | None:
    """Return the worst problem of the records of a kind."""
    kind = row.kind
    high = row.category == "false_positive" and kind.severity in HIGH_SEVERITIES
    found = {
        "authority_violation": kind.authority,
        "side_effect": kind.side_effect,
        "privacy_violation": kind.privacy,
        "false_positive_high": high,
        "unexpected_fallback": row.fallback == "unexpected",
        "fallback_without_reason": kind.no_reason,
        row.category: True,
    }
    return next((name for name in PROBLEMS if found.get(name)), None)


def _wrong_records(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    version: RulesVersion,
    *,
    shown: Mapping[str, str],
    shown_lanes: Mapping[str, str],
    scan: PrivateTextScan,
) -> WrongRecords:
    """Return the records that are wrong, uncertain or violate something, worst first."""
    totals: Counter[str] = Counter()
    found: list[tuple[int, WrongRecord]] = []
    private = scan.private(
        name for all_named in state.named.values() for one in all_named if (name := one.fixture_id)
    )
    for kind, count in state.kinds.items():
        row = score_kind(kind, policy.taxonomy(kind.lane), policy.bounds(kind.lane), version)
        problem = _problem(row)
        if problem is None:
            continue
        totals[problem] += count
        expected = kind.reference_label and f"{kind.reference_label}/{kind.reference_severity}"
        for named in state.named.get(kind, []):
            name = named.fixture_id
            wrong = WrongRecord(
                decision_id=named.decision_id,
                fixture_id="withheld" if name in private else name,
                run=shown.get(named.run or "", named.run)
                if named.run in state.first_times
                else None,
                lane=shown_lanes[kind.lane],
                problem=problem,
                expected=expected,
                given=f"{kind.label}/{kind.severity}",
                bucket=kind.bucket,
            )
            found.append((PROBLEMS.index(problem), wrong))
    found.sort(key=lambda row: (row[0], row[1].decision_id))
    return WrongRecords(
        total=sum(totals.values()),
        by_problem={name: totals[name] for name in PROBLEMS if totals[name]},
        worst=[wrong for _, wrong in found[:SHOWN_WRONG]],
    )


def _first_violations(state: AdvisoryExamState) -> list[Violation]:
    """Return the first violations in the order of the evidence."""
    ordered = (hit for shard in sorted(state.violations) for hit in state.violations[shard])
    return list(islice(ordered, SHOWN_VIOLATIONS))
