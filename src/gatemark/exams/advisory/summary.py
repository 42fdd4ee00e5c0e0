"""The JSON summary of an advisory run: the document's metric names first, then what they mean.

A rate that could not be taken is null, and ``reasons`` beside it says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gatemark.core.measurement import Evidence
from gatemark.core.policy import Policy, Verdict
from gatemark.evidence.exam import ExamReport
from gatemark.exams.advisory.categories import BUCKETS, CASE_KINDS
from gatemark.exams.advisory.findings import AllTimes, Findings
from gatemark.exams.advisory.latency import EXACT_MAX, Times
from gatemark.exams.advisory.numbers import COUNT_NAMES, RATE_NAMES, missing_cases
from gatemark.exams.advisory.policy import AdvisoryPolicy
from gatemark.exams.advisory.promotion import promotion_section
from gatemark.exams.advisory.tally import ALL, categories

SUMMARY_SCHEMA: Final = "gatemark.advisory_summary/1"


def facts_document(found: Findings) -> dict[str, Any]:
    """Everything of the summary that does not need a verdict."""
    everything = found.tally.get(ALL, {})
    return {
        "schema": SUMMARY_SCHEMA,
        "fixture_sets": list(found.fixture_sets),
        "run_ids": [run for run in found.runs if run],
        **_group(found, None, everything),
        "records_by_input_class": _records(found, "class"),
        "records_by_service": _records(found, "service"),
        "records_by_lane": _records(found, "lane"),
        "recommendation_counts": _prefixed(everything, "label."),
        "unexplained_blockers": _prefixed(everything, "unexplained."),
        "latency": _latency(found.times),
        "lanes": {lane: _lane(found, lane) for lane in found.lanes},
        "buckets": {bucket: _bucket(found.counts("bucket", bucket)) for bucket in BUCKETS},
        "atlas_shadow": _shadow(everything),
        "violations": [
            {"decision_id": hit.decision_id, "field": hit.field, "kind": hit.kind}
            for hit in found.violations
        ],
        "violation_fields": [
            {"field": field, "kind": kind, "count": count}
            for (field, kind), count in found.violation_counts.items()
        ],
        "runs": found.runs,
        "past_runs": [past.run for past in found.past_runs],
        "past_runs_left_out": found.other_fixture_runs,
        "other_lanes": {
            lane: {"broken": list(fared.broken), "open": list(fared.open)}
            for lane, fared in found.other_lanes.items()
        },
        "lost_records": found.lost,
    }


def summary_document(
    policy: AdvisoryPolicy,
    rules: Policy,
    report: ExamReport,
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """The whole summary."""
    return {
        **report.facts,
        "promotion": promotion_section(policy, rules, report.facts, evidence, verdict),
        "verdict": verdict.outcome,
        "pass": verdict.outcome == "pass",
        "advisory_policy": policy.name,
        "advisory_policy_digest": policy.digest,
        "resolved_policy": msgspec.to_builtins(policy),
        "received": evidence.received,
        "rejected": evidence.rejected,
        "missing": evidence.missing,
        "duplicates": evidence.duplicates,
        "expected": evidence.expected,
        "checks": evidence.checks,
        "evidence_digests": [file.digest for file in evidence.files],
        "evidence": [
            {"name": file.name, "digest": file.digest, "bytes": file.byte_count}
            for file in evidence.files
        ],
    }


def _group(found: Findings, lane: str | None, counts: Mapping[str, int]) -> dict[str, Any]:
    """The counts and rates that everything and every lane have alike."""
    rates = {name: found.number(name, lane) for name in RATE_NAMES}
    return {
        **{name: counts_value(found, name, lane) for name in COUNT_NAMES},
        "confidence_bucket_counts": {
            bucket: counts.get(f"bucket.{bucket}", 0) for bucket in BUCKETS
        },
        "fallback_counts_by_kind": _prefixed(counts, "fallback."),
        "categories": categories(counts),
        "rates": {name: number.value for name, number in rates.items()},
        "reasons": {name: number.reason for name, number in rates.items() if number.reason},
    }


def counts_value(found: Findings, name: str, lane: str | None) -> int:
    """A count as the whole number it is."""
    return int(found.number(name, lane).value or 0)


def _lane(found: Findings, lane: str) -> dict[str, Any]:
    counts = found.counts("lane", lane)
    shift, inputs = found.number("bucket_shift", lane), found.number("comparable_inputs", lane)
    return {
        **_group(found, lane, counts),
        "recommendation_counts": _prefixed(counts, "label."),
        "latency": _times(found.times.lanes[lane], counts.get("untimed", 0)),
        "buckets": {
            bucket: categories(found.counts("lane_bucket", lane, bucket))
            for bucket in BUCKETS
            if found.counts("lane_bucket", lane, bucket)
        },
        "cases": {kind: counts.get(f"case.{kind}", 0) for kind in CASE_KINDS},
        "missing_cases": list(missing_cases(counts)),
        "atlas_shadow": _shadow(counts),
        "comparable_inputs": None if inputs.value is None else int(inputs.value),
        "bucket_shift": shift.value,
        "bucket_shift_reason": shift.reason,
        "bounds": msgspec.to_builtins(found.policy.bounds(lane)),
        "named_in_policy": lane in found.policy.lanes,
    }


def _bucket(counts: Mapping[str, int]) -> dict[str, Any]:
    comparable = counts.get("comparable", 0)
    return {
        "records": counts.get("records", 0),
        **categories(counts),
        "comparable_records": comparable,
        "agreement_rate": counts.get("category.agree", 0) / comparable if comparable else None,
    }


def _shadow(counts: Mapping[str, int]) -> dict[str, Any]:
    """What Atlas would have said: a signal, in no rate above."""
    signals = _prefixed(counts, "shadow.")
    comparable = sum(
        count
        for name, count in signals.items()
        if name not in ("uncertain", "missing_reference", "not_applicable")
    )
    return {
        "records": counts.get("shadow", 0),
        "categories": signals,
        "agreement_rate": signals.get("agree", 0) / comparable if comparable else None,
    }


def _latency(times: AllTimes) -> dict[str, Any]:
    return {
        "total_ms": _times(times.all, None),
        "by_service": {name: _times(own, None) for name, own in times.services.items()},
        "by_input_class": {name: _times(own, None) for name, own in times.classes.items()},
        "exact_up_to": EXACT_MAX,
    }


def _times(times: Times, untimed: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": times.n,
        "p50": times.percentile(50),
        "p95": times.percentile(95),
        "method": times.method,
    }
    return found if untimed is None else {**found, "untimed": untimed}


def _records(found: Findings, kind: str) -> dict[str, int]:
    return {
        group[1]: counts["records"]
        for group, counts in sorted(found.tally.items())
        if group[0] == kind
    }


def _prefixed(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): count
        for name, count in sorted(counts.items())
        if name.startswith(prefix)
    }
