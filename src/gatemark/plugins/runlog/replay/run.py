"""Replay every case of a data set through variants, and report each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import UNSET

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import read_settings, settings_as
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec, extractors, load_extractor
from gatemark.plugins.runlog.concepts.port import Stoplists, describe_extractor
from gatemark.plugins.runlog.records.manifest import RunManifest
from gatemark.plugins.runlog.records.names import format_moment, name_eval_run
from gatemark.plugins.runlog.records.run import Compat, ExtractorSettings, StoplistsProvenance
from gatemark.plugins.runlog.replay.case import (
    FEW_CASES,
    CaseOutcome,
    ReplayJob,
    ReplayOutcome,
    ReplayTask,
    run_some,
    split_batches,
)
from gatemark.plugins.runlog.replay.chunks import find_chunk_sizes
from gatemark.plugins.runlog.replay.config import LoadedVariant, load_variants
from gatemark.plugins.runlog.replay.make_log import RunFacts
from gatemark.plugins.runlog.replay.model import render_recording
from gatemark.plugins.runlog.replay.models import open_model
from gatemark.plugins.runlog.replay.run_request import RunRequest
from gatemark.plugins.runlog.traces.dataset import find_dataset_hash
from gatemark.plugins.runlog.traces.files import (
    find_manifest,
    find_traces,
    group_traces_by_case,
    read_manifest,
    render_plain_json,
)
from gatemark.workspace import Workspace

SUMMARIES = "run_summaries"


class VariantSummary(msgspec.Struct, frozen=True):
    """One variant over all cases, as in its summary file."""

    variant_id: str
    eval_run_id: str
    generated_at: str
    total_cases: int
    succeeded: int
    failed: tuple[dict[str, str], ...]
    per_case_summary_counts: dict[str, int]
    timing_ms: dict[str, float | None]
    model_failures: dict[str, int]
    questions: int = 0
    unparsable_answers: dict[str, int] = {}


class RunOutcome(msgspec.Struct, frozen=True):
    """The outcome of a complete evaluation."""

    eval_run_id: str
    trace_dataset_hash: str
    output: str
    variants: tuple[VariantSummary, ...]
    deltas: int
    warnings: tuple[str, ...]
    caveats: tuple[str, ...] = ()

    @property
    def failed_count(self) -> int:
        """Number of cases without a log."""
        return sum(len(variant.failed) for variant in self.variants)

    @property
    def model_failure_count(self) -> int:
        """Number of questions without a reply."""
        return sum(sum(variant.model_failures.values()) for variant in self.variants)


def run_cases(
    workspace: Workspace,
    request: RunRequest,
    on_progress: Callable[[int, int], None] | None = None,
) -> RunOutcome:
    """Replay every case of the manifest, or those whose name contains ``case``."""
    variants = load_variants(request.configs, request.variants)
    compat = _choose_compat(variants, request.compat)
    paths = find_traces(request.traces)
    manifest = read_manifest(_find_manifest_path(request, paths))
    dataset_hash = find_dataset_hash(manifest)
    tasks, warnings = _list_tasks(paths, manifest, request)
    job = ReplayJob(
        variants=variants,
        chunks=find_chunk_sizes(
            variants,
            configs=request.configs,
            report=request.v3_report,
            trace_dataset_hash=dataset_hash,
            code_commit=None if request.allow_commit_mismatch else request.code_commit,
        ),
        facts=_gather_facts(request, dataset_hash, compat),
        request=request,
    )
    models = {request.buffer_model, request.summarizer_model}
    for choice in models:
        open_model(choice).close()
    is_live = any(choice.kind == "target" for choice in models)
    engine = workspace.engine_for(len(tasks) * len(variants), 0 if is_live else FEW_CASES)
    done: list[CaseOutcome] = []
    for data in engine.run(partial(run_some, job), split_batches(tasks)):
        done.extend(msgspec.msgpack.decode(data, type=list[CaseOutcome]))
        if on_progress is not None:
            on_progress(len(done), len(tasks))
    return _finish(job, done, warnings)


def _find_manifest_path(request: RunRequest, paths: Sequence[Path]) -> str:
    folder = paths[0].parent
    found = find_manifest(request.manifest, folder, folder.parent / "manifests", folder.parent)
    if found is None:
        raise BadInputError(f"{request.traces}: has no manifest near it; name one with --manifest")
    return str(found)


def _list_tasks(
    paths: Iterable[Path], manifest: RunManifest, request: RunRequest
) -> tuple[list[ReplayTask], list[str]]:
    """Return one task per case of the manifest; other files are reported and left out."""
    files = group_traces_by_case(paths)
    entries = [entry for entry in manifest.entries if request.case in entry.case_id]
    if not entries:
        raise BadInputError(f"no case id of the manifest contains {request.case!r} in its name")
    named = {path.name: path for path in files.values()}
    by_case = {
        entry.case_id: files.get(entry.case_id) or named.get(Path(entry.file).name)
        for entry in entries
    }
    if not any(by_case.values()):
        raise BadInputError(
            f"{request.traces}: holds none of the {len(entries)} traces of the manifest"
        )
    listed = {entry.case_id for entry in manifest.entries}
    unlisted = sorted(case_id for case_id in files if case_id not in listed)
    warnings = [
        f"{files[case_id]}: is not in the manifest and was left out" for case_id in unlisted
    ]
    tasks = [
        ReplayTask(
            entry.case_id, str(path) if (path := by_case[entry.case_id]) else None, entry.sha256
        )
        for entry in entries
    ]
    return tasks, warnings


def _choose_compat(variants: Sequence[LoadedVariant], asked: Compat | None) -> Compat:
    if asked is not None:
        return asked
    found = {variant.config.compat for variant in variants}
    if len(found) > 1:
        raise UsageError("the variants have different compat settings; choose one with --compat")
    return found.pop()


def _gather_facts(request: RunRequest, dataset_hash: str, compat: Compat) -> RunFacts:
    facts = RunFacts(
        eval_run_id=request.eval_run_id or name_eval_run(dataset_hash, request.code_commit),
        trace_dataset_hash=dataset_hash,
        compat=compat,
        created_at=request.created_at,
    )
    name = request.extractor
    if name is None:
        if request.stoplists is not None:
            raise UsageError("--stoplists needs --extractor")
        return facts
    if name not in extractors():
        return msgspec.structs.replace(
            facts, concept_extractor=settings_as(read_settings(name), ExtractorSettings, name)
        )
    extractor = load_extractor(ExtractorSpec(name, stoplists=request.stoplists))
    return msgspec.structs.replace(
        facts,
        concept_extractor=settings_as(describe_extractor(extractor), ExtractorSettings, name),
        stoplists=_describe_stoplists(extractor.stoplists, request.stoplists),
    )


def _describe_stoplists(found: Stoplists, folder: str | None) -> StoplistsProvenance | None:
    """Return what ``run_meta`` says about stoplists, or None."""
    if folder is None:
        return None
    if found.generated_at is None:
        raise BadInputError(f"{folder}: its metadata has no time of generation")
    return StoplistsProvenance(
        stop_entities_hash=found.stop_entities_hash,
        stop_cuis_hash=found.stop_cuis_hash,
        stoplists_generated_at=found.generated_at,
        stoplist_df_report_hash=found.stoplist_df_report_hash or UNSET,
        stoplists_generated_by_commit=found.generated_by_commit,
    )


def _finish(job: ReplayJob, done: Sequence[CaseOutcome], warnings: Sequence[str]) -> RunOutcome:
    """Return the outcome: a summary per variant, the recording, the warnings."""
    request, facts = job.request, job.facts
    outcomes = sorted(
        (outcome for case in done for outcome in case.outcomes),
        key=lambda outcome: (outcome.variant_id, outcome.case_id),
    )
    ends = [case.ended_ms for case in done if case.ended_ms is not None]
    generated_at = request.created_at or format_moment(max(ends, default=0))
    summaries = []
    for variant in job.variants:
        mine = [found for found in outcomes if found.variant_id == variant.variant_id]
        summary = _summarise_variant(variant.variant_id, facts.eval_run_id, generated_at, mine)
        name = f"{facts.eval_run_id}_{variant.variant_id}.json"
        write_whole(Path(request.output) / SUMMARIES / name, [render_plain_json(summary)])
        summaries.append(summary)
    if request.record is not None:
        lines = {line.key: line for case in done for line in case.recorded}
        write_whole(Path(request.record), [render_recording(lines)])
    repeated = dict.fromkeys(warning for outcome in outcomes for warning in outcome.warnings)
    first = job.variants[0].variant_id
    return RunOutcome(
        eval_run_id=facts.eval_run_id,
        trace_dataset_hash=facts.trace_dataset_hash,
        output=request.output,
        variants=tuple(summaries),
        deltas=sum(found.deltas for found in outcomes if found.variant_id == first),
        warnings=(*warnings, *repeated),
        caveats=tuple(_list_caveats(summaries, request)),
    )


def _summarise_variant(
    variant_id: str, run_id: str, generated_at: str, outcomes: Sequence[ReplayOutcome]
) -> VariantSummary:
    good = [outcome for outcome in outcomes if outcome.reason is None]
    spans = [outcome.model_ms for outcome in good]
    return VariantSummary(
        variant_id=variant_id,
        eval_run_id=run_id,
        generated_at=generated_at,
        total_cases=len(outcomes),
        succeeded=len(good),
        failed=tuple(
            {"case_id": outcome.case_id, "reason": outcome.reason}
            for outcome in outcomes
            if outcome.reason is not None
        ),
        per_case_summary_counts={outcome.case_id: outcome.summaries for outcome in good},
        timing_ms={
            "count": len(spans),
            "min": min(spans, default=None),
            "mean": sum(spans) / len(spans) if spans else None,
            "max": max(spans, default=None),
        },
        model_failures={
            outcome.case_id: outcome.model_failures for outcome in good if outcome.model_failures
        },
        questions=sum(outcome.questions for outcome in good),
        unparsable_answers={
            outcome.case_id: outcome.unparsable for outcome in good if outcome.unparsable
        },
    )


def _list_caveats(summaries: Sequence[VariantSummary], request: RunRequest) -> Iterable[str]:
    """Yield caveats on logs with few summaries for the wrong reason."""
    max_unparsable = request.max_unparsable
    for variant in summaries:
        unparsable = sum(variant.unparsable_answers.values())
        if unparsable > max_unparsable * variant.questions:
            yield (
                f"{variant.variant_id}: {unparsable} of {variant.questions} answers of the model "
                f"could not be read; at most {max_unparsable:.0%} may. Their failure_mode in the "
                "logs says why; --max-unparsable sets another bound"
            )
        # Rules that find nothing to summarise in short cases are right; a model may be silent.
        is_live = request.buffer_model.kind != "rules" and variant.questions
        if is_live and not any(variant.per_case_summary_counts.values()):
            yield (
                f"{variant.variant_id}: {variant.questions} questions and not one summary in "
                f"{variant.succeeded} cases: there is nothing to measure"
            )
