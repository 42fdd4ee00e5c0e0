"""The run-log exam: a fold over per-case records, rules from options, and one score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import AnyMeasure
from gatemark.core.measurement import Evidence, Interval, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.registry import Registry
from gatemark.evidence.exam import EvidenceRole, Exam, ExamReport, ExamSuite
from gatemark.evidence.settings_file import about
from gatemark.exams.runlog.measure import (
    METRICS,
    SCORES,
    Draws,
    RunRow,
    VariantEstimate,
    caveats,
    estimates,
    paired_comparisons,
    row_of,
    substantiated,
    variant_document,
)
from gatemark.exams.runlog.read_rows import examine_metrics
from gatemark.exams.runlog.records.fields import VARIANT_PATTERN
from gatemark.exams.runlog.records.metrics import PerCaseMetrics
from gatemark.exams.runlog.views import figures
from gatemark.statistics.resampling.percentile_bootstrap import LEVEL

COVERAGE = "evidence.coverage"
EVENT_COUNT = "summary_event_count"


class RunlogOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the exam."""

    variant: Annotated[
        str, Meta(pattern=VARIANT_PATTERN, description="Variant that is judged and scored.")
    ] = "V0"
    score: Annotated[str, about("Metric that is the score.")] = "m6b_mean"
    gates: Annotated[
        dict[str, float],
        about("Bounds by metric: a minimum where higher is better, a maximum where lower is."),
    ] = {}
    coverage_gate: Annotated[
        float, Meta(ge=0, le=1, description="Minimum share of cases that the variant has.")
    ] = 1.0
    bootstrap_samples: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Resamples for the intervals.")
    ] = 10_000
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="Random seed.")] = 42

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise InvalidValueError(f"score must be one of {', '.join(SCORES)}, got {self.score!r}")
        for name, bound in self.gates.items():
            if name not in METRICS:
                raise InvalidValueError(
                    f"gates: unknown metric {name!r} (known: {', '.join(METRICS)})"
                )
            if METRICS[name].direction == "neutral":
                raise InvalidValueError(f"gates: {name} cannot be gated: neither side is better")
            if METRICS[name].unit == "ratio" and not 0 <= bound <= 1:
                raise InvalidValueError(
                    f"gates: {name} is a share, so its bound must be in [0, 1], got {bound:g}"
                )


class RunlogExamState(msgspec.Struct):
    """The rows seen, by variant and case."""

    rows: dict[tuple[str, str], RunRow] = {}


class RunlogExam(Exam[RunlogExamState]):
    """Measure every variant; judge and score the named one."""

    schema = "exaid.metrics"
    form = "per_case"
    state = RunlogExamState

    def __init__(self, options: RunlogOptions, _measures: Registry[AnyMeasure]) -> None:
        self.options = options

    def zero(self, shard: int) -> RunlogExamState:  # noqa: ARG002 - rows carry their own names
        return RunlogExamState()

    def step(self, state: RunlogExamState, batch: Sequence[PerCaseMetrics]) -> RunlogExamState:
        for record in batch:
            row = row_of(record)
            state.rows[row.variant_id, row.case_id] = row
        return state

    def merge(self, left: RunlogExamState, right: RunlogExamState) -> RunlogExamState:
        return RunlogExamState(rows={**left.rows, **right.rows})

    def policy(self) -> Policy:
        gates = tuple(
            Rule(
                f"runlog.{name}",
                name,
                ">=" if METRICS[name].direction == "higher_is_better" else "<=",
                bound,
                lane=self.options.variant,
            )
            for name, bound in sorted(self.options.gates.items())
        )
        return Policy(
            name="runlog",
            rules=(
                Rule(
                    "runlog.coverage",
                    COVERAGE,
                    ">=",
                    self.options.coverage_gate,
                    severity="hold",
                ),
                Rule(
                    "runlog.events",
                    EVENT_COUNT,
                    ">=",
                    1.0,
                    lane=self.options.variant,
                    severity="hold",
                ),
                *gates,
            ),
            settings={
                "variant": self.options.variant,
                "score": self.options.score,
                "seed": self.options.seed,
                "bootstrap_samples": self.options.bootstrap_samples,
            },
        )

    def finish(self, state: RunlogExamState) -> ExamReport:
        draws = Draws(self.options.seed, self.options.bootstrap_samples)
        by_variant: dict[str, dict[str, RunRow]] = {}
        for variant, case in sorted(state.rows):
            by_variant.setdefault(variant, {})[case] = state.rows[variant, case]
        cases = {variant: list(rows.values()) for variant, rows in by_variant.items()}
        found = {variant: estimates(rows, draws) for variant, rows in cases.items()}
        shown = {variant: substantiated(found[variant], rows) for variant, rows in cases.items()}
        compared = paired_comparisons(by_variant, self.options.variant, draws)
        judged = shown.get(self.options.variant, {})
        numbers = [
            _measurement(self.options.variant, name, estimate, self.options)
            for name, estimate in judged.items()
        ]
        return ExamReport(
            measurements=(*numbers, _event_count(cases, self.options.variant)),
            figures=figures(cases, shown, compared) if shown else (),
            attachments={},
            facts={
                "aggregate": {
                    variant: variant_document(rows, found[variant])
                    for variant, rows in cases.items()
                },
                "paired": msgspec.to_builtins(compared),
                "n_cases": {variant: len(rows) for variant, rows in cases.items()},
            },
            score=_score(shown, self.options),
        )

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        score = report.score
        return {
            "verdict": verdict.outcome,
            "pass": verdict.outcome == "pass",
            "blockers": list(verdict.blockers),
            "caveats": [
                *verdict.caveats,
                *(caveat for number in report.measurements for caveat in number.caveats),
            ],
            "variant": self.options.variant,
            "score": {
                "metric": self.options.score,
                "value": score.value if score else None,
                "reason": score.reason if score else None,
            },
            "gates": self.options.gates,
            "directions": {name: metric.direction for name, metric in METRICS.items()},
            "n_cases": report.facts["n_cases"],
            "variants": report.facts["aggregate"],
            "paired": report.facts["paired"],
            "bootstrap_samples": self.options.bootstrap_samples,
            "seed": self.options.seed,
            "missing": evidence.missing,
            "rejected": evidence.rejected,
            "checks": evidence.checks,
        }


def _measurement(
    variant: str, name: str, estimate: VariantEstimate, options: RunlogOptions
) -> Measurement:
    metric = METRICS[name]
    left_out = {"cases_without_a_value": estimate.left_out} if estimate.left_out else None
    if estimate.found is None:
        return unmeasured(
            name,
            estimate.reason,
            direction=metric.direction,
            unit=metric.unit,
            excluded=left_out,
            lane=variant,
        )
    method = f"percentile bootstrap over cases, seed {options.seed}"
    return measured(
        name,
        estimate.found.mean,
        n=estimate.found.n,
        direction=metric.direction,
        unit=metric.unit,
        interval=Interval(estimate.found.low, estimate.found.high, LEVEL, method),
        excluded=left_out,
        lane=variant,
    )


def _event_count(cases: Mapping[str, Sequence[RunRow]], judged: str) -> Measurement:
    """Return the number of summaries of the judged variant."""
    if judged not in cases:
        return unmeasured(
            EVENT_COUNT,
            f"no record is of variant {judged}",
            direction="neutral",
            unit="count",
            lane=judged,
        )
    return measured(
        EVENT_COUNT,
        sum(row.events for row in cases[judged]),
        n=len(cases[judged]),
        direction="neutral",
        unit="count",
        caveats=tuple(caveats(cases[judged])),
        lane=judged,
    )


def _score(
    found: Mapping[str, Mapping[str, VariantEstimate]], options: RunlogOptions
) -> Measurement:
    """Return the named metric, oriented so that 1 is best."""
    metric = METRICS[options.score]
    if options.variant not in found:
        return unmeasured(
            "score", f"no record is of variant {options.variant}", direction="higher_is_better"
        )
    estimate = found[options.variant][options.score]
    if estimate.found is None:
        return unmeasured("score", estimate.reason, direction="higher_is_better")
    mean, low, high = estimate.found.mean, estimate.found.low, estimate.found.high
    if metric.direction == "lower_is_better":
        mean, low, high = 1 - mean, 1 - high, 1 - low
    return measured(
        "score",
        mean,
        n=estimate.found.n,
        direction="higher_is_better",
        interval=Interval(low, high, LEVEL, "percentile bootstrap over cases"),
    )


def _build(options: RunlogOptions, measures: Registry[AnyMeasure]) -> RunlogExam:
    return RunlogExam(options, measures)


SUITE = ExamSuite(
    kind="runlog",
    summary="Metrics M1 to M10 of summaries, held against their traces, variant by variant.",
    options=RunlogOptions,
    build=_build,
    roles=(EvidenceRole("metrics", "Per-case metrics of runs.", positional=True, many=True),),
    examine=examine_metrics,
)
