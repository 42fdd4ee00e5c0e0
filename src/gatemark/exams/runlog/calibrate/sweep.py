"""The calibration sweep: every setting of the token gate tried on every case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from gatemark.exams.runlog.calibrate.sweep_config import GatePolicy, SweepConfig
from gatemark.exams.runlog.metrics.case import find_mean
from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.replay.token_gate import TokenGate
from gatemark.exams.runlog.traces.trace import ReplayEvent, Trace, replay

N = TypeVar("N", int, float)
TIMERS: Final = frozenset({"silence_timer", "max_wait_timeout"})


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


def prepare_case(trace: Trace) -> SweepCase:
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


def replay_gate(
    case: SweepCase, policy: GatePolicy, compat: Compat = "gatemark"
) -> list[GateOpening]:
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


def sweep_policy(case: SweepCase, policy: GatePolicy, config: SweepConfig) -> CaseSweep:
    """Return the numbers of one policy on one case."""
    every = replay_gate(case, policy, config.compat)
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
        chunk_p90=pick_at_share(sizes, 0.90),
        chunk_p95=pick_at_share(sizes, 0.95),
        chunk_max=sizes[-1] if sizes else None,
        wait_p95_ms=pick_at_share(waits, 0.95),
        wait_max_ms=waits[-1] if waits else None,
        spam_rate=_measure_share_below(sizes, config.spam_alpha * low),
        timer_rate=len(timed) / len(regular) if regular else None,
        timer_under_min_rate=_measure_share_below([one.words for one in timed], low),
        end_of_trace_count=len(every) - len(regular),
        spam_rates={
            f"{alpha:g}": rate
            for alpha in config.spam_alphas
            if (rate := _measure_share_below(sizes, alpha * low)) is not None
        },
    )


def _measure_share_below(sizes: Sequence[int], line: float) -> float | None:
    return sum(size < line for size in sizes) / len(sizes) if sizes else None


def pick_at_share(ordered: Sequence[N], share: float) -> N | None:
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


def aggregate_policy(policy: GatePolicy, found: Sequence[CaseSweep]) -> PolicySweep:
    """Aggregate a policy over all cases: medians of times and chunks, worst case of tails."""

    def column(name: str) -> list[float]:
        return sorted(v for case in found if (v := getattr(case, name)) is not None)

    ttff = column("ttff_content_ms")
    return PolicySweep(
        policy=policy,
        cases=len(found),
        ttff_p50_ms=pick_at_share(ttff, 0.5),
        ttff_p95_ms=pick_at_share(ttff, 0.95),
        ttff_trace_p50_ms=pick_at_share(column("ttff_trace_ms"), 0.5),
        flushes_mean=find_mean(column("flush_count")) or 0.0,
        chunk_p50=pick_at_share(column("chunk_p50"), 0.5),
        chunk_p90=pick_at_share(column("chunk_p90"), 0.5),
        chunk_p95=max(column("chunk_p95"), default=None),
        chunk_max=max(column("chunk_max"), default=None),
        wait_p95_ms=pick_at_share(column("wait_p95_ms"), 0.95),
        wait_max_ms=max(column("wait_max_ms"), default=None),
        spam_rate=find_mean(column("spam_rate")),
        timer_rate=find_mean(column("timer_rate")),
        timer_under_min_rate=find_mean(column("timer_under_min_rate")),
    )


def judge_policy(
    found: PolicySweep, config: SweepConfig, reach_p95_ms: float | None
) -> PolicySweep:
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
    return msgspec.structs.replace(found, violations=tuple(_find_broken(rules)))


def _find_broken(rules: Iterable[tuple[str, float | None, str, float | None]]) -> Iterator[str]:
    for name, value, op, bound in rules:
        if value is None or bound is None:
            yield f"{name} could not be measured"
        elif (value > bound) if op == "<=" else (value < bound):
            yield f"{name} must be {op} {bound:g}, got {value:g}"
