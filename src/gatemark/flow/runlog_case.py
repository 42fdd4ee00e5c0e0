"""One case of an evaluation: its trace read, replayed through every variant, its logs written.

This is what a worker process does; it gives back what is to be told about the case.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.runlog.names import run_file_name
from gatemark.core.runlog.trace_rules import Mode
from gatemark.disk.atomic import write_whole
from gatemark.flow.runlog_files import ReadTrace, read_trace
from gatemark.flow.runlog_models import ModelChoice, open_model
from gatemark.runlog.config import LoadedVariant
from gatemark.runlog.model import LanguageModel, RecordedReply, RecordingModel
from gatemark.runlog.moments import MANY_FALLBACKS
from gatemark.runlog.run_meta import RunFacts, make_log, model_ms
from gatemark.runlog.variants import Models, run_variant
from gatemark.runlog.writer import json_lines, packed


class CaseOutcome(msgspec.Struct, frozen=True):
    """How one case fared under one variant; ``reason`` is set when it has no log."""

    case_id: str
    variant_id: str
    reason: str | None = None
    summaries: int = 0
    model_ms: int = 0
    model_failures: int = 0
    deltas: int = 0
    warnings: tuple[str, ...] = ()


class CaseJob(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every case."""

    variants: tuple[LoadedVariant, ...]
    chunks: dict[str, int]
    facts: RunFacts
    output: str
    mode: Mode
    allow_stub: bool
    buffer_model: ModelChoice
    summarizer_model: ModelChoice
    keep_inputs: bool
    recording: bool


class CaseTask(msgspec.Struct, frozen=True):
    """One case of the manifest; ``path`` is None when its trace is not there."""

    case_id: str
    path: str | None
    content_hash: str


class CaseDone(msgspec.Struct, frozen=True):
    """What a worker tells about its case; ``ended_ms`` is when its trace ended."""

    outcomes: list[CaseOutcome]
    recorded: list[RecordedReply]
    ended_ms: int | None = None


def run_case(job: CaseJob, task: CaseTask) -> bytes:
    """One case through every variant; what cannot be done is a reason, and leaves no log."""
    recorders = _open_models(job)
    outcomes: list[CaseOutcome] = []
    ended_ms = None
    try:
        if task.path is None:
            raise BadInputError(f"the trace of {task.case_id} is missing")
        read = read_trace(task.path, mode=job.mode, allow_stub=job.allow_stub)
        if read.content_hash != task.content_hash:
            raise BadInputError(
                f"{task.path}: is not the trace of the manifest "
                f"(its content is {read.content_hash}, the manifest says {task.content_hash})"
            )
        if read.trace.meta.case_id != task.case_id:
            raise BadInputError(
                f"{task.path}: holds case {read.trace.meta.case_id!r}, expected {task.case_id!r}"
            )
    except GatemarkError as error:
        reason = error.lines()[0]
        outcomes = [_failed(job, task, variant, reason) for variant in job.variants]
    else:
        ended_ms = read.trace.end_ms
        for variant in job.variants:
            outcomes.append(_run_variant(job, task, variant, read, recorders))
    return msgspec.msgpack.encode(CaseDone(outcomes, _recorded(recorders), ended_ms))


def _run_variant(
    job: CaseJob, task: CaseTask, variant: LoadedVariant, read: ReadTrace, models: Models
) -> CaseOutcome:
    facts = job.facts
    try:
        done = run_variant(
            read.trace,
            variant.config,
            models,
            compat=facts.compat,
            chunk_size_ctu=job.chunks.get(variant.variant_id),
            keep_inputs=job.keep_inputs,
        )
        log = make_log(read.trace, variant, done, facts, file_hash=read.file_hash, models=models)
        write_whole(_log_path(job, task, variant), [packed(json_lines(log.records()))])
    except GatemarkError as error:
        return _failed(job, task, variant, error.lines()[0])
    warnings = [f"{task.case_id}: {remark.message}" for remark in read.remarks]
    if done.moments.made_up > MANY_FALLBACKS:
        warnings.append(
            f"{task.case_id} {variant.variant_id}: {done.moments.made_up} timestamps are made up, "
            "because their windows do not end with a delta"
        )
    return CaseOutcome(
        case_id=task.case_id,
        variant_id=variant.variant_id,
        summaries=len(log.events),
        model_ms=model_ms(log),
        model_failures=done.model_failures,
        deltas=read.delta_count,
        warnings=tuple(warnings),
    )


def _failed(job: CaseJob, task: CaseTask, variant: LoadedVariant, reason: str) -> CaseOutcome:
    """A case without a log; one of an earlier run must not pass for its log."""
    _log_path(job, task, variant).unlink(missing_ok=True)
    return CaseOutcome(task.case_id, variant.variant_id, reason=reason)


def _log_path(job: CaseJob, task: CaseTask, variant: LoadedVariant) -> Path:
    return Path(job.output) / variant.variant_id / run_file_name(task.case_id)


def _open_models(job: CaseJob) -> Models:
    buffer = _opened(job.buffer_model)
    same = job.summarizer_model == job.buffer_model
    summarizer = buffer if same else _opened(job.summarizer_model)
    if not job.recording:
        return Models(buffer, summarizer)
    kept: LanguageModel = RecordingModel(buffer)
    return Models(kept, kept if same else RecordingModel(summarizer))


@cache
def _opened(choice: ModelChoice) -> LanguageModel:
    """Opened once per process: a recording may be large, and connections are worth keeping."""
    return open_model(choice)


def _recorded(models: Models) -> list[RecordedReply]:
    found: dict[Any, RecordedReply] = {}
    for model in (models.buffer, models.summarizer):
        if isinstance(model, RecordingModel):
            found.update(model.lines)
    return list(found.values())
