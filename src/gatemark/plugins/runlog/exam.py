"""The run-log exam: a fold over per-case records, rules from options, and one score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from gatemark.core.fold import AnyMeasure
from gatemark.core.measurement import (
    Direction,
    Evidence,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.reason import Reason, ReasonKind
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam, ExamReport
from gatemark.evidence.exam_suite import EvidenceRole, ExamSuite
from gatemark.evidence.inputs import SeenInputs, digest_content
from gatemark.plugins.runlog.estimates import (
    Draws,
    VariantEstimate,
    drop_unsubstantiated,
    estimate_variant,
    widen_interval,
)
from gatemark.plugins.runlog.examine import ROLE, examine_metrics
from gatemark.plugins.runlog.options import RunlogOptions
from gatemark.plugins.runlog.paired import compare_variants, list_worsening
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.run_metrics import (
    HIGHER,
    LOWER,
    M8_DECISION,
    M8_SUMMARY,
    METRICS,
    find_pool,
    get_limits,
    has_substance,
    list_caveats,
    list_values,
)
from gatemark.plugins.runlog.variant_document import describe_variant
from gatemark.plugins.runlog.views import draw_figures
from gatemark.statistics.resampling.percentile_bootstrap import LEVEL, MeanInterval, percentile_mean

COVERAGE = "evidence.coverage"
EVENT_COUNT = "summary_event_count"
COPY_COUNT = "copied_case_count"
NO_SHARED_CASE: Final = ReasonKind(
    "no_shared_case", "{variant} and {reference} share no case with a value"
)
NO_SUCH_VARIANT: Final = ReasonKind("no_such_variant", "no record is of variant {variant}")
PAIRED = "worse_by."
"""Prefix of paired differences: how much worse the judged variant is."""
TELLING_EVENTS = 5
"""Cases with as many timed summaries have all numbers in common only if one is a copy."""
MIN_CASES = 10
"""With fewer cases, a gate on an interval is inconclusive, because resampling is unreliable."""
SAFE_METHOD = "percentile bootstrap over cases, exact where hardly any case differs"
EXCLUDED: Final = "excluded_summary_count"
LEFT_OUT: Final = {
    **dict.fromkeys(("m5_unsupported_global_rate", "m5_unsupported_per_summary_mean"), EXCLUDED),
    **dict.fromkeys(("m6a_mean", "m6b_mean"), EXCLUDED),
    M8_SUMMARY: "summary_without_latency_count",
    M8_DECISION: "decision_without_latency_count",
}
"""What a gated metric may not leave out, unless a gate on M10 says how many failures may be."""
TOLERANCES: Final = ("m10_schema_failure_rate", "m10_compliance_rate")


class RunlogExamState(msgspec.Struct):
    """The rows seen, by variant and case."""

    rows: dict[tuple[str, str], PerCaseMetrics] = {}


class RunlogExam(Exam[RunlogExamState]):
    """Measures every variant; judges and scores the named one."""

    schema = "exaid.metrics"
    form = "per_case"
    state = RunlogExamState

    def __init__(self, options: RunlogOptions, _measures: Registry[AnyMeasure]) -> None:
        self.options = options

    def zero(self, shard: int) -> RunlogExamState:  # noqa: ARG002 - rows carry their own names
        return RunlogExamState()

    def step(self, state: RunlogExamState, batch: Sequence[PerCaseMetrics]) -> RunlogExamState:
        for record in batch:
            state.rows[record.variant_id, record.case_id] = record
        return state

    def merge(self, left: RunlogExamState, right: RunlogExamState) -> RunlogExamState:
        return RunlogExamState(rows={**left.rows, **right.rows})

    def policy(self) -> Policy:
        options = self.options
        of_judged = partial(Rule, scope=options.variant)
        gates = (
            of_judged(
                f"runlog.{name}",
                name,
                ">=" if METRICS[name].direction == HIGHER else "<=",
                bound,
                against=options.gates_on,
                min_n=MIN_CASES if options.gates_on == "interval" else 1,
            )
            for name, bound in sorted(options.gates.items())
        )
        paired = (
            of_judged(
                f"runlog.paired.{name}",
                f"{PAIRED}{name}",
                "<=",
                margin,
                against="non_inferiority",
                min_n=MIN_CASES,
            )
            for name, margin in sorted(options.paired_gates.items())
        )
        own = (
            [of_judged("runlog.copies", COPY_COUNT, "<=", 0.0, severity="hold")]
            if options.gates or options.paired_gates
            else []
        )
        names = {
            LEFT_OUT[name] for name in (*options.gates, *options.paired_gates) if name in LEFT_OUT
        }
        if any(name in options.gates for name in TOLERANCES):
            names.discard(EXCLUDED)
        whole = (
            of_judged(f"runlog.{name}", name, "<=", 0.0, severity="hold") for name in sorted(names)
        )
        return Policy(
            name="runlog",
            rules=(
                Rule("runlog.coverage", COVERAGE, ">=", options.coverage_gate, severity="hold"),
                of_judged("runlog.events", EVENT_COUNT, ">=", 1.0, severity="hold"),
                *own,
                *gates,
                *paired,
                *whole,
            ),
            settings={
                "variant": options.variant,
                "score": options.score,
                "seed": options.seed,
                "bootstrap_samples": options.bootstrap_samples,
                "gates_on": options.gates_on,
                "reference": options.reference,
            },
        )

    def _compare_pairs(
        self, by_variant: Mapping[str, Mapping[str, PerCaseMetrics]], draws: Draws
    ) -> Iterator[Measurement]:
        """Yield by how much the judged variant is worse than the reference, per gated metric."""
        options = self.options
        judged = by_variant.get(options.variant, {})
        reference = by_variant.get(options.reference or "", {})
        for name in sorted(options.paired_gates):
            values = list_worsening(name, judged, reference)
            sound = all(has_substance(name, rows.values()) for rows in (judged, reference))
            found = percentile_mean(values, **draws._asdict()) if sound else None
            low, high = get_limits(name)
            ends = None
            if found is not None:
                ends = widen_interval(found.low, found.high, values, (low - high, high - low))
            yield _make_measurement(
                f"{PAIRED}{name}",
                found,
                NO_SHARED_CASE(variant=options.variant, reference=options.reference),
                None if ends is None else Interval(*ends, LEVEL, SAFE_METHOD),
                direction=LOWER,
                unit=METRICS[name].unit,
                scope=options.variant,
            )

    def finish(self, state: RunlogExamState) -> ExamReport:
        draws = Draws(self.options.seed, self.options.bootstrap_samples)
        by_variant: dict[str, dict[str, PerCaseMetrics]] = {}
        for variant, case in sorted(state.rows):
            by_variant.setdefault(variant, {})[case] = state.rows[variant, case]
        cases = {variant: list(rows.values()) for variant, rows in by_variant.items()}
        found = {variant: estimate_variant(rows, draws) for variant, rows in cases.items()}
        shown = {
            variant: drop_unsubstantiated(found[variant], rows) for variant, rows in cases.items()
        }
        compared = compare_variants(by_variant, self.options.variant, draws)
        judged = shown.get(self.options.variant, {})
        numbers = [
            self._widen_gated(_measure_estimate(name, estimate, self.options), cases)
            for name, estimate in judged.items()
        ]
        return ExamReport(
            measurements=(
                *numbers,
                _count_events(cases, self.options.variant),
                *self._compare_pairs(by_variant, draws),
                *_count_copies(cases, self.options.variant),
                *_count_left_out(cases, self.options.variant),
            ),
            figures=draw_figures(cases, shown, compared) if shown else (),
            attachments={},
            facts={
                "aggregate": {
                    variant: describe_variant(rows, found[variant])
                    for variant, rows in cases.items()
                },
                "paired": msgspec.to_builtins(compared),
                "n_cases": {variant: len(rows) for variant, rows in cases.items()},
            },
            score=_score_variant(shown, self.options),
        )

    def _widen_gated(
        self, number: Measurement, cases: Mapping[str, list[PerCaseMetrics]]
    ) -> Measurement:
        """Return a gated metric with an interval that also allows for rare cases."""
        options, interval = self.options, number.interval
        if options.gates_on == "value" or number.name not in options.gates or interval is None:
            return number
        values = list_values(number.name, cases[options.variant])
        ends = widen_interval(interval.low, interval.high, values, get_limits(number.name))
        safe = None if ends is None else Interval(*ends, LEVEL, SAFE_METHOD)
        return msgspec.structs.replace(number, interval=safe)

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        options, score = self.options, report.score
        return {
            "verdict": verdict.outcome,
            "pass": verdict.outcome == "pass",
            "blockers": list(verdict.blockers),
            "caveats": [
                *verdict.caveats,
                *(caveat for number in report.measurements for caveat in number.caveats),
            ],
            "variant": options.variant,
            "score": {
                "metric": options.score,
                "value": score.value if score else None,
                "reason": score.reason if score else None,
            },
            "gates": options.gates,
            "gates_on": options.gates_on,
            "reference": options.reference,
            "paired_gates": options.paired_gates,
            "directions": {name: metric.direction for name, metric in METRICS.items()},
            "n_cases": report.facts["n_cases"],
            "variants": report.facts["aggregate"],
            "paired": report.facts["paired"],
            "bootstrap_samples": options.bootstrap_samples,
            "seed": options.seed,
            "missing": evidence.missing,
            "rejected": evidence.rejected,
            "checks": evidence.checks,
        }


def _make_measurement(
    name: str,
    found: MeanInterval | None,
    reason: Reason,
    interval: Interval | None,
    *,
    direction: Direction,
    unit: str = "ratio",
    excluded: dict[str, int] | None = None,
    scope: str | None = None,
) -> Measurement:
    """Return a mean that was found, or the reason why there is none."""
    return Measurement(
        name=name,
        version=1,
        direction=direction,
        unit=unit,
        n=0 if found is None else found.n,
        value=None if found is None else float(found.mean),
        reason=reason if found is None else None,
        interval=interval,
        excluded=excluded or {},
        scope=scope,
    )


def _measure_estimate(name: str, estimate: VariantEstimate, options: RunlogOptions) -> Measurement:
    found, method = estimate.found, f"percentile bootstrap over cases, seed {options.seed}"
    return _make_measurement(
        name,
        found,
        estimate.reason,
        None if found is None else Interval(found.low, found.high, LEVEL, method),
        direction=METRICS[name].direction,
        unit=METRICS[name].unit,
        excluded={"cases_without_a_value": estimate.left_out} if estimate.left_out else None,
        scope=options.variant,
    )


def _count_events(cases: Mapping[str, Sequence[PerCaseMetrics]], judged: str) -> Measurement:
    if judged not in cases:
        reason = NO_SUCH_VARIANT(variant=judged)
        return unmeasured(EVENT_COUNT, reason, direction="neutral", unit="count", scope=judged)
    return measured(
        EVENT_COUNT,
        sum(row.m1_update_count for row in cases[judged]),
        n=len(cases[judged]),
        direction="neutral",
        unit="count",
        caveats=tuple(list_caveats(cases[judged])),
        scope=judged,
    )


def _count_copies(
    cases: Mapping[str, Sequence[PerCaseMetrics]], judged: str
) -> Iterator[Measurement]:
    """Yield how many cases of the judged variant have all numbers of another case.

    Two runs of several summaries do not take the same times. Shorter ones can.
    """
    if judged not in cases:
        return
    timed = [
        row
        for row in cases[judged]
        if row.m8_summary_latency_ms_mean and row.m1_update_count >= TELLING_EVENTS
    ]
    seen, copies = SeenInputs("case"), []
    for row in timed:
        numbers = msgspec.to_builtins(msgspec.structs.replace(row, case_id=""))
        if (same := seen.see(row.case_id, "as well", digest_content(numbers))) is not None:
            copies.append(f"{same.name} has all numbers of {same.first_name}")
    yield measured(
        COPY_COUNT,
        len(copies),
        n=len(cases[judged]),
        direction=LOWER,
        unit="count",
        caveats=tuple(copies[:1]),
        scope=judged,
    )


def _count_left_out(
    cases: Mapping[str, Sequence[PerCaseMetrics]], judged: str
) -> Iterator[Measurement]:
    """Yield how many events of the judged variant its metrics leave out."""
    rows = cases.get(judged, ())
    events = sum(row.m1_update_count for row in rows)
    decisions = sum(row.m9_buffer_decision_count for row in rows)
    excluded = sum(row.excluded_from_faithfulness_count for row in rows)
    found = [
        (
            EXCLUDED,
            excluded,
            f"M5 and M6 leave out {excluded} of {events} summaries, which fail their schema; gate "
            f"{TOLERANCES[0]} to say how many may",
        )
    ]
    for metric, all_of, kind in (
        (M8_SUMMARY, events, "summaries"),
        (M8_DECISION, decisions, "decisions"),
    ):
        timed = sum(pool[1] for row in rows if (pool := find_pool(row, metric)) is not None)
        missing = max(0, all_of - int(timed))
        words = f"M8 leaves out {missing} of {all_of} {kind}, which have no latency"
        found.append((LEFT_OUT[metric], missing, words))
    for name, count, words in found if judged in cases else ():
        yield measured(
            name,
            count,
            n=len(rows),
            direction=LOWER,
            unit="count",
            caveats=(words,) if count else (),
            scope=judged,
        )


def _score_variant(
    found: Mapping[str, Mapping[str, VariantEstimate]], options: RunlogOptions
) -> Measurement:
    """Return the named metric, oriented so that 1 is best."""
    estimate = found.get(options.variant, {}).get(options.score)
    if estimate is None or estimate.found is None:
        reason = estimate.reason if estimate else NO_SUCH_VARIANT(variant=options.variant)
        return unmeasured("score", reason, direction=HIGHER)
    mean, low, high = estimate.found.mean, estimate.found.low, estimate.found.high
    if METRICS[options.score].direction == LOWER:
        mean, low, high = 1 - mean, 1 - high, 1 - low
    interval = Interval(low, high, LEVEL, "percentile bootstrap over cases")
    return measured("score", mean, n=estimate.found.n, direction=HIGHER, interval=interval)


SUITE = ExamSuite(
    kind="runlog",
    summary="Measure M1 to M10 of summaries against their traces, variant by variant.",
    options=RunlogOptions,
    build=RunlogExam,
    roles=(EvidenceRole(ROLE, "Per-case metrics of runs.", positional=True, many=True),),
    examine=examine_metrics,
)
