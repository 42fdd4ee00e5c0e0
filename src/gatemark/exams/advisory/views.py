"""The views of an advisory run: JSON summary, promotion section, figures, and a chat message.

In the summary, a rate that could not be computed is null, and ``reasons`` alongside it says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.core.result import Cell, Figure, Stack, Stacks, Table
from gatemark.evidence.exam import ExamReport, VerdictNotes
from gatemark.exams.advisory.decision import BUCKETS, CASE_KINDS
from gatemark.exams.advisory.findings import AllTimes, Findings, WrongRecords
from gatemark.exams.advisory.measure import EXACT_MAX
from gatemark.exams.advisory.metrics import COUNTS, METRIC, RATES, Counts
from gatemark.exams.advisory.policy import (
    ASKED_OVERALL,
    CATEGORIES,
    COMPARABLE,
    FIRST_RULES,
    OTHER_LANES,
    AdvisoryPolicy,
    asked_overall,
    loosened,
    never_excused,
    untouchable,
)
from gatemark.exams.advisory.summary import (
    BLOCKED,
    CANDIDATE,
    NOT_SCOPED,
    STATEMENT,
    SUMMARY_SCHEMA,
)
from gatemark.report.words import first_few
from gatemark.statistics.proportion import wilson
from gatemark.statistics.quantiles import Times

UNBOUND: Final = "the policy names no latency bound (p95_total_ms_max)"
TABLE_TITLE: Final = "Promotion: candidates for discussion, no authority is granted"
SHOWN_LANES: Final = 200
NAMED_WRONG: Final = 3


def promotion_section(
    policy: AdvisoryPolicy,
    rules: Policy,
    facts: Mapping[str, Any],
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """Return the promotion part of a summary."""
    lane_of = {rule.id: rule.lane for rule in rules.rules}
    version = 2 if "advisory_rules" in rules.settings else 1
    stopped = [
        finding
        for finding in verdict.findings
        if _stops(finding, lane_of.get(finding.rule), version)
    ]
    waived = [finding.rule for finding in verdict.findings if finding.verdict == "waived"]
    loose = untouchable(policy) if version > 1 else []
    shared = [
        finding
        for finding in stopped
        if lane_of.get(finding.rule) is None and finding.rule != OTHER_LANES
    ]
    lanes = {}
    for lane in sorted({*facts["lanes"], *policy.lanes}):
        own = [finding for finding in stopped if lane_of.get(finding.rule) == lane]
        lanes[lane] = _lane_promotion(policy, lane, [*shared, *own], facts, loose)
        if named := [rule for rule in waived if lane_of.get(rule) in (None, lane)]:
            lanes[lane]["waivers"] = named
    details = {
        finding.reason: _detailed(finding.reason, lane_of.get(finding.rule), finding.rule, facts)
        for finding in stopped
    }
    return {
        "statement": STATEMENT,
        "blockers": [_spelled(reason, details, facts) for reason in verdict.blockers],
        "caveats": [
            *(f"no lane can be a candidate under this policy: {why}" for why in loose),
            *verdict.caveats,
            *_policy_caveats(policy),
            *_evidence_caveats(facts, evidence),
            *_overall_caveats(policy, facts, rules),
        ],
        "candidate_lanes": [lane for lane, found in lanes.items() if found["status"] == CANDIDATE],
        "lanes": lanes,
    }


def promotion_closing(section: Mapping[str, Any], verdict: Verdict) -> VerdictNotes:
    """Return the status of each lane as text, and caveats that no rule states."""
    rows = tuple(
        (lane, found["status"].partition(":")[0], _first_reasons(lane, found["blockers"]))
        for lane, found in section["lanes"].items()
    )
    table = _first_rows(TABLE_TITLE, ("lane", "status", "what stands against it"), rows)
    candidates = section["candidate_lanes"]
    named = first_few(candidates, 5) or "none"
    said = f"candidates for discussion: {named}; no authority is granted by this run"
    caveats = (text for text in section["caveats"] if text not in verdict.caveats)
    return VerdictNotes((said, *caveats), (table,) if rows else ())


def wrong_records_note(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the worst records by their ids, in one line."""
    wrong = facts["wrong_records"]
    if not wrong["total"]:
        return
    named = [
        f"{one['problem']} {one['fixture_id'] or one['decision_id']} "
        f"(expected {one['expected'] or 'nothing'}, given {one['given']})"
        for one in wrong["worst"][:NAMED_WRONG]
    ]
    rest = wrong["total"] - len(named)
    more = f"; and {rest:,} more" if rest else ""
    yield f"records to look at, worst first: {'; '.join(named)}{more}"


def _first_reasons(lane: str, reasons: list[str]) -> str:
    """Return the first reasons, without the lane's name, which is in the column alongside them."""
    more = f"; and {len(reasons) - 2} more" if len(reasons) > 2 else ""
    short = [reason.removeprefix(lane).lstrip(".: ") for reason in reasons[:2]]
    return "; ".join(short) + more or "nothing"


def _lane_promotion(
    policy: AdvisoryPolicy,
    lane: str,
    stopped: list[Finding],
    facts: Mapping[str, Any],
    loose: list[str],
) -> dict[str, Any]:
    named = policy.lanes.get(lane)
    blockers = [f"the policy loosens what no policy may: {why}" for why in loose]
    blockers += [_detailed(finding.reason, lane, finding.rule, facts) for finding in stopped]
    blockers += [
        _detailed(f"{lane}.{rule} {word}", lane, f"{lane}.{rule}", facts)
        for word, rules in (
            ("is beyond the default bound", facts["other_lanes"].get(lane, {}).get("broken", [])),
            ("could not be judged", facts["other_lanes"].get(lane, {}).get("open", [])),
        )
        for rule in rules
    ]
    if named is None or named.promotion is None:
        return {"status": NOT_SCOPED, "blockers": blockers}
    if policy.bounds(lane).p95_total_ms_max is None:
        blockers.append(f"{lane}: {UNBOUND}")
    return {
        "status": BLOCKED if blockers else CANDIDATE,
        "blockers": blockers,
        **msgspec.structs.asdict(named.promotion),
        "smaller_scope": named.smaller_scope,
    }


def _stops(finding: Finding, lane: str | None, version: int) -> bool:
    """Whether a finding keeps lanes from being discussed; some cannot be waived."""
    if finding.verdict == "waived" and never_excused(finding.rule, lane, version):
        return True
    return finding.severity in ("block", "hold") and finding.verdict in ("fail", "inconclusive")


def _policy_caveats(policy: AdvisoryPolicy) -> Iterator[str]:
    """Yield why the policy allows no candidate, or makes a pass mean less than usual."""
    scoped = sorted(name for name, lane in policy.lanes.items() if lane.promotion is not None)
    if not scoped:
        yield "the policy scopes no lane for promotion, so that none can be a candidate"
    for lane in scoped:
        if policy.bounds(lane).p95_total_ms_max is None:
            yield f"{lane} is no candidate: {UNBOUND}"
        settled = policy.lanes[lane].promotion
        if settled and settled.reviewer.casefold() == settled.approved_by.casefold():
            yield f"{lane}: whoever approved its scope reviews it as well"
    less = loosened(policy)
    if less:
        yield f"the policy asks for less than the defaults: {first_few(less, 5)}"


def _overall_caveats(
    policy: AdvisoryPolicy, facts: Mapping[str, Any], rules: Policy
) -> Iterator[str]:
    """Yield lanes above a limit that applies only to all lanes together."""
    version = int(rules.settings.get("advisory_rules") or 1)
    rates = {"false_positives": "false_positive_rate", "uncertain": "uncertain_rate_of_inputs"}
    for lane, found in facts["lanes"].items():
        bounds = policy.bounds(lane)
        for rule in sorted(asked_overall(policy, lane, version)):
            rate, bound = found["rates"][rates[rule]], getattr(bounds, ASKED_OVERALL[rule])
            if (
                rate is not None
                and rate > bound
                and not (rule == "uncertain" and bounds.conservative)
            ):
                yield (
                    f"{lane}: {rates[rule]} {rate:.3f} is above {bound:g}, which is asked of all "
                    "lanes together; name the bound in the policy to ask it of the lane"
                )


def _detailed(reason: str, lane: str | None, rule: str, facts: Mapping[str, Any]) -> str:
    """Return a blocker about inputs or earlier runs with its details; the gate only counts them."""
    fared = facts["lanes"].get(lane, {}).get("held_by", {})
    details = fared.get(rule.removeprefix(f"{lane}."), [])
    return f"{reason}: {'; '.join(details)}" if details else reason


def _spelled(reason: str, details: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    """Return a blocker about other lanes with their names; the gate only counts them."""
    reason = details.get(reason, reason)
    broken = [
        f"{lane} ({', '.join(fared['broken'])})"
        for lane, fared in facts["other_lanes"].items()
        if fared["broken"]
    ]
    if not reason.startswith("other_lanes_below_count must be") or not broken:
        return reason
    return f"{reason}: {first_few(broken, 5, '; ')}"


def _evidence_caveats(facts: Mapping[str, Any], evidence: Evidence) -> Iterator[str]:
    if evidence.expected is None:
        yield "record ids were not pinned: a record that never arrived cannot be missed"
    if other_runs := facts["past_runs_left_out"]:
        yield f"{other_runs} earlier runs went over other fixtures and were left out"
    if shadow := facts["atlas_shadow"]["records"]:
        yield f"{shadow} records have only an Atlas decision, which is a signal and no reference"
    expected = facts["expected_fallback_count"]
    if expected:
        share = expected / facts["total_records"]
        yield f"{expected} expected fallbacks ({share:.1%} of all records)"
    if odd := facts["unexplained_blockers"]:
        named = ", ".join(f"{error} {count}" for error, count in odd.items())
        yield f"records say that they block promotion for what no bound judges: {named}"
    if stated := facts["stated_blocker_count"] - facts["unexplained_blocker_count"]:
        yield f"{stated} records say that they block promotion; the rules judge what they name"
    if torn := facts["contradicted_proof_count"]:
        yield f"{torn} records state a proof beside a fallback; it does not count for their lanes"
    if own := facts["self_reported_proof_count"]:
        yield f"{own} proofs are the services' own count, which no counter of the harness confirms"
    if facts["npu_proof_ok_count"] == 0:
        yield "no record proves that an NPU ran"
    if facts["latency"]["total_ms"]["method"] != "percentile_disc":
        yield "percentiles come from a sketch and may be up to 0.1 % too high"


def facts_document(found: Findings) -> dict[str, Any]:
    """Return everything of the summary that does not need a verdict."""
    everything = found.counts.all
    return {
        "schema": SUMMARY_SCHEMA,
        "fixture_sets": list(found.runs.fixture_sets),
        "run_ids": [run for run in found.runs.buckets if run],
        **_group(found, None, everything),
        "records_by_input_class": _records_by(found, lambda lane: lane.split("/")[0]),
        "records_by_service": _records_by(found, lambda lane: lane.split("/")[1]),
        "records_by_lane": _records_by(found, lambda lane: lane),
        "recommendation_counts": everything.sorted_by("label"),
        "unexplained_blockers": everything.sorted_by("unexplained"),
        "latency": _latency_summary(found.times),
        "lanes": {lane: _lane_summary(found, lane) for lane in found.lanes},
        "buckets": {bucket: _bucket_summary(found.counts.bucket(bucket)) for bucket in BUCKETS},
        "atlas_shadow": _shadow(everything),
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
        "past_runs_left_out": found.history.left_out,
        "other_lanes": {lane: fared._asdict() for lane, fared in found.other_lanes.items()},
        "lost_records": found.lost,
    }


def summary_document(
    policy: AdvisoryPolicy,
    rules: Policy,
    report: ExamReport,
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """Return the complete summary."""
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


def _group(found: Findings, lane: str | None, counts: Counts) -> dict[str, Any]:
    """Return the counts and rates that the total and every lane have in common."""
    rates = {metric.name: found.number(metric.name, lane) for metric in RATES}
    return {
        **{metric.name: counts.parts[metric.name] for metric in COUNTS},
        "confidence_bucket_counts": {bucket: counts.by["bucket"][bucket] for bucket in BUCKETS},
        "fallback_counts_by_kind": counts.sorted_by("fallback"),
        "categories": counts.categories,
        "rates": {name: number.value for name, number in rates.items()},
        "reasons": {name: number.reason for name, number in rates.items() if number.reason},
        "intervals": {
            metric.name: list(wilson(counts.parts[metric.name], counts.wholes[metric.name]))
            for metric in RATES
            if counts.wholes[metric.name]
        },
    }


def _lane_summary(found: Findings, lane: str) -> dict[str, Any]:
    counts = found.counts.lanes[lane]
    shift, inputs = found.number("bucket_shift", lane), found.number("comparable_inputs", lane)
    return {
        **_group(found, lane, counts),
        "recommendation_counts": counts.sorted_by("label"),
        "latency": _times_summary(found.times.lanes[lane], counts.untimed),
        "buckets": {
            bucket: found.counts.bucket(bucket, lane).categories
            for bucket in BUCKETS
            if (lane, bucket) in found.counts.lane_buckets
        },
        "cases": {kind: counts.by["case"][kind] for kind in CASE_KINDS},
        "missing_cases": list(counts.missing_cases),
        "atlas_shadow": _shadow(counts),
        "comparable_inputs": None if inputs.value is None else int(inputs.value),
        "bucket_shift": shift.value,
        "bucket_shift_reason": shift.reason,
        "bounds": msgspec.to_builtins(found.policy.bounds(lane)),
        "named_in_policy": lane in found.policy.lanes,
        "held_by": found.history.held_by.get(lane, {}),
    }


def _bucket_summary(counts: Counts) -> dict[str, Any]:
    agreed, comparable = counts.parts["agreement_rate"], counts.wholes["agreement_rate"]
    return {
        "records": counts.records,
        **counts.categories,
        "comparable_records": comparable,
        "agreement_rate": agreed / comparable if comparable else None,
    }


def _shadow(counts: Counts) -> dict[str, Any]:
    """Return what Atlas would have said: a signal that no rate above includes."""
    signals = counts.sorted_by("signal")
    comparable = sum(signals.get(name, 0) for name in COMPARABLE)
    return {
        "records": sum(signals.values()),
        "categories": signals,
        "agreement_rate": signals.get("agree", 0) / comparable if comparable else None,
    }


def _latency_summary(times: AllTimes) -> dict[str, Any]:
    return {
        "total_ms": _times_summary(times.all, None),
        "by_service": {name: _times_summary(own, None) for name, own in times.services.items()},
        "by_input_class": {name: _times_summary(own, None) for name, own in times.classes.items()},
        "exact_up_to": EXACT_MAX,
    }


def _times_summary(times: Times, untimed: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": times.n,
        "p50": times.percentile(50),
        "p95": times.percentile(95),
        "method": times.method,
    }
    return found if untimed is None else {**found, "untimed": untimed}


def _records_by(found: Findings, part: Callable[[str], str]) -> dict[str, int]:
    records: Counter[str] = Counter()
    for lane in found.lanes:
        records[part(lane)] += found.counts.lanes[lane].records
    return dict(sorted(records.items()))


DRAWN_LANES = 20
NOT_MEASURED = "not measured"
_TABLES = {
    "Lanes by metrics": (
        "total_records",
        "comparable_records",
        "agreement_rate",
        "uncertain_rate",
        "false_positive_rate",
        "false_negative_rate",
        "missed_action_rate",
    ),
    "Lanes by inputs, fallbacks, proof and stability": (
        "comparable_inputs",
        "unexpected_fallback_rate",
        "proof_ok_rate",
        "bucket_shift",
    ),
    "Fallbacks, proof and conduct": (
        "fallback_count",
        "unexpected_fallback_count",
        "timeout_count",
        "npu_proof_ok_count",
        "npu_proof_missing_count",
        "npu_proof_not_applicable_count",
        "authority_flag_violation_count",
        "privacy_violation_count",
        "actual_side_effect_count",
    ),
}
"""The tables that have a row per lane, and their metrics."""


def figures(found: Findings) -> tuple[Figure, ...]:
    """Return all figures of an advisory run; tables without rows are left out."""
    lanes, further, conduct = (_lane_table(found, title) for title in _TABLES)
    before = (lanes, further, _categories(found), _buckets(found))
    after = (_latency(found), conduct, _other_lanes(found), _violations(found), _wrong(found))
    return (
        *(table for table in before if table.rows),
        *_bucket_picture(found),
        *(table for table in after if table.rows),
    )


def _first_rows(title: str, columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]) -> Table:
    return Table(title, columns, rows[:SHOWN_LANES], total_rows=len(rows))


def _lane_table(found: Findings, title: str) -> Table:
    names = _TABLES[title]
    rows = tuple(
        (lane, *(_shown(found.number(name, lane)) for name in names))
        for lane in found.lanes[:SHOWN_LANES]
    )
    columns = ("lane", *(METRIC[name].title or name for name in names))
    return Table(title, columns, rows, total_rows=len(found.lanes))


def _shown(number: Measurement) -> Cell:
    if number.value is None:
        return NOT_MEASURED
    return int(number.value) if number.unit == "count" else number.value


def _categories(found: Findings) -> Table:
    """Return one category per record; each row adds up to its records."""
    counts = [(lane, found.counts.lanes[lane]) for lane in found.lanes[:SHOWN_LANES]]
    if counts:
        counts.append(("all lanes", found.counts.all))
    columns = ("lane", *(name.replace("_", " ") for name in CATEGORIES), "records")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *own.categories.values(), own.records) for name, own in counts
    )
    return Table("Categories", columns, rows, total_rows=len(found.lanes) + bool(rows))


def _buckets(found: Findings) -> Table:
    """Return how records are distributed over the buckets, and how often each is right."""
    total = found.counts.all.records
    rows = []
    for bucket in BUCKETS if total else ():
        own = _bucket_summary(found.counts.bucket(bucket))
        rate = NOT_MEASURED if own["agreement_rate"] is None else own["agreement_rate"]
        rows.append(
            (bucket, own["records"], own["records"] / total, own["comparable_records"], rate)
        )
    columns = ("bucket", "records", "share", "comparable", "agreement")
    return _first_rows("Confidence buckets", columns, tuple(rows))


def _bucket_picture(found: Findings) -> Iterator[Stacks]:
    """Yield how confident each lane was; nothing if the picture would be too tall."""
    if 0 < len(found.lanes) <= DRAWN_LANES:
        yield Stacks(
            title="Confidence buckets by lane",
            axis="records",
            parts=BUCKETS,
            bars=tuple(
                Stack(
                    lane,
                    tuple(float(found.counts.bucket(bucket, lane).records) for bucket in BUCKETS),
                )
                for lane in found.lanes
            ),
        )


def _latency(found: Findings) -> Table:
    times = found.times
    parts = [
        ("everything", "", times.all),
        *(("service", name, own) for name, own in times.services.items()),
        *(("input class", name, own) for name, own in times.classes.items()),
        *(("lane", name, own) for name, own in times.lanes.items()),
    ]
    return Table(
        "Total time in milliseconds (percentile_disc)",
        ("of", "name", "timed records", "p50", "p95", "bound"),
        tuple(_latency_row(found, *part) for part in parts[:SHOWN_LANES]),
        total_rows=len(parts),
    )


def _latency_row(found: Findings, kind: str, name: str, times: Times) -> tuple[Cell, ...]:
    percentiles = (times.percentile(50), times.percentile(95))
    shown = (NOT_MEASURED if value is None else value for value in percentiles)
    bound = found.policy.bounds(name).p95_total_ms_max if kind == "lane" else None
    stated = "none stated" if bound is None else f"p95 <= {bound:g}"
    return (kind, name or "all records", times.n, *shown, stated)


def _other_lanes(found: Findings) -> Table:
    rows = tuple(
        (lane, ", ".join(fared.broken) or "none", ", ".join(fared.open) or "none")
        for lane, fared in found.other_lanes.items()
    )
    title = "Lanes the policy does not name, by the default bounds"
    return _first_rows(title, ("lane", "beyond a bound", "could not be judged"), rows)


def _violations(found: Findings) -> Table:
    """Return violations by id and field, never their content."""
    rows = tuple((hit.decision_id, hit.field, hit.kind) for hit in found.violations)
    total = sum(found.violation_counts.values())
    return Table(
        "Violations", ("decision", "field", "kind"), rows, total_rows=max(total, len(rows))
    )


def _wrong(found: Findings) -> Table:
    """Return the records to look at, worst first; none for results of the first rules."""
    wrong = found.wrong if found.version != FIRST_RULES else WrongRecords(0, {}, [])
    rows = tuple(
        (
            one.decision_id,
            one.fixture_id or "none",
            one.lane,
            one.problem.replace("_", " "),
            one.expected or "none",
            one.given,
        )
        for one in wrong.worst
    )
    return Table(
        "Records to look at, worst first",
        ("decision", "fixture", "lane", "problem", "expected", "given"),
        rows,
        total_rows=max(wrong.total, len(rows)),
    )
