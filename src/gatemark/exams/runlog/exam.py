"""The run-log exam: a fold over per-case records, rules from options, and one score."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.fold import AnyMeasure
from gatemark.core.measurement import (
    Direction,
    Evidence,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import Policy, Rule, Setting, Verdict
from gatemark.core.record import Remark
from gatemark.core.registry import Registry
from gatemark.evidence.exam import (
    EvidenceRole,
    Exam,
    ExamOutcome,
    ExamReport,
    ExamRun,
    ExamSuite,
    schemas,
)
from gatemark.evidence.run_exam import ExamJob, build_exam
from gatemark.evidence.settings_file import about
from gatemark.evidence.source import ReadingChoices, Source, digest_source, find_sources
from gatemark.evidence.whole_file import read_tagged
from gatemark.exams.runlog.measure import (
    HIGHER,
    LOWER,
    M8_DECISION,
    M8_SUMMARY,
    METRICS,
    SCORES,
    Draws,
    VariantEstimate,
    case_values,
    caveats,
    estimates,
    has_substance,
    limits_of,
    paired_comparisons,
    pool_of,
    safe_interval,
    substantiated,
    variant_document,
    worsening,
)
from gatemark.exams.runlog.records.fields import VARIANT_PATTERN
from gatemark.exams.runlog.records.metrics import MetricsRecord, MetricsRules, PerCaseMetrics
from gatemark.exams.runlog.views import figures
from gatemark.statistics.resampling.percentile_bootstrap import LEVEL, MeanInterval, percentile_mean

ROLE: Final = "metrics"


class _Rows(MetricsRules):
    """The rules of a metrics file; keeps the rows."""

    def __init__(self) -> None:
        super().__init__(strict=True)
        self.rows: list[PerCaseMetrics] = []

    def see(self, lines: Sequence[int], records: Sequence[MetricsRecord]) -> Iterator[Remark]:
        self.rows.extend(record for record in records if isinstance(record, PerCaseMetrics))
        return super().see(lines, records)


def read_rows(source: Source, choices: ReadingChoices) -> list[PerCaseMetrics]:
    """Return the per-case records of a metrics file, or raise with every problem."""
    rules = _Rows()
    reading = read_tagged(source, schemas().get("exaid.metrics"), rules, choices)
    if not reading.is_valid:
        raise BadInputError(reading.problems, unlisted_count=reading.unlisted)
    if not rules.rows:
        raise BadInputError(f"{source.name}: holds no per_case records")
    return rules.rows


def examine_metrics(run: ExamRun) -> ExamOutcome:
    """Run the exam over files of per-case metrics."""
    if set(run.roles) != {ROLE}:
        raise UsageError(f"runlog reads files of one role, {ROLE!r}")
    return examine_metrics_files(
        run.paths, dict(run.options), run.reading, expected_ids=run.expected_ids
    )


def examine_metrics_files(
    paths: Sequence[str],
    options: dict[str, object],
    choices: ReadingChoices,
    *,
    expected_ids: frozenset[str] | None = None,
) -> ExamOutcome:
    """Run the exam over per-case metrics; a case may occur once per variant.

    ``expected_ids`` are the cases that every variant must have; without them, those that any
    variant has.
    """
    exam = build_exam(ExamJob("runlog", options, choices))
    state = exam.zero(0)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        sources = find_sources(paths, choices.limits, Path(folder))
        seen: dict[tuple[str, str], str] = {}
        for source in sources:
            rows = read_rows(source, choices)
            for row in rows:
                key = (row.variant_id, row.case_id)
                if key in seen:
                    raise BadInputError(
                        f"{source.name}: {row.case_id} under {row.variant_id} is also in "
                        f"{seen[key]}; name each file once"
                    )
                seen[key] = source.name
            state = exam.step(state, rows)
        files = tuple(digest_source(source) for source in sources)
    variants = {variant for variant, _ in seen}
    cases = {case for _, case in seen} if expected_ids is None else expected_ids
    wanted = {(variant, case) for variant in variants for case in cases}
    strangers = sorted(seen.keys() - wanted)
    if strangers:
        variant, case = strangers[0]
        raise BadInputError(f"{seen[variant, case]}: {case!r} is not among the expected ids")
    evidence = Evidence(
        received=len(seen),
        accepted=len(seen),
        rejected=0,
        usable=len(seen),
        missing=len(wanted - seen.keys()),
        expected=len(wanted),
        files=files,
        checks=choices.checks(),
    )
    return ExamOutcome(exam, exam.finish(state), evidence)


COVERAGE = "evidence.coverage"
EVENT_COUNT = "summary_event_count"
PAIRED = "worse_by."
"""Prefix of paired differences: how much worse the judged variant is."""
MIN_CASES = 10
"""With fewer cases, a gate on an interval is inconclusive, because resampling is unreliable."""
SAFE_METHOD = "percentile bootstrap over cases, exact where hardly any case differs"
FIRST_RULES: Final = 1
RULES: Final = 3
RulesVersion = Literal[1, 2, 3]
"""The version of the rules.

Version 1 pooled M3 and M8 from lists of values only. Version 2 let a gate on M5, M6 or M8 pass
although summaries that fail their schema, or have no latency, are left out of these metrics.
"""
EXCLUDED: Final = "excluded_summary_count"
LEFT_OUT: Final = {
    **dict.fromkeys(("m5_unsupported_global_rate", "m5_unsupported_per_summary_mean"), EXCLUDED),
    **dict.fromkeys(("m6a_mean", "m6b_mean"), EXCLUDED),
    M8_SUMMARY: "summary_without_latency_count",
    M8_DECISION: "decision_without_latency_count",
}
"""What a gated metric may not leave out, unless a gate on M10 says how many failures may be."""
TOLERANCES: Final = ("m10_schema_failure_rate", "m10_compliance_rate")


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
    gates_on: Annotated[
        Literal["value", "interval"],
        about("What gates compare: the value, or its whole interval, which can be inconclusive."),
    ] = "value"
    reference: Annotated[
        str | None, about("Variant that paired gates compare the judged one with.")
    ] = None
    paired_gates: Annotated[
        dict[str, float],
        about("Margins by metric: by how much the judged variant may be worse, case by case."),
    ] = {}
    rules: Annotated[RulesVersion, about("Version of the rules; packs always set the newest.")] = (
        FIRST_RULES
    )

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise InvalidValueError(f"score must be one of {', '.join(SCORES)}, got {self.score!r}")
        for kind, gates in (("gates", self.gates), ("paired_gates", self.paired_gates)):
            for name in gates:
                if name not in METRICS:
                    raise InvalidValueError(
                        f"{kind}: unknown metric {name!r} (known: {', '.join(METRICS)})"
                    )
                if METRICS[name].direction == "neutral":
                    raise InvalidValueError(
                        f"{kind}: {name} cannot be gated: neither side is better"
                    )
        if self.paired_gates and self.reference in (None, self.variant):
            raise InvalidValueError("paired_gates: reference must be another variant")
        for name, bound in self.gates.items():
            if METRICS[name].unit == "ratio" and not 0 <= bound <= 1:
                raise InvalidValueError(
                    f"gates: {name} is a share, so its bound must be in [0, 1], got {bound:g}"
                )


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
        of_judged = partial(Rule, lane=options.variant)
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
        names = {
            LEFT_OUT[name] for name in (*options.gates, *options.paired_gates) if name in LEFT_OUT
        }
        if options.rules < RULES:
            names = set()
        elif any(name in options.gates for name in TOLERANCES):
            names.discard(EXCLUDED)
        whole = (
            of_judged(f"runlog.{name}", name, "<=", 0.0, severity="hold") for name in sorted(names)
        )
        return Policy(
            name="runlog",
            rules=(
                Rule("runlog.coverage", COVERAGE, ">=", options.coverage_gate, severity="hold"),
                of_judged("runlog.events", EVENT_COUNT, ">=", 1.0, severity="hold"),
                *gates,
                *paired,
                *whole,
            ),
            settings={
                "variant": options.variant,
                "score": options.score,
                "seed": options.seed,
                "bootstrap_samples": options.bootstrap_samples,
                **self._later_settings(),
            },
        )

    def _later_settings(self) -> dict[str, Setting]:
        """Return the settings that earlier builds did not have, where they are in use."""
        options = self.options
        found: dict[str, Setting] = {}
        if options.gates_on != "value":
            found["gates_on"] = options.gates_on
        if options.paired_gates and options.reference is not None:
            found["reference"] = options.reference
        if options.rules != FIRST_RULES:
            found["runlog_rules"] = options.rules
        return found

    def _paired(
        self, by_variant: Mapping[str, Mapping[str, PerCaseMetrics]], draws: Draws
    ) -> Iterator[Measurement]:
        """Yield by how much the judged variant is worse than the reference, per gated metric."""
        options = self.options
        judged = by_variant.get(options.variant, {})
        reference = by_variant.get(options.reference or "", {})
        for name in sorted(options.paired_gates):
            values = worsening(name, judged, reference)
            sound = all(has_substance(name, rows.values()) for rows in (judged, reference))
            found = percentile_mean(values, **draws._asdict()) if sound else None
            low, high = limits_of(name)
            ends = None
            if found is not None:
                ends = safe_interval(found.low, found.high, values, (low - high, high - low))
            yield _number(
                f"{PAIRED}{name}",
                found,
                f"{options.variant} and {options.reference} share no case with a value",
                None if ends is None else Interval(*ends, LEVEL, SAFE_METHOD),
                direction=LOWER,
                unit=METRICS[name].unit,
                lane=options.variant,
            )

    def finish(self, state: RunlogExamState) -> ExamReport:
        draws = Draws(self.options.seed, self.options.bootstrap_samples)
        by_variant: dict[str, dict[str, PerCaseMetrics]] = {}
        for variant, case in sorted(state.rows):
            by_variant.setdefault(variant, {})[case] = state.rows[variant, case]
        cases = {variant: list(rows.values()) for variant, rows in by_variant.items()}
        first = self.options.rules == FIRST_RULES
        found = {
            variant: estimates(rows, draws, lists_only=first) for variant, rows in cases.items()
        }
        shown = {variant: substantiated(found[variant], rows) for variant, rows in cases.items()}
        compared = paired_comparisons(by_variant, self.options.variant, draws)
        judged = shown.get(self.options.variant, {})
        numbers = [
            self._safe(_measurement(name, estimate, self.options), cases)
            for name, estimate in judged.items()
        ]
        return ExamReport(
            measurements=(
                *numbers,
                _event_count(cases, self.options.variant),
                *self._paired(by_variant, draws),
                *(_left_out(cases, self.options.variant) if self.options.rules >= RULES else ()),
            ),
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

    def _safe(self, number: Measurement, cases: Mapping[str, list[PerCaseMetrics]]) -> Measurement:
        """Return a gated metric with an interval that also allows for rare cases."""
        options, interval = self.options, number.interval
        if options.gates_on == "value" or number.name not in options.gates or interval is None:
            return number
        values = case_values(number.name, cases[options.variant])
        ends = safe_interval(interval.low, interval.high, values, limits_of(number.name))
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


def _number(
    name: str,
    found: MeanInterval | None,
    reason: str,
    interval: Interval | None,
    *,
    direction: Direction,
    unit: str = "ratio",
    excluded: dict[str, int] | None = None,
    lane: str | None = None,
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
        lane=lane,
    )


def _measurement(name: str, estimate: VariantEstimate, options: RunlogOptions) -> Measurement:
    found, method = estimate.found, f"percentile bootstrap over cases, seed {options.seed}"
    return _number(
        name,
        found,
        estimate.reason,
        None if found is None else Interval(found.low, found.high, LEVEL, method),
        direction=METRICS[name].direction,
        unit=METRICS[name].unit,
        excluded={"cases_without_a_value": estimate.left_out} if estimate.left_out else None,
        lane=options.variant,
    )


def _event_count(cases: Mapping[str, Sequence[PerCaseMetrics]], judged: str) -> Measurement:
    if judged not in cases:
        reason = f"no record is of variant {judged}"
        return unmeasured(EVENT_COUNT, reason, direction="neutral", unit="count", lane=judged)
    return measured(
        EVENT_COUNT,
        sum(row.m1_update_count for row in cases[judged]),
        n=len(cases[judged]),
        direction="neutral",
        unit="count",
        caveats=tuple(caveats(cases[judged])),
        lane=judged,
    )


def _left_out(cases: Mapping[str, Sequence[PerCaseMetrics]], judged: str) -> Iterator[Measurement]:
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
        timed = sum(pool[1] for row in rows if (pool := pool_of(row, metric)) is not None)
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
            lane=judged,
        )


def _score(
    found: Mapping[str, Mapping[str, VariantEstimate]], options: RunlogOptions
) -> Measurement:
    """Return the named metric, oriented so that 1 is best."""
    estimate = found.get(options.variant, {}).get(options.score)
    if estimate is None or estimate.found is None:
        reason = estimate.reason if estimate else f"no record is of variant {options.variant}"
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
    newest_rules={"rules": RULES},
)
