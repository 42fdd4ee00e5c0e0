"""``exaid.metrics``: the metrics of each case under each variant, and a report over all of them.

M5, M6a and M6b are unsupported shares: lower is better, despite their names. A rate that could not
be computed is null. Unknown keys are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gatemark.core.record import BadFile, FileRules, Grade, Problem, RecordSchema, Remark
from gatemark.exams.runlog.records.examples import Example, bad, tagged_form, without
from gatemark.exams.runlog.records.fields import (
    VARIANT_PATTERN,
    VERSION_PATTERN,
    Count,
    Moment,
    Share,
    VariantName,
    Version,
    fits,
    text_problems,
)

METRICS_VERSION: Final = "2.2.0"
BUDGETS: Final = (250, 500, 1000, 2000)
"""The CTU budgets of M7b."""
THRESHOLDS: Final = (0.85, 0.90, 0.95)
"""The Jaccard thresholds of M3."""


class ThresholdRates(Struct, frozen=True, gc=False):
    """The share of consecutive summaries that reach each similarity threshold."""

    tau_85: Share | None = field(name="tau_0.85")
    tau_90: Share | None = field(name="tau_0.90")
    tau_95: Share | None = field(name="tau_0.95")


class BudgetCoverage(Struct, frozen=True, gc=False):
    """Coverage of the trace by the summaries that fit into each budget."""

    ctu_250: Share
    ctu_500: Share
    ctu_1000: Share
    ctu_2000: Share


class Distribution(Struct, frozen=True, gc=False):
    """Summary statistics; percentiles are interpolated linearly."""

    count: Count
    min: float
    max: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


class _MetricsHead(Struct, frozen=True, gc=False, kw_only=True, tag_field="metrics_type"):
    """What both records of metrics start with."""

    schema_name: Literal["exaid.metrics"]
    schema_version: Version


class PerCaseMetrics(_MetricsHead, frozen=True, kw_only=True, tag="per_case"):
    """Every metric of one case under one variant.

    The last six are added by Gatemark: the values that a report pools over cases, so that anyone
    can compute the report again from these records alone.
    """

    case_id: Annotated[str, Meta(min_length=1)]
    variant_id: VariantName
    m1_update_count: Count
    m2_output_ctu: Count
    m3_redundancy_jaccard_mean: Share | None
    m3_redundancy_threshold_rates: ThresholdRates
    m4_trace_coverage: Share
    m4_trace_cui_count: Count
    m4_summary_cui_count: Count
    m5_unsupported_global_rate: Share
    m5_unsupported_per_summary_mean: Share | None
    m6a_mean: Share | None
    m6b_mean: Share | None
    faithfulness_valid_event_count: Count
    excluded_from_faithfulness_count: Count
    m7b_coverage_by_budget: BudgetCoverage
    m8_summary_latency_ms_mean: float | None
    m8_buffer_decision_latency_ms_mean: float | None
    m9_prompt_ctu_total: Count
    m9_completion_ctu_total: Count
    m9_total_llm_ctu: Count
    m9_buffer_decision_count: Count
    m10_schema_failure_count: Count
    m10_schema_failure_rate: Share
    m10_compliance_rate: Share
    outlier_flags: list[str]
    outlier_latency_spike: bool
    outlier_excessive_flushes: bool
    outlier_low_coverage: bool
    m8_summary_latency_distribution_ms: Distribution | UnsetType | None = UNSET
    m8_buffer_decision_latency_distribution_ms: Distribution | UnsetType | None = UNSET
    m9_buffer_decision_ctu: Count | UnsetType = UNSET
    m9_decision_counts: dict[str, int] | UnsetType = UNSET
    flush_count: Count | UnsetType = UNSET
    flush_reason_counts: dict[str, int] | UnsetType = UNSET
    flush_accumulated_ctu_distribution: Distribution | UnsetType | None = UNSET
    flush_interval_ms_distribution: Distribution | UnsetType | None = UNSET
    virtual_time_duration_ms: float | UnsetType | None = UNSET
    trace_ctu: Count | UnsetType = UNSET
    trace_ctu_per_s: float | UnsetType | None = UNSET
    summary_ctu_per_s: float | UnsetType | None = UNSET
    control_plane_latency_ms: float | UnsetType | None = UNSET
    content_plane_latency_ms: float | UnsetType | None = UNSET
    total_plane_latency_ms: float | UnsetType | None = UNSET
    control_plane_latency_pct: float | UnsetType | None = UNSET
    content_plane_latency_pct: float | UnsetType | None = UNSET
    tokengate_config_hash_match: bool | UnsetType | None = UNSET
    dataset_manifest_hash_valid: bool | UnsetType | None = UNSET
    stub_trace_detected: bool | UnsetType = UNSET
    m3_jaccards: list[Share] | UnsetType = UNSET
    m8_summary_latencies_ms: list[float] | UnsetType = UNSET
    m8_buffer_decision_latencies_ms: list[float] | UnsetType = UNSET
    flush_accumulated_ctus: list[int] | UnsetType = UNSET
    flush_intervals_ms: list[float] | UnsetType = UNSET
    flush_intervals_dropped_count: Count | UnsetType = UNSET


class Redundancy(Struct, frozen=True, gc=False):
    """M3 over all cases of a variant."""

    jaccard_mean: Share | None
    threshold_rates: ThresholdRates


class BootstrapInterval(Struct, frozen=True, gc=False):
    """A mean with the ends of its bootstrap interval."""

    mean: float
    ci_low: float
    ci_high: float


class OpenInterval(Struct, frozen=True, gc=False):
    """A mean with its bootstrap interval; null without values."""

    mean: float | None
    ci_low: float | None
    ci_high: float | None


class Unsupported(Struct, frozen=True, gc=False):
    """M5 over all cases of a variant; lower is better."""

    global_rate_mean: float
    per_summary_mean: float | None


class BudgetMeans(Struct, frozen=True, gc=False):
    """M7b over all cases of a variant."""

    ctu_250: float
    ctu_500: float
    ctu_1000: float
    ctu_2000: float


class LatencyMeans(Struct, frozen=True, gc=False):
    """M8 over all events of a variant."""

    summary: float | None
    buffer_decision: float | None


class UsageMeans(Struct, frozen=True, gc=False):
    """M9 over all cases of a variant."""

    prompt: float
    completion: float
    total: float
    buffer_decision_count: float


class Compliance(Struct, frozen=True, gc=False):
    """M10 over all events of a variant."""

    schema_failure_rate_mean: Share | None
    compliance_rate_mean: Share | None
    schema_failure_count: Count
    summary_event_count: Count


class VariantMetrics(Struct, frozen=True, gc=False, kw_only=True):
    """Every metric of one variant over its cases."""

    n_cases: Count
    m1_update_count_mean: float
    m2_output_ctu_mean: float
    m3_redundancy: Redundancy
    m4_trace_coverage: BootstrapInterval
    m5_unsupported: Unsupported
    m6a: OpenInterval
    m6b: OpenInterval
    m7b_coverage_by_budget_mean: BudgetMeans
    m8_latency_ms_mean: LatencyMeans
    m9_usage_ctu_mean: UsageMeans
    m10_compliance: Compliance
    faithfulness_valid_event_count: Count
    excluded_from_faithfulness_count: Count
    schema_failures: Count
    m8_latency_ms_distribution: Any | UnsetType = UNSET
    flush_statistics: Any | UnsetType = UNSET
    virtual_time_throughput: Any | UnsetType = UNSET
    overhead_attribution: Any | UnsetType = UNSET
    stub_trace_count: Count | UnsetType = UNSET


class AggregateMetrics(_MetricsHead, frozen=True, kw_only=True, tag="aggregate"):
    """The metrics of every variant, with seeded bootstrap intervals."""

    computed_at: Moment
    bootstrap_samples: Count
    seed: int
    variants: dict[VariantName, VariantMetrics]


MetricsRecord = PerCaseMetrics | AggregateMetrics


_KNOWN_VERSIONS: Final = ("2.0.", "2.1.", "2.2.")


def per_case_problems(record: PerCaseMetrics) -> Sequence[Problem]:
    """Return the problems of one per-case record."""
    return [*text_problems(record, PerCaseMetrics), *_version_problems(record.schema_version)]


def _version_problems(version: str) -> Iterator[Problem]:
    if fits(VERSION_PATTERN, version) and not version.startswith(_KNOWN_VERSIONS):
        message = f"unknown version {version!r} (known: 2.0 to 2.2)"
        yield Problem("$.schema_version", message)


def aggregate_problems(record: AggregateMetrics) -> Sequence[Problem]:
    """Return the problems of an aggregate."""
    found = [*text_problems(record, AggregateMetrics), *_version_problems(record.schema_version)]
    found.extend(
        Problem("$.variants", f"{name[:80]!r} is not a variant")
        for name in record.variants
        if not fits(VARIANT_PATTERN, name)
    )
    return found


ROUNDING: Final = 1e-3
"""Tolerance of shares, because other tools round them."""


def contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    """Yield contradictions between the numbers of a row."""
    yield from _event_contradictions(row)
    yield from _concept_contradictions(row)
    if row.m9_total_llm_ctu != row.m9_prompt_ctu_total + row.m9_completion_ctu_total:
        yield Problem("$.m9_total_llm_ctu", "must be prompts and completions together")
    if (
        row.flush_count is not UNSET
        and row.flush_reason_counts is not UNSET
        and sum(row.flush_reason_counts.values()) != row.flush_count
    ):
        yield Problem("$.flush_reason_counts", f"must add up to flush_count={row.flush_count}")


def _event_contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    events, failures = row.m1_update_count, row.m10_schema_failure_count
    valid, excluded = row.faithfulness_valid_event_count, row.excluded_from_faithfulness_count
    if failures > events:
        yield Problem("$.m10_schema_failure_count", f"must be <= {events} updates, got {failures}")
    elif _is_off(row.m10_schema_failure_rate, failures / events if events else 0.0):
        message = f"must be {failures} of {events}, got {row.m10_schema_failure_rate:g}"
        yield Problem("$.m10_schema_failure_rate", message)
    if _is_off(row.m10_compliance_rate, 1 - row.m10_schema_failure_rate):
        yield Problem("$.m10_compliance_rate", "must be 1 - m10_schema_failure_rate")
    if valid + excluded != events:
        message = f"valid and excluded events must be {events} updates, got {valid + excluded}"
        yield Problem("$.faithfulness_valid_event_count", message)
    for name in ("m6a_mean", "m6b_mean"):
        if (getattr(row, name) is None) != (valid == 0):
            yield Problem(f"$.{name}", f"must be null exactly without valid events, has {valid}")
    pairs = max(0, events - 1)
    if row.m3_jaccards is not UNSET and len(row.m3_jaccards) != pairs:
        message = f"must hold {pairs} values for {events} updates, got {len(row.m3_jaccards)}"
        yield Problem("$.m3_jaccards", message)
    for name, values in (
        ("m3_redundancy_jaccard_mean", row.m3_jaccards),
        ("m8_summary_latency_ms_mean", row.m8_summary_latencies_ms),
        ("m8_buffer_decision_latency_ms_mean", row.m8_buffer_decision_latencies_ms),
    ):
        if values is not UNSET:
            expected = sum(values) / len(values) if values else None
            stated = getattr(row, name)
            if (stated is None) != (expected is None) or (expected and _is_off(stated, expected)):
                yield Problem(f"$.{name}", f"must be the mean of the listed values, got {stated}")


def _concept_contradictions(row: PerCaseMetrics) -> Iterator[Problem]:
    budgets = row.m7b_coverage_by_budget
    steps = (budgets.ctu_250, budgets.ctu_500, budgets.ctu_1000, budgets.ctu_2000)
    for smaller, larger in pairwise((*steps, row.m4_trace_coverage)):
        if smaller > larger + ROUNDING:
            message = f"coverage must not fall with the budget, got {smaller:g} before {larger:g}"
            yield Problem("$.m7b_coverage_by_budget", message)
    if row.m4_trace_coverage > 0 and not (row.m4_trace_cui_count and row.m4_summary_cui_count):
        yield Problem("$.m4_trace_coverage", "must be 0 where trace or summaries have no concepts")
    if row.m5_unsupported_global_rate > 0 and not row.m4_summary_cui_count:
        yield Problem("$.m5_unsupported_global_rate", "must be 0 where summaries have no concepts")


def _is_off(stated: float, expected: float) -> bool:
    return abs(stated - expected) > ROUNDING * max(1.0, abs(expected))


class MetricsRules(FileRules):
    """A case occurs once per variant, and the numbers of a row agree.

    A row that contradicts itself is a warning; ``strict`` makes it an error, for verdicts.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._lines: dict[tuple[str, str], int] = {}
        self._grade: Grade = "error" if strict else "warning"

    def see(self, lines: Sequence[int], records: Sequence[MetricsRecord]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            if not isinstance(record, PerCaseMetrics):
                continue
            key = (record.case_id, record.variant_id)
            first = self._lines.setdefault(key, line)
            if first != line:
                message = f"{key[0]} under {key[1]} was seen before on line {first}"
                yield Remark(line, "once_per_variant", "$.case_id", message)
            for problem in contradictions(record):
                rule = "numbers_agree"
                yield Remark(line, rule, problem.path, problem.message, self._grade)

    def lost(self) -> None:
        """Do nothing; no rule depends on lost lines."""

    def end(self) -> Iterator[Remark]:
        yield from ()


_RATES: Final = {"tau_0.85": 0.5, "tau_0.90": 0.5, "tau_0.95": 0.0}
_NO_RATES: Final = dict.fromkeys(_RATES)
_BUDGETS: Final = {"ctu_250": 0.1, "ctu_500": 0.2, "ctu_1000": 0.25, "ctu_2000": 0.25}
_PER_CASE: Final[Example] = {
    "schema_name": "exaid.metrics",
    "schema_version": "2.2.0",
    "metrics_type": "per_case",
    "case_id": "case-synth-000",
    "variant_id": "V0",
    "m1_update_count": 3,
    "m2_output_ctu": 301,
    "m3_redundancy_jaccard_mean": 0.55,
    "m3_redundancy_threshold_rates": _RATES,
    "m4_trace_coverage": 0.25,
    "m4_trace_cui_count": 16,
    "m4_summary_cui_count": 5,
    "m5_unsupported_global_rate": 0.2,
    "m5_unsupported_per_summary_mean": 0.1,
    "m6a_mean": 0.3,
    "m6b_mean": 0.1,
    "faithfulness_valid_event_count": 3,
    "excluded_from_faithfulness_count": 0,
    "m7b_coverage_by_budget": _BUDGETS,
    "m8_summary_latency_ms_mean": 92.5,
    "m8_buffer_decision_latency_ms_mean": 57,
    "m9_prompt_ctu_total": 4100,
    "m9_completion_ctu_total": 520,
    "m9_total_llm_ctu": 4620,
    "m9_buffer_decision_count": 11,
    "m10_schema_failure_count": 0,
    "m10_schema_failure_rate": 0.0,
    "m10_compliance_rate": 1.0,
    "outlier_flags": [],
    "outlier_latency_spike": False,
    "outlier_excessive_flushes": False,
    "outlier_low_coverage": False,
}
_EMPTY: Final = _PER_CASE | {
    "case_id": "case-synth-001",
    "m1_update_count": 0,
    "m2_output_ctu": 0,
    "m3_redundancy_jaccard_mean": None,
    "m3_redundancy_threshold_rates": _NO_RATES,
    "m4_trace_coverage": 0.0,
    "m4_summary_cui_count": 0,
    "m5_unsupported_global_rate": 0.0,
    "m5_unsupported_per_summary_mean": None,
    "m6a_mean": None,
    "m6b_mean": None,
    "faithfulness_valid_event_count": 0,
    "m7b_coverage_by_budget": dict.fromkeys(_BUDGETS, 0.0),
    "m8_summary_latency_ms_mean": None,
    "m8_summary_latency_distribution_ms": None,
    "flush_reason_counts": {"boundary_cue": 4},
}
_NOTHING: Final = {"mean": None, "ci_low": None, "ci_high": None}
_VARIANT: Final[Example] = {
    "n_cases": 2,
    "m1_update_count_mean": 1.5,
    "m2_output_ctu_mean": 301.0,
    "m3_redundancy": {"jaccard_mean": 0.55, "threshold_rates": _RATES},
    "m4_trace_coverage": {"mean": 0.25, "ci_low": 0.25, "ci_high": 0.25},
    "m5_unsupported": {"global_rate_mean": 0.2, "per_summary_mean": None},
    "m6a": {"mean": 0.3, "ci_low": 0.3, "ci_high": 0.3},
    "m6b": _NOTHING,
    "m7b_coverage_by_budget_mean": _BUDGETS,
    "m8_latency_ms_mean": {"summary": 92.5, "buffer_decision": None},
    "m9_usage_ctu_mean": {
        "prompt": 4100.0,
        "completion": 520.0,
        "total": 4620.0,
        "buffer_decision_count": 11.0,
    },
    "m10_compliance": {
        "schema_failure_rate_mean": 0.0,
        "compliance_rate_mean": 1.0,
        "schema_failure_count": 0,
        "summary_event_count": 3,
    },
    "faithfulness_valid_event_count": 3,
    "excluded_from_faithfulness_count": 0,
    "schema_failures": 0,
}
_AGGREGATE: Final[Example] = {
    "schema_name": "exaid.metrics",
    "schema_version": "2.2.0",
    "metrics_type": "aggregate",
    "computed_at": "2023-11-14T22:30:00.000Z",
    "bootstrap_samples": 10000,
    "seed": 42,
    "variants": {"V0": _VARIANT},
}


SCHEMA: Final = RecordSchema(
    name="exaid.metrics",
    summary="The metrics M1 to M10 of each case under each variant, and the report over them.",
    tag="metrics_type",
    across=MetricsRules,
    forms=(
        tagged_form(
            PerCaseMetrics,
            per_case_problems,
            (_PER_CASE, _EMPTY),
            (
                bad(_PER_CASE, "an empty case", "case_id", ""),
                bad(_PER_CASE, "no name of a variant", "variant_id", "7"),
                bad(_PER_CASE, "a share above 1", "m4_trace_coverage", 1.2),
                bad(_PER_CASE, "coverage of null", "m4_trace_coverage", None),
                bad(_PER_CASE, "a count below 0", "m1_update_count", -1),
                bad(
                    _PER_CASE,
                    "a threshold left out",
                    "m3_redundancy_threshold_rates",
                    {"tau_0.85": 0.1},
                ),
                bad(
                    _PER_CASE,
                    "a budget left out",
                    "m7b_coverage_by_budget",
                    without(_BUDGETS, "ctu_250"),
                ),
                bad(_PER_CASE, "no outlier flags", "outlier_flags"),
                bad(_PER_CASE, "another schema", "schema_name", "exaid.run"),
            ),
        ),
        tagged_form(
            AggregateMetrics,
            aggregate_problems,
            (_AGGREGATE,),
            (
                bad(_AGGREGATE, "no time", "computed_at"),
                bad(_AGGREGATE, "a time in words", "computed_at", "now"),
                bad(_AGGREGATE, "no name of a variant", "variants", {"7": _VARIANT}),
                bad(
                    _AGGREGATE,
                    "coverage without an interval",
                    "variants",
                    {"V0": _VARIANT | {"m4_trace_coverage": _NOTHING}},
                    "$.variants.V0.m4_trace_coverage.mean",
                ),
                bad(
                    _AGGREGATE,
                    "no cases counted",
                    "variants",
                    {"V0": without(_VARIANT, "n_cases")},
                    "$.variants.V0",
                ),
            ),
            identity="schema_name",
        ),
    ),
    good_files=((_PER_CASE, _EMPTY), (_AGGREGATE,)),
    bad_files=(BadFile("a case twice", (_PER_CASE, _EMPTY, _PER_CASE), 3, "once_per_variant"),),
)
