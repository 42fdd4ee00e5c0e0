"""Times of records: together, by lane, service and input class, and their percentiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from gatemark.plugins.advisory.exam_state import AdvisoryExamState
from gatemark.plugins.advisory.metrics import METRIC_BY_NAME
from gatemark.plugins.advisory.ranged_number import (
    RangedNumber,
)
from gatemark.statistics.quantiles import Times


class AllTimes(NamedTuple):
    """All times, and the times by lane, service and input class."""

    all: Times
    lanes: dict[str, Times]
    services: dict[str, Times]
    classes: dict[str, Times]


def join_times(state: AdvisoryExamState, lanes: Iterable[str]) -> Times:
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


def group_times(state: AdvisoryExamState, shown_lanes: Mapping[str, str]) -> AllTimes:
    """Return the times of everything, and by lane, service and input class."""

    def join_by(part: Callable[[str], str]) -> dict[str, Times]:
        lanes: dict[str, list[str]] = {}
        for lane, shown in shown_lanes.items():
            lanes.setdefault(part(shown), []).append(lane)
        return {name: join_times(state, lanes[name]) for name in sorted(lanes)}

    return AllTimes(
        all=join_times(state, shown_lanes),
        lanes=join_by(lambda lane: lane),
        services=join_by(lambda lane: lane.split("/")[1]),
        classes=join_by(lambda lane: lane.split("/")[0]),
    )


def measure_latency(
    times: Times, untimed: int, lost: int, lane: str | None = None
) -> Iterable[RangedNumber]:
    """Yield the median and the 95th percentile of total time."""
    unknown = untimed + lost
    caveats = () if times.exact is not None else ("from a sketch, up to 0.1 % too high",)
    for percent in (50, 95):
        metric = METRIC_BY_NAME[f"p{percent}_total_ms"]
        value = times.percentile(percent)
        if value is None:
            yield metric.without_value(metric.empty(), lane=lane)
            continue
        low, high = times.bounds(percent, unknown) if unknown else (value, value)
        excluded = {"unknown": unknown} if unknown else None
        yield metric.with_value(
            value, low, high, n=times.n, lane=lane, caveats=caveats, excluded=excluded
        )
