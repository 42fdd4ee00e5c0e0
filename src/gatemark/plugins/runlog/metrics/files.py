"""The files that ``gatemark runlog metrics`` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatemark import __version__
from gatemark.core.canonical import digest
from gatemark.evidence.exam import ExamReport
from gatemark.plugins.runlog.metrics.inputs import MetricsInputs
from gatemark.plugins.runlog.metrics.measure_case import MetricsOutcome
from gatemark.plugins.runlog.metrics.request import MetricsRequest
from gatemark.plugins.runlog.records.metrics import METRICS_VERSION, PerCaseMetrics
from gatemark.plugins.runlog.traces.files import render_json_lines, render_plain_json

PER_CASE_FILE = "per_case.metrics.jsonl"
AGGREGATE_FILE = "aggregate.metrics.json"
PAIRED_FILE = "paired.metrics.json"
PROVENANCE_FILE = "metrics.provenance.json"


def render_files(
    request: MetricsRequest,
    report: ExamReport,
    rows: Sequence[PerCaseMetrics],
    computed_at: str,
    provenance: dict[str, object],
) -> dict[str, bytes]:
    """Return every file by name: rows, means, paired differences, and where they come from."""
    head = {
        "computed_at": computed_at,
        "bootstrap_samples": request.bootstrap_samples,
        "seed": request.seed,
    }
    aggregate = {
        "schema_name": "exaid.metrics",
        "schema_version": METRICS_VERSION,
        "metrics_type": "aggregate",
        **head,
        "variants": report.facts["aggregate"],
    }
    paired = {
        "schema_name": "gatemark.runlog.paired",
        "schema_version": "1.0.0",
        **head,
        "comparisons": report.facts["paired"],
    }
    return {
        PER_CASE_FILE: render_json_lines(rows),
        AGGREGATE_FILE: render_plain_json(aggregate),
        PAIRED_FILE: render_plain_json(paired),
        PROVENANCE_FILE: render_plain_json({"computed_at": computed_at, **provenance}),
    }


def describe_provenance(
    request: MetricsRequest,
    inputs: MetricsInputs,
    outcomes: Sequence[MetricsOutcome],
) -> dict[str, object]:
    """Return what the metrics were computed from: data set, configurations and extractor."""
    extractor = outcomes[0].extractor
    manifest = inputs.manifest
    settings = {
        "compat": request.compat,
        "bootstrap_samples": request.bootstrap_samples,
        "seed": request.seed,
    }
    return {
        "schema_name": "exaid.metrics.provenance",
        "schema_version": "1.0.0",
        "code_version": f"gatemark {__version__}",
        "computed_at_source": "given" if request.computed_at else "end of the last trace",
        "configs": {
            "extractor_config_hash": extractor["digest"],
            "metrics_config_hash": digest(settings),
            "variant_configs": {
                variant: msgspec.to_builtins(inputs.configs[variant]) for variant in inputs.variants
            },
        },
        "dataset": {
            "dataset_id": manifest.meta.dataset_id,
            "mas_run_id": manifest.meta.mas_run_id,
            "case_list_hash": manifest.provenance.case_list_hash,
            "trace_dataset_hash": inputs.job.trace_dataset_hash,
            "manifest_hash_valid": True,
            "stub_mode": any(outcome.is_stub for outcome in outcomes),
            "path": inputs.manifest_path.name,
        },
        "settings": settings,
        "extractor": extractor,
        "extractor_differs_from_run_meta": find_other_extractors(outcomes),
        "excluded_logs": {
            "/".join(Path(path).parts[-2:]): list(problems)
            for outcome in outcomes
            for path, problems in sorted(outcome.refused.items())
        },
    }


def find_other_extractors(outcomes: Sequence[MetricsOutcome]) -> dict[str, list[str]]:
    """Return, per variant, the settings in which logs name another extractor than ran."""
    found: dict[str, set[str]] = {}
    for outcome in outcomes:
        for variant, names in outcome.other_extractors.items():
            found.setdefault(variant, set()).update(names)
    return {variant: sorted(names) for variant, names in sorted(found.items())}
