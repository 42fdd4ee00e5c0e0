"""Everything found in the evidence under a policy: numbers by lane, times, other lanes, records."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.evidence.hygiene import PrivateTextScan
from gatemark.exams.advisory.history import (
    RunNumbers,
    ScoredRuns,
    Terms,
    numbers_by_records,
    numbers_by_summaries,
    scored_runs,
)
from gatemark.exams.advisory.measure import lanes_of
from gatemark.exams.advisory.metrics import (
    COUNTS,
    METRIC,
    RATES,
    CountedGroups,
    Counts,
    Number,
    NumberKey,
    ScoredKind,
)
from gatemark.exams.advisory.policy import (
    ASKED_OVERALL,
    FIRST_RULES,
    HIGH_SEVERITIES,
    AdvisoryPolicy,
    RulesVersion,
    global_rules,
    input_rules,
    lane_name,
    lane_rules,
    overall_rules,
)
from gatemark.exams.advisory.state import AdvisoryExamState, ViolatedField, Violation
from gatemark.report.words import first_few
from gatemark.statistics.quantiles import Times

SHOWN_VIOLATIONS: Final = 100
_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


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


def group_numbers(counts: Counts, lost: int, lane: str | None = None) -> Iterator[Number]:
    """Yield every count and rate of one group."""
    for metric in COUNTS:
        count = counts.parts[metric.name]
        yield metric.measured(count, count, count + lost, n=counts.records, lane=lane)
    for metric in RATES:
        count, n = counts.parts[metric.name], counts.wholes[metric.name]
        if n == 0 and metric.or_of is not None:
            n = counts.wholes[metric.or_of]
        if n == 0:
            yield metric.unmeasured(metric.empty, lane=lane)
        else:
            low, high = count / (n + lost), (count + lost) / (n + lost)
            yield metric.measured(count / n, low, high, n=n, lane=lane)


def case_number(counts: Counts, lost: int, lane: str) -> Number:
    """Return how many of the four kinds of cases a lane lacks."""
    metric, lacking = METRIC["missing_case_kind_count"], len(counts.missing_cases)
    return metric.measured(lacking, max(0, lacking - lost), lacking, n=counts.records, lane=lane)


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


class OtherLane(NamedTuple):
    """The default limits broken by a lane that the policy does not name, or leaves open."""

    broken: list[str]
    open: list[str]


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
    runs: ScoredRuns
    history: RunNumbers
    public_names: dict[str, str]
    other_lanes: dict[str, OtherLane]
    violations: list[Violation]
    violation_counts: dict[ViolatedField, int]
    wrong: WrongRecords

    def number(self, name: str, lane: str | None = None) -> Measurement:
        """Return a measurement over the records that were not lost."""
        return self.numbers[name, lane].measurement

    def guarded(self, rules: Iterable[Rule]) -> tuple[Measurement, ...]:
        """Return all measurements, without values that lost records could change."""
        by_key: dict[NumberKey, list[Rule]] = {}
        for rule in rules:
            by_key.setdefault((rule.metric, rule.lane), []).append(rule)
        return tuple(
            guarded(number, by_key.get(key, []), self.lost) for key, number in self.numbers.items()
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
    times = _all_times(state, shown_lanes)
    runs = scored_runs(state, shown, shown_lanes)
    numbers = _numbers(counts, times, lost)
    if terms.version == FIRST_RULES:
        history = numbers_by_summaries(
            counts.lanes, policy, terms.summaries, runs, lost, digests=digests
        )
    else:
        history = numbers_by_records(
            state,
            policy,
            terms,
            runs,
            lost,
            shown=shown,
            shown_lanes=shown_lanes,
            counted=numbers,
        )
    numbers |= history.numbers
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
        history=history,
        public_names=shown,
        other_lanes=others,
        violations=_first_violations(state),
        violation_counts=dict(sorted(state.violation_counts.items())),
        wrong=_wrong_records(state, counts.scored, shown=shown, shown_lanes=shown_lanes, scan=scan),
    )


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
        if value is None:
            yield metric.unmeasured(metric.empty, lane=lane)
            continue
        low, high = times.bounds(percent, unknown) if unknown else (value, value)
        excluded = {"unknown": unknown} if unknown else None
        yield metric.measured(
            value, low, high, n=times.n, lane=lane, caveats=caveats, excluded=excluded
        )


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
            broken=[name for name, answer in answers.items() if answer is False],
            open=[name for name, answer in answers.items() if answer is None],
        )
    return others


def _other_lanes_number(others: Mapping[str, OtherLane], lane_count: int, lost: int) -> Number:
    """Return how many lanes that the policy does not name break the default limits."""
    metric = METRIC["other_lanes_below_count"]
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            f"could not be judged: {first_few(unsure, 3, '; ')}"
            if unsure
            else f"{lost} lost records may be of any lane"
        )
        return metric.unmeasured(why, n=lane_count, lane=None)
    caveats = tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5])
    count = len(broken)
    return metric.measured(count, count, count, n=lane_count, lane=None, caveats=caveats)


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
    scored: Iterable[tuple[ScoredKind, int]],
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
    for row, count in scored:
        kind, problem = row.kind, _problem(row)
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
