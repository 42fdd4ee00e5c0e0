"""The records of run-log metrics: each case under each variant, and a report over all of them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gatemark.plugins.runlog.records.fields import Count, Moment, Share, VariantName, Version

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
