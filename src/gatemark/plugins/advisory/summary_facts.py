"""The facts of a run: everything of its summary that needs no verdict.

A rate that could not be computed is null, and ``reasons`` alongside it says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gatemark.plugins.advisory.category import COMPARABLE
from gatemark.plugins.advisory.confidence_buckets import BUCKETS
from gatemark.plugins.advisory.counted_groups import GroupCounts
from gatemark.plugins.advisory.findings import Findings
from gatemark.plugins.advisory.latency import AllTimes
from gatemark.plugins.advisory.merge_states import EXACT_MAX
from gatemark.plugins.advisory.metrics import COUNT_METRICS, RATE_METRICS
from gatemark.plugins.advisory.record import CASE_KINDS
from gatemark.statistics.proportion import wilson_interval
from gatemark.statistics.quantiles import Times

SUMMARY_SCHEMA: Final = "gatemark.advisory_summary/1"


def build_facts(found: Findings) -> dict[str, Any]:
    """Return everything of the summary that does not need a verdict."""
    everything = found.counts.all
    return {
        "schema": SUMMARY_SCHEMA,
        "fixture_sets": list(found.runs.fixture_sets),
        "run_ids": [run for run in found.runs.buckets if run],
        **_summarize_group(found, None, everything),
        "records_by_input_class": _count_records_by(found, lambda lane: lane.split("/")[0]),
        "records_by_service": _count_records_by(found, lambda lane: lane.split("/")[1]),
        "records_by_lane": _count_records_by(found, lambda lane: lane),
        "recommendation_counts": everything.sort_breakdown("label"),
        "unexplained_blockers": everything.sort_breakdown("unexplained"),
        "latency": _summarize_latency(found.times),
        "lanes": {lane: _summarize_lane(found, lane) for lane in found.lanes},
        "buckets": {
            bucket: summarize_bucket(found.counts.get_bucket(bucket)) for bucket in BUCKETS
        },
        "atlas_shadow": _summarize_signals(everything),
        "violations": [hit._asdict() for hit in found.violations],
        "violation_fields": [
            {**msgspec.structs.asdict(hit), "count": count}
            for hit, count in found.violation_counts.items()
        ],
        "wrong_records": {
            **found.wrong._asdict(),
            "worst": [wrong._asdict() for wrong in found.wrong.worst],
        },
        "runs": found.runs.buckets,
        "past_runs": list(found.history.past_runs),
        "other_lanes": {lane: fared._asdict() for lane, fared in found.other_lanes.items()},
        "lost_records": found.lost,
    }


def _summarize_group(found: Findings, lane: str | None, counts: GroupCounts) -> dict[str, Any]:
    """Return the counts and rates that the total and every lane have in common."""
    rates = {metric.name: found.get_measurement(metric.name, lane) for metric in RATE_METRICS}
    return {
        **{metric.name: counts.parts[metric.name] for metric in COUNT_METRICS},
        "confidence_bucket_counts": {bucket: counts.by["bucket"][bucket] for bucket in BUCKETS},
        "fallback_counts_by_kind": counts.sort_breakdown("fallback"),
        "categories": counts.categories,
        "rates": {name: number.value for name, number in rates.items()},
        "reasons": {name: str(number.reason) for name, number in rates.items() if number.reason},
        "intervals": {
            metric.name: list(
                wilson_interval(counts.parts[metric.name], counts.wholes[metric.name])
            )
            for metric in RATE_METRICS
            if counts.wholes[metric.name]
        },
    }


def _summarize_lane(found: Findings, lane: str) -> dict[str, Any]:
    counts = found.counts.lanes[lane]
    shift, inputs = (
        found.get_measurement("bucket_shift", lane),
        found.get_measurement("comparable_inputs", lane),
    )
    return {
        **_summarize_group(found, lane, counts),
        "recommendation_counts": counts.sort_breakdown("label"),
        "latency": _summarize_times(found.times.lanes[lane], counts.untimed),
        "buckets": {
            bucket: found.counts.get_bucket(bucket, lane).categories
            for bucket in BUCKETS
            if (lane, bucket) in found.counts.lane_buckets
        },
        "cases": {kind: counts.by["case"][kind] for kind in CASE_KINDS},
        "missing_cases": list(counts.missing_cases),
        "atlas_shadow": _summarize_signals(counts),
        "comparable_inputs": None if inputs.value is None else int(inputs.value),
        "bucket_shift": shift.value,
        "bucket_shift_reason": None if shift.reason is None else str(shift.reason),
        "bounds": msgspec.to_builtins(found.policy.bounds(lane)),
        "named_in_policy": lane in found.policy.lanes,
        "held_by": found.history.held_by.get(lane, {}),
    }


def summarize_bucket(counts: GroupCounts) -> dict[str, Any]:
    """Return the categories of a bucket, and how often its records agree."""
    agreed, comparable = counts.parts["agreement_rate"], counts.wholes["agreement_rate"]
    return {
        "records": counts.records,
        **counts.categories,
        "comparable_records": comparable,
        "agreement_rate": agreed / comparable if comparable else None,
    }


def _summarize_signals(counts: GroupCounts) -> dict[str, Any]:
    """Return what Atlas would have said: a signal that no rate above includes."""
    signals = counts.sort_breakdown("signal")
    comparable = sum(signals.get(name, 0) for name in COMPARABLE)
    return {
        "records": sum(signals.values()),
        "categories": signals,
        "agreement_rate": signals.get("agree", 0) / comparable if comparable else None,
    }


def _summarize_latency(times: AllTimes) -> dict[str, Any]:
    return {
        "total_ms": _summarize_times(times.all, None),
        "by_service": {name: _summarize_times(own, None) for name, own in times.services.items()},
        "by_input_class": {
            name: _summarize_times(own, None) for name, own in times.classes.items()
        },
        "exact_up_to": EXACT_MAX,
    }


def _summarize_times(times: Times, untimed: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": times.n,
        "p50": times.percentile(50),
        "p95": times.percentile(95),
        "method": times.method,
    }
    return found if untimed is None else {**found, "untimed": untimed}


def _count_records_by(found: Findings, part: Callable[[str], str]) -> dict[str, int]:
    records: Counter[str] = Counter()
    for lane in found.lanes:
        records[part(lane)] += found.counts.lanes[lane].records
    return dict(sorted(records.items()))
