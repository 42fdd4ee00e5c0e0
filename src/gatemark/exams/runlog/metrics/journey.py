"""``gatemark runlog metrics``: compute metrics with intervals from run logs.

(1) Find manifest, traces, logs and variants. (2) Measure case by case on an engine. (3) Refuse
mismatching logs, or count them as excluded. (4) Flag outliers and fold the rows into the exam. (5)
Write the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from gatemark import __version__
from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence, EvidenceFile, Measurement
from gatemark.core.progress import Progress
from gatemark.core.result import Figure
from gatemark.evidence.exam import ExamOutcome, ExamReport, Scored, judge_exam, option
from gatemark.evidence.run_exam import ExamJob, build_exam
from gatemark.evidence.source import ReadingChoices, digest_source, inspect_source, refuse
from gatemark.exams.runlog.concepts.choose import ExtractorSpec, find_extractor
from gatemark.exams.runlog.exam import EVENT_COUNT, RULES, RunlogOptions
from gatemark.exams.runlog.metrics.errors import with_outliers
from gatemark.exams.runlog.metrics.measure_case import (
    MetricsJob,
    MetricsOutcome,
    MetricsTask,
    VariantHashes,
    by_variant,
    checked_log,
    checked_trace,
    extractor_caveats,
    find_logs,
    measure_case,
    mixed_settings,
    origin_caveats,
    variant_hashes,
)
from gatemark.exams.runlog.records.fields import refuse_no_moment
from gatemark.exams.runlog.records.manifest import RunManifest
from gatemark.exams.runlog.records.metrics import METRICS_VERSION, PerCaseMetrics
from gatemark.exams.runlog.records.names import moment_text
from gatemark.exams.runlog.traces.dataset import manifest_dataset_hash
from gatemark.exams.runlog.traces.files import (
    cases_of_traces,
    find_manifest,
    find_traces,
    json_lines,
    plain_json,
    read_manifest,
)
from gatemark.exams.runlog.traces.trace import TextCompat, TracesFolder
from gatemark.exams.runlog.views import case_timeline
from gatemark.workspace import Workspace

PER_CASE_FILE = "per_case.metrics.jsonl"
AGGREGATE_FILE = "aggregate.metrics.json"
PAIRED_FILE = "paired.metrics.json"
PROVENANCE_FILE = "metrics.provenance.json"
FEW_CASES = 20
NO_GATE = "no gate was set, so that the verdict only says whether the evidence is whole"


class MetricsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure and how.

    ``judged`` is the variant that is gated and scored. ``computed_at`` is the time written to the
    files (default: the time at which the last trace ended, so that the same inputs give the same
    bytes).
    """

    runs: Annotated[
        str,
        option(
            "Folder of run logs, one folder per variant: V0/case-….jsonl.gz.",
            "--runs",
            "--run-logs",
            metavar="DIR",
        ),
    ] = "data/runs"
    traces: TracesFolder = "data/traces"
    manifest: Annotated[
        str | None,
        option("Manifest of the traces (default: the only one in their folder).", metavar="FILE"),
    ] = None
    configs: Annotated[
        str | None,
        option("Folder of variant configurations (default: the built-in variants).", metavar="DIR"),
    ] = None
    variants: tuple[str, ...] = ()
    extractor: ExtractorSpec = ExtractorSpec()
    judged: Annotated[
        str | None,
        option("Variant that gates and score are about (default: the first).", metavar="V"),
    ] = None
    score: Annotated[str, option("Metric that becomes the score.", metavar="METRIC")] = "m6b_mean"
    gates: dict[str, float] = {}
    gates_on: Annotated[
        Literal["value", "interval"],
        option("What gates compare: the value, or its whole interval, which can be inconclusive."),
    ] = "value"
    reference: Annotated[
        str | None,
        option("Variant that paired gates compare the judged one with.", metavar="V"),
    ] = None
    paired_gates: dict[str, float] = {}
    coverage_gate: Annotated[
        float, Meta(ge=0, le=1, description="Minimum share of cases with a usable log.")
    ] = 1.0
    on_bad_case: Annotated[
        Literal["error", "exclude"],
        option("Whether to refuse the input, or to count and show excluded logs."),
    ] = "error"
    bootstrap_samples: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of resamples per interval.")
    ] = 10_000
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1, description="Random seed of the intervals.")] = 42
    timeline_case: Annotated[
        str | None,
        option("Case to draw (default: one that stands out).", "--timeline", metavar="CASE"),
    ] = None
    computed_at: Annotated[
        str | None,
        option(
            "Time to write into the files (default: the end of the last trace).", metavar="TIME"
        ),
    ] = None
    compat: TextCompat = "gatemark"
    max_errors: Annotated[int, Meta(ge=1, description="Maximum number of problems to list.")] = 20


class _Inputs(NamedTuple):
    """The inputs of a measurement."""

    manifest_path: Path
    manifest: RunManifest
    job: MetricsJob
    tasks: list[MetricsTask]
    variants: list[str]
    configs: Mapping[str, VariantHashes]
    missing: int


def score_runlog(
    workspace: Workspace, request: MetricsRequest, on_progress: Progress | None = None
) -> Scored:
    """Measure run logs and judge the measurements."""
    started_at = workspace.clock()
    examined = examine_runlog(workspace, request, on_progress)
    judged = examined.exam.policy().settings["variant"]
    title = f"run-log metrics of {judged}"
    return judge_exam(
        "runlog",
        examined,
        actor=workspace.actor,
        started_at=started_at,
        finished_at=workspace.clock(),
        title=title,
    )


def examine_runlog(
    workspace: Workspace, request: MetricsRequest, on_progress: Progress | None = None
) -> ExamOutcome:
    """Run the exam over run logs, traces and their manifest."""
    refuse_no_moment(request.computed_at, "--computed-at")
    # Step 1. Loading an extractor is slow, so each worker does it when needed.
    find_extractor(request.extractor)
    inputs = _find(request)
    if request.judged is not None and request.judged not in inputs.variants:
        raise UsageError(
            f"there are no run logs of {request.judged!r} to judge "
            f"(measured: {', '.join(inputs.variants)})"
        )
    exam = build_exam(_exam_job(request, inputs.variants))
    # Step 2.
    outcomes: list[MetricsOutcome] = []
    engine = workspace.engine_for(len(inputs.tasks), FEW_CASES)
    for data in engine.run(partial(measure_case, inputs.job), inputs.tasks):
        outcomes.append(msgspec.msgpack.decode(data, type=MetricsOutcome))
        if on_progress is not None:
            on_progress(len(outcomes), len(inputs.tasks))
    outcomes.sort(key=lambda outcome: outcome.case_id)
    # Step 3.
    refused = [problems for outcome in outcomes for problems in outcome.refused.values()]
    if request.on_bad_case == "error":
        choices = ReadingChoices(max_errors=request.max_errors)
        refuse([problem for problems in refused for problem in problems], choices)
    origins = by_variant({outcome.case_id: outcome.origins for outcome in outcomes})
    refuse(list(mixed_settings(origins)), ReadingChoices(max_errors=request.max_errors))
    # Step 4.
    rows = [row for outcome in outcomes for row in outcome.rows]
    if not rows:
        raise BadInputError(f"{request.runs}: no run log could be measured")
    rows.sort(key=lambda row: (row.variant_id, row.case_id))
    flagged = with_outliers(rows)
    report = exam.finish(exam.step(exam.zero(0), flagged))
    # Step 5.
    evidence = Evidence(
        received=len(rows) + len(refused),
        accepted=len(rows),
        rejected=len(refused),
        usable=len(rows),
        missing=inputs.missing,
        expected=len(inputs.manifest.entries) * len(inputs.variants),
        files=_files(inputs, outcomes),
        checks={"on_bad_case": request.on_bad_case, "compat": request.compat},
    )
    computed_at = request.computed_at or moment_text(max(outcome.end_ms for outcome in outcomes))
    provenance = _provenance(request, inputs, outcomes)
    caveats = (
        *(() if request.gates or request.paired_gates else (NO_GATE,)),
        *origin_caveats(origins, request.compat),
        *extractor_caveats(origins, _differing(outcomes)),
    )
    return ExamOutcome(
        exam,
        msgspec.structs.replace(
            report,
            measurements=_with_caveats(report, caveats),
            figures=(*report.figures, *_timeline(request, inputs, flagged)),
            attachments=_attachments(request, report, flagged, computed_at, provenance),
            facts={**report.facts, "extractor": provenance["extractor"]},
        ),
        evidence,
    )


def _with_caveats(report: ExamReport, caveats: tuple[str, ...]) -> tuple[Measurement, ...]:
    """Return the measurements, with the caveats on the number of summaries."""
    return tuple(
        msgspec.structs.replace(number, caveats=(*number.caveats, *caveats))
        if number.name == EVENT_COUNT
        else number
        for number in report.measurements
    )


def _exam_job(request: MetricsRequest, variants: Sequence[str]) -> ExamJob:
    given = msgspec.structs.asdict(request)
    shared = {name: given[name] for name in RunlogOptions.__struct_fields__ if name in given}
    options = {**shared, "variant": request.judged or variants[0], "rules": RULES}
    return ExamJob("runlog", options, ReadingChoices(max_errors=request.max_errors))


def _find(request: MetricsRequest) -> _Inputs:
    folder = Path(request.traces)
    manifest_path = find_manifest(
        request.manifest, folder, folder.parent / "manifests", folder.parent
    )
    if manifest_path is None:
        raise UsageError(f"{request.traces}: there is no manifest beside the traces; name one")
    manifest = read_manifest(str(manifest_path))
    by_case = cases_of_traces(find_traces(request.traces))
    logs = find_logs(request.runs, request.variants)
    configs = variant_hashes(request.configs)
    job = MetricsJob(
        extractor=request.extractor,
        compat=request.compat,
        trace_dataset_hash=manifest_dataset_hash(manifest),
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
    return _Inputs(
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
    refuse(problems, ReadingChoices(max_errors=request.max_errors))


def _files(inputs: _Inputs, outcomes: Sequence[MetricsOutcome]) -> tuple[EvidenceFile, ...]:
    manifest = digest_source(inspect_source(str(inputs.manifest_path)))
    return (manifest, *(file for outcome in outcomes for file in outcome.files))


def _attachments(
    request: MetricsRequest,
    report: ExamReport,
    rows: Sequence[PerCaseMetrics],
    computed_at: str,
    provenance: dict[str, object],
) -> dict[str, bytes]:
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
        PER_CASE_FILE: json_lines(rows),
        AGGREGATE_FILE: plain_json(aggregate),
        PAIRED_FILE: plain_json(paired),
        PROVENANCE_FILE: plain_json({"computed_at": computed_at, **provenance}),
    }


def _provenance(
    request: MetricsRequest,
    inputs: _Inputs,
    outcomes: Sequence[MetricsOutcome],
) -> dict[str, object]:
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
        "extractor_differs_from_run_meta": _differing(outcomes),
        "excluded_logs": {
            "/".join(Path(path).parts[-2:]): list(problems)
            for outcome in outcomes
            for path, problems in sorted(outcome.refused.items())
        },
    }


def _differing(outcomes: Sequence[MetricsOutcome]) -> dict[str, list[str]]:
    """Return, per variant, the settings in which logs name another extractor than ran."""
    found: dict[str, set[str]] = {}
    for outcome in outcomes:
        for variant, names in outcome.other_extractors.items():
            found.setdefault(variant, set()).update(names)
    return {variant: sorted(names) for variant, names in sorted(found.items())}


def _timeline(
    request: MetricsRequest, inputs: _Inputs, rows: Sequence[PerCaseMetrics]
) -> Iterator[Figure]:
    """Draw one case of the judged variant: the requested one, or the first that stands out."""
    judged = request.judged or inputs.variants[0]
    mine = [row for row in rows if row.variant_id == judged]
    wanted = request.timeline_case or next(
        (row.case_id for row in mine if row.outlier_flags), mine[0].case_id if mine else None
    )
    task = next((task for task in inputs.tasks if task.entry.case_id == wanted), None)
    if task is None or judged not in task.logs:
        if request.timeline_case is not None:
            raise UsageError(f"there is no log of {request.timeline_case!r} under {judged}")
        return
    trace = checked_trace(inputs.job, task)
    found = case_timeline(checked_log(inputs.job, task, judged, trace), trace.trace)
    if found is not None:
        yield found
