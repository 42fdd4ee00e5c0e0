"""The inputs of run-log metrics: manifest, traces, logs and configurations of variants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gatemark.core.errors import UsageError
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.runlog.metrics.find_logs import find_logs
from gatemark.plugins.runlog.metrics.measure_case import MetricsJob, MetricsTask
from gatemark.plugins.runlog.metrics.request import MetricsRequest
from gatemark.plugins.runlog.metrics.variant_hashes import VariantHashes, read_variant_hashes
from gatemark.plugins.runlog.records.manifest import RunManifest
from gatemark.plugins.runlog.traces.dataset import find_dataset_hash
from gatemark.plugins.runlog.traces.files import (
    find_manifest,
    find_traces,
    group_traces_by_case,
    read_manifest,
)


class MetricsInputs(NamedTuple):
    """The inputs of a measurement."""

    manifest_path: Path
    manifest: RunManifest
    job: MetricsJob
    tasks: list[MetricsTask]
    variants: list[str]
    configs: Mapping[str, VariantHashes]
    missing: int


def find_inputs(request: MetricsRequest) -> MetricsInputs:
    """Find what a request names; refuse logs of unknown cases and variants."""
    folder = Path(request.traces)
    manifest_path = find_manifest(
        request.manifest, folder, folder.parent / "manifests", folder.parent
    )
    if manifest_path is None:
        raise UsageError(f"{request.traces}: there is no manifest beside the traces; name one")
    manifest = read_manifest(str(manifest_path))
    by_case = group_traces_by_case(find_traces(request.traces))
    logs = find_logs(request.runs, request.variants)
    configs = read_variant_hashes(request.configs)
    job = MetricsJob(
        extractor=request.extractor,
        compat=request.compat,
        trace_dataset_hash=find_dataset_hash(manifest),
        tokengate_hashes={name: found.tokengate_config_hash for name, found in configs.items()},
    )
    _refuse_strangers(logs, manifest, configs, request)
    tasks = [
        MetricsTask(
            entry=entry, trace=str(by_case.get(entry.case_id) or folder / entry.file), logs=found
        )
        for entry in manifest.entries
        if (
            found := {
                v: cases[entry.case_id] for v, cases in logs.items() if entry.case_id in cases
            }
        )
    ]
    present = sum(len(task.logs) for task in tasks)
    return MetricsInputs(
        manifest_path=manifest_path,
        manifest=manifest,
        job=job,
        tasks=tasks,
        variants=sorted(logs),
        configs=configs,
        missing=len(manifest.entries) * len(logs) - present,
    )


def _refuse_strangers(
    logs: Mapping[str, Mapping[str, str]],
    manifest: RunManifest,
    configs: Mapping[str, VariantHashes],
    request: MetricsRequest,
) -> None:
    """Refuse logs of unknown cases, and variants without a configuration."""
    known = {entry.case_id for entry in manifest.entries}
    problems = [
        f"{path}: case {case!r} is not in the manifest"
        for cases in logs.values()
        for case, path in cases.items()
        if case not in known
    ]
    problems += [
        f"{request.runs}: variant {variant!r} has no configuration (known: {', '.join(configs)})"
        for variant in logs
        if variant not in configs
    ]
    refuse_input(problems, ReadingChoices(max_errors=request.max_errors))
