"""``exaid.metrics``: the schema of run-log metrics."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import RecordSchema
from gatemark.plugins.runlog.records.examples import ExamplesOf
from gatemark.plugins.runlog.records.forms import make_form
from gatemark.plugins.runlog.records.metrics import AggregateMetrics, PerCaseMetrics
from gatemark.plugins.runlog.records.metrics_file_rules import METRICS_RULES, MetricsRules
from gatemark.plugins.runlog.records.metrics_rules import AGGREGATE_RULES, PER_CASE_RULES

_EXAMPLES: Final = ExamplesOf("metrics", "2.2")

SCHEMA: Final = RecordSchema(
    name="exaid.metrics",
    summary="The metrics M1 to M10 of each case under each variant, and the report over them.",
    tag="metrics_type",
    across=MetricsRules,
    file_rules=METRICS_RULES,
    forms=(
        make_form(PerCaseMetrics, _EXAMPLES, PER_CASE_RULES),
        make_form(AggregateMetrics, _EXAMPLES, AGGREGATE_RULES, identity="schema_name"),
    ),
    good_files=_EXAMPLES.good_files,
    bad_files=_EXAMPLES.bad_files,
)
