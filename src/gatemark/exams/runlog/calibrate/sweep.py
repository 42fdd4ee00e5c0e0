"""The calibration sweep: every setting of the token gate tried on every case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import sqrt
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from gatemark.core.errors import InvalidValueError
from gatemark.exams.runlog.metrics.case import mean
from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.replay.token_gate import GateSettings, TokenGate
from gatemark.exams.runlog.traces.trace import ReplayEvent, Trace, replay

N = TypeVar("N", int, float)

TIMERS: Final = frozenset({"silence_timer", "max_wait_timeout"})
ROOM_WORDS: Final = 10
"""Minimum difference between the two word counts of a valid policy."""
Rate = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
Values = Annotated[tuple[int, ...], Meta(min_length=1)]


class SettingsGrid(Struct, frozen=True, forbid_unknown_fields=True):
    """The values to try for each of the four settings."""

    min_words: Values = (30, 40, 50, 60, 70)
    max_words: Values = (80, 100, 120, 140, 160)
    silence_ms: Values = (1000, 1500, 2000, 2500, 3000)
    max_wait_ms: Values = (4000, 5000, 6000, 7000, 8000)


class Constraints(Struct, frozen=True, forbid_unknown_fields=True):
    """Constraints that a policy must meet."""

    ttff_factor: Positive = 3.0
    spam_max_rate: Rate = 0.10
    timer_under_min_max_rate: Rate = 0.20
    chunk_p50_min_ratio: Positive = 0.6
    chunk_p50_min_words: Positive = 50
    chunk_p95_max_words: Positive = 180
    wait_factor: Positive = 1.5
    mean_flushes_max: Positive = 100
    failed_cases_max_rate: Rate = 0.05


class TieBreakWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the measures in the weighted score."""

    ttff: Rate = 0.25
    flushes: Rate = 0.15
    chunk: Rate = 0.30
    spam: Rate = 0.15
    wait: Rate = 0.15


class SweepConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole calibration."""

    grid: SettingsGrid = SettingsGrid()
    constraints: Constraints = Constraints()
    spam_alpha: Positive = 0.7
    spam_alphas: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)
    weights: TieBreakWeights = TieBreakWeights()
    compat: Compat = "gatemark"


class GatePolicy(Struct, frozen=True):
    """One combination of settings, with its number in the grid."""

    policy_id: str
    settings: GateSettings


def policies(grid: SettingsGrid) -> tuple[list[GatePolicy], list[str]]:
    """Return the valid policies of a grid in nested order, and the ids of invalid ones."""
    valid: list[GatePolicy] = []
    invalid: list[str] = []
    points = product(grid.min_words, grid.max_words, grid.silence_ms, grid.max_wait_ms)
    for number, (low, high, silence_ms, wait_ms) in enumerate(points):
        policy_id = f"policy_{number:04d}"
        try:
            settings = GateSettings(low, high, silence_ms, wait_ms)
        except InvalidValueError:
            invalid.append(policy_id)
            continue
        if low < high and wait_ms >= silence_ms and high >= low + ROOM_WORDS:
            valid.append(GatePolicy(policy_id, settings))
        else:
            invalid.append(policy_id)
    return valid, invalid


class GateOpening(Struct, frozen=True, gc=False):
    """One opening of the gate: when, for how many words, and why."""

    at_ms: int
    words: int
    reason: str


class CaseSweep(Struct, frozen=True):
    """One policy on one case. Waits are the milliseconds between two openings."""

    case_id: str
    policy_id: str
    ttff_content_ms: int | None
    ttff_trace_ms: int | None
    flush_count: int
    chunk_p50: int | None
    chunk_p90: int | None
    chunk_p95: int | None
    chunk_max: int | None
    wait_p95_ms: int | None
    wait_max_ms: int | None
    spam_rate: float | None
    timer_rate: float | None
    timer_under_min_rate: float | None
    end_of_trace_count: int
    spam_rates: dict[str, float] = {}


class SweepCase(Struct, frozen=True):
    """A case prepared for many replays: its content plane and the times of its words."""

    case_id: str
    events: tuple[ReplayEvent, ...]
    word_times_ms: tuple[int, ...]


def sweep_case(trace: Trace) -> SweepCase:
    """Return the content plane of a trace; ``word_times_ms`` has the start of each word."""
    events = tuple(replay(trace, "content_plane"))
    times: list[int] = []
    inside: set[str] = set()
    for event in events:
        text = event.delta_text
        if event.kind != "delta":
            inside.discard(event.agent_id)
        elif text:
            goes_on = event.agent_id in inside and not text[0].isspace()
            times.extend([event.virtual_time_ms] * (len(text.split()) - goes_on))
            if text[-1].isspace():
                inside.discard(event.agent_id)
            else:
                inside.add(event.agent_id)
    return SweepCase(trace.meta.case_id, events, tuple(times))


def time_to_words(case: SweepCase, words: int) -> int | None:
    """Return milliseconds from the first content delta to the n-th word, if there is one."""
    if len(case.word_times_ms) < words:
        return None
    return case.word_times_ms[words - 1] - case.word_times_ms[0]


def openings(case: SweepCase, policy: GatePolicy, compat: Compat = "gatemark") -> list[GateOpening]:
    """Return every flush of the gate; check timers after each delta."""
    gate = TokenGate(policy.settings, compat)
    found: list[GateOpening] = []
    now = 0
    for event in case.events:
        now = event.virtual_time_ms
        if event.kind == "delta":
            if event.delta_text:
                added = gate.add(event.agent_id, event.delta_text, now, event.seq)
                timed = gate.check_timers(event.agent_id, now)
                found += [GateOpening(now, one.words, one.reason) for one in (added, timed) if one]
        elif event.kind == "turn_end":
            rest = gate.flush(event.agent_id, "turn_end")
            if rest is not None:
                found.append(GateOpening(now, rest.words, rest.reason))
    found.extend(
        GateOpening(now, rest.words, rest.reason) for rest in gate.flush_all("end_of_trace")
    )
    return found


def case_sweep(case: SweepCase, policy: GatePolicy, config: SweepConfig) -> CaseSweep:
    """Return the numbers of one policy on one case."""
    every = openings(case, policy, config.compat)
    regular = [one for one in every if one.reason != "end_of_trace"]
    sizes = sorted(one.words for one in regular)
    waits = sorted(max(0, b.at_ms - a.at_ms) for a, b in pairwise(regular))
    timed = [one for one in regular if one.reason in TIMERS]
    low = policy.settings.min_words
    said = [event for event in case.events if event.kind == "delta" and event.delta_text]
    first = regular[0].at_ms if regular else None
    return CaseSweep(
        case_id=case.case_id,
        policy_id=policy.policy_id,
        ttff_content_ms=None if first is None else first - said[0].virtual_time_ms,
        ttff_trace_ms=first,
        flush_count=len(regular),
        chunk_p50=sizes[len(sizes) // 2] if sizes else None,
        chunk_p90=at_share(sizes, 0.90),
        chunk_p95=at_share(sizes, 0.95),
        chunk_max=sizes[-1] if sizes else None,
        wait_p95_ms=at_share(waits, 0.95),
        wait_max_ms=waits[-1] if waits else None,
        spam_rate=_share(sizes, config.spam_alpha * low),
        timer_rate=len(timed) / len(regular) if regular else None,
        timer_under_min_rate=_share([one.words for one in timed], low),
        end_of_trace_count=len(every) - len(regular),
        spam_rates={
            f"{alpha:g}": rate
            for alpha in config.spam_alphas
            if (rate := _share(sizes, alpha * low)) is not None
        },
    )


def _share(sizes: Sequence[int], line: float) -> float | None:
    return sum(size < line for size in sizes) / len(sizes) if sizes else None


def at_share(ordered: Sequence[N], share: float) -> N | None:
    """Return the value at index n·p of sorted values, rounded down."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None


class PolicySweep(Struct, frozen=True):
    """One policy over all cases, and which constraints it breaks."""

    policy: GatePolicy
    cases: int
    ttff_p50_ms: float | None
    ttff_p95_ms: float | None
    ttff_trace_p50_ms: float | None
    flushes_mean: float
    chunk_p50: float | None
    chunk_p90: float | None
    chunk_p95: float | None
    chunk_max: float | None
    wait_p95_ms: float | None
    wait_max_ms: float | None
    spam_rate: float | None
    timer_rate: float | None
    timer_under_min_rate: float | None
    violations: tuple[str, ...] = ()


def policy_sweep(policy: GatePolicy, found: Sequence[CaseSweep]) -> PolicySweep:
    """Aggregate a policy over all cases: medians of times and chunks, worst case of tails."""

    def column(name: str) -> list[float]:
        return sorted(v for case in found if (v := getattr(case, name)) is not None)

    ttff = column("ttff_content_ms")
    return PolicySweep(
        policy=policy,
        cases=len(found),
        ttff_p50_ms=at_share(ttff, 0.5),
        ttff_p95_ms=at_share(ttff, 0.95),
        ttff_trace_p50_ms=at_share(column("ttff_trace_ms"), 0.5),
        flushes_mean=mean(column("flush_count")) or 0.0,
        chunk_p50=at_share(column("chunk_p50"), 0.5),
        chunk_p90=at_share(column("chunk_p90"), 0.5),
        chunk_p95=max(column("chunk_p95"), default=None),
        chunk_max=max(column("chunk_max"), default=None),
        wait_p95_ms=at_share(column("wait_p95_ms"), 0.95),
        wait_max_ms=max(column("wait_max_ms"), default=None),
        spam_rate=mean(column("spam_rate")),
        timer_rate=mean(column("timer_rate")),
        timer_under_min_rate=mean(column("timer_under_min_rate")),
    )


def judged(found: PolicySweep, config: SweepConfig, reach_p95_ms: float | None) -> PolicySweep:
    """Return the same policy with the constraints that it breaks; a missing number breaks its own.

    ``reach_p95_ms`` is how long cases take to reach ``min_words`` words at all.
    """
    limits = config.constraints
    low = found.policy.settings.min_words
    longest = max(config.grid.max_wait_ms)
    rules: list[tuple[str, float | None, str, float | None]] = [
        (
            "ttff_p95_ms",
            found.ttff_p95_ms,
            "<=",
            None if reach_p95_ms is None else limits.ttff_factor * reach_p95_ms,
        ),
        ("spam_rate", found.spam_rate, "<=", limits.spam_max_rate),
        (
            "timer_under_min_rate",
            found.timer_under_min_rate or 0.0,
            "<=",
            limits.timer_under_min_max_rate,
        ),
        ("chunk_p50", found.chunk_p50, ">=", limits.chunk_p50_min_ratio * low),
        ("chunk_p50", found.chunk_p50, ">=", limits.chunk_p50_min_words),
        ("chunk_p95", found.chunk_p95, "<=", limits.chunk_p95_max_words),
        ("wait_p95_ms", found.wait_p95_ms or 0.0, "<=", limits.wait_factor * longest),
        ("flushes_mean", found.flushes_mean, "<=", limits.mean_flushes_max),
    ]
    return msgspec.structs.replace(found, violations=tuple(_broken(rules)))


def _broken(rules: Iterable[tuple[str, float | None, str, float | None]]) -> Iterator[str]:
    for name, value, op, bound in rules:
        if value is None or bound is None:
            yield f"{name} could not be measured"
        elif (value > bound) if op == "<=" else (value < bound):
            yield f"{name} must be {op} {bound:g}, got {value:g}"


Method = Literal["pareto_utopia", "weighted_score", "lexicographic"]
FEW: Final = 5
"""Below this number of valid policies, bounds are extremes, not percentiles."""


class Objective(Struct, frozen=True):
    """An objective: its number, whether less is better, and which difference is negligible."""

    name: str
    number: str
    less_is_better: bool = True
    least_range: float = 0.0

    def value(self, found: PolicySweep) -> float | None:
        """Return the number of a policy; None if it was not measured."""
        value: float | None = getattr(found, self.number)
        return value


OBJECTIVES: Final = (
    Objective("ttff", "ttff_p50_ms", least_range=5.0),
    Objective("flushes", "flushes_mean", least_range=2.0),
    Objective("chunk", "chunk_p50", less_is_better=False, least_range=2.0),
)
EXTRAS: Final = (Objective("spam", "spam_rate"), Objective("wait", "wait_p95_ms"))


class Bounds(Struct, frozen=True):
    """The range that an objective is scaled to."""

    low: float
    high: float


class ChosenPolicy(Struct, frozen=True):
    """The chosen policy and why it was chosen."""

    chosen: PolicySweep
    method: Method
    bounds: Mapping[str, Bounds]
    dropped: tuple[str, ...]
    pareto: tuple[str, ...]
    distances: Mapping[str, float]
    scores: Mapping[str, float]


def choose(survivors: Sequence[PolicySweep], weights: TieBreakWeights) -> ChosenPolicy | None:
    """Return the best valid policy, if there is one."""
    if not survivors:
        return None
    bounds = {one.name: _bounds(one, survivors) for one in (*OBJECTIVES, *EXTRAS)}
    kept = [one for one in OBJECTIVES if _differs(one, bounds[one.name])]
    dropped = tuple(one.name for one in OBJECTIVES if one not in kept)
    scores = {found.policy.policy_id: _score(found, bounds, weights) for found in survivors}
    known = {name: score for name, score in scores.items() if score is not None}
    distances = {
        found.policy.policy_id: _distance(found, kept, bounds) for found in survivors if kept
    }
    front = pareto_set(survivors, kept) if kept else []
    method: Method
    if front:
        method = "pareto_utopia"
        chosen = min(front, key=lambda one: (distances[one.policy.policy_id], *_ties(one)))
    elif known:
        method = "weighted_score"
        chosen = min(survivors, key=lambda one: (-known[one.policy.policy_id], *_ties(one)))
    else:
        method = "lexicographic"
        chosen = min(survivors, key=_ties)
    return ChosenPolicy(
        chosen=chosen,
        method=method,
        bounds={name: found for name, found in bounds.items() if found is not None},
        dropped=dropped,
        pareto=tuple(one.policy.policy_id for one in front),
        distances=distances,
        scores=known,
    )


def pareto_set(
    survivors: Sequence[PolicySweep], objectives: Sequence[Objective]
) -> list[PolicySweep]:
    """Return the Pareto set."""
    points = [(found, _costs(found, objectives)) for found in survivors]
    return [
        found for found, mine in points if not any(_dominates(theirs, mine) for _, theirs in points)
    ]


def _costs(found: PolicySweep, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Return every objective as a value to minimise."""
    costs = []
    for one in objectives:
        value = one.value(found)
        worst = float("inf")
        costs.append(worst if value is None else value if one.less_is_better else -value)
    return tuple(costs)


def _dominates(left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    return left != right and all(a <= b for a, b in zip(left, right, strict=True))


def _bounds(objective: Objective, survivors: Sequence[PolicySweep]) -> Bounds | None:
    values = sorted(v for found in survivors if (v := objective.value(found)) is not None)
    if not values:
        return None
    if len(values) < FEW:
        return Bounds(values[0], values[-1])
    low, high = at_share(values, 0.05), at_share(values, 0.95)
    return None if low is None or high is None else Bounds(low, high)


def _differs(objective: Objective, bounds: Bounds | None) -> bool:
    return bounds is not None and bounds.high - bounds.low >= objective.least_range > 0


def _goodness(found: PolicySweep, objective: Objective, bounds: Bounds) -> float:
    """Scale an objective from 0 (worst) to 1 (best)."""
    value = objective.value(found)
    if value is None or bounds.high <= bounds.low:
        return 0.0
    share = min(1.0, max(0.0, (value - bounds.low) / (bounds.high - bounds.low)))
    return 1.0 - share if objective.less_is_better else share


def _distance(
    found: PolicySweep, kept: Sequence[Objective], bounds: Mapping[str, Bounds | None]
) -> float:
    """Return the distance of a policy from the best value in every objective."""
    gaps = [
        (1.0 - _goodness(found, one, scale)) ** 2
        for one in kept
        if (scale := bounds[one.name]) is not None
    ]
    return sqrt(sum(gaps) / len(gaps))


def _score(
    found: PolicySweep, bounds: Mapping[str, Bounds | None], weights: TieBreakWeights
) -> float | None:
    """Return the weighted mean over objectives that differ; None if none does."""
    total = whole = 0.0
    for one in (*OBJECTIVES, *EXTRAS):
        scale = bounds[one.name]
        if scale is None or scale.high - scale.low <= 0:
            continue
        weight = getattr(weights, one.name)
        total += weight * _goodness(found, one, scale)
        whole += weight
    return total / whole if whole else None


def _ties(found: PolicySweep) -> tuple[float, float, float, str]:
    """Return a sort key: fewer flushes, larger pieces, an earlier first one, the smallest id."""
    chunk = found.chunk_p50 if found.chunk_p50 is not None else float("-inf")
    ttff = found.ttff_p50_ms if found.ttff_p50_ms is not None else float("inf")
    return found.flushes_mean, -chunk, ttff, found.policy.policy_id
