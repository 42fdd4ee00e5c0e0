"""Cases of an evaluation: read traces, replay them through every variant, write logs.

This runs in a worker process; it returns what to report about each case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from gatemark.core.atomic import sync_folders, write_whole
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.plugins.runlog.records.names import name_run_file
from gatemark.plugins.runlog.replay.config import LoadedVariant
from gatemark.plugins.runlog.replay.make_log import RunFacts, add_latencies, make_log
from gatemark.plugins.runlog.replay.model import (
    LanguageModel,
    RecordedModel,
    RecordedReply,
    RecordingModel,
)
from gatemark.plugins.runlog.replay.models import open_model
from gatemark.plugins.runlog.replay.run_request import RunRequest
from gatemark.plugins.runlog.replay.variants import MANY_FALLBACKS, Models, run_variant
from gatemark.plugins.runlog.traces.files import ReadTrace, pack_gzip, read_trace, render_json_lines

T = TypeVar("T")
WRITERS: Final = 4
BATCH_CASES: Final = 32
FEWEST_BATCHES: Final = 8
# Another process takes longer to start than this many cases.
FEW_CASES: Final = 20


def split_batches(tasks: Sequence[T]) -> list[tuple[T, ...]]:
    """Split cases into batches, each with one wait for the disk, and enough of them to share."""
    size = max(1, min(BATCH_CASES, len(tasks) // FEWEST_BATCHES))
    return [tuple(tasks[start : start + size]) for start in range(0, len(tasks), size)]


class ReplayOutcome(msgspec.Struct, frozen=True):
    """The outcome of one case under one variant; ``reason`` is set if it has no log."""

    case_id: str
    variant_id: str
    reason: str | None = None
    summaries: int = 0
    model_ms: int = 0
    model_failures: int = 0
    questions: int = 0
    unparsable: int = 0
    deltas: int = 0
    warnings: tuple[str, ...] = ()


class ReplayJob(msgspec.Struct, frozen=True):
    """What all cases share."""

    variants: tuple[LoadedVariant, ...]
    chunks: dict[str, int]
    facts: RunFacts
    request: RunRequest


class ReplayTask(msgspec.Struct, frozen=True):
    """One case of the manifest; ``path`` is None if its trace is missing."""

    case_id: str
    path: str | None
    content_hash: str


class CaseOutcome(msgspec.Struct, frozen=True):
    """What a worker reports about its case; ``ended_ms`` is when its trace ended."""

    outcomes: list[ReplayOutcome]
    recorded: list[RecordedReply]
    ended_ms: int | None = None


class _WrittenLog(NamedTuple):
    """A log that is being written, and what to report when it is on the disk."""

    task: ReplayTask
    variant: LoadedVariant
    outcome: ReplayOutcome
    writing: Future[None]


def run_some(job: ReplayJob, tasks: tuple[ReplayTask, ...]) -> bytes:
    """Run some cases through every variant; a failure is a reason, and leaves no log.

    Logs are written by separate threads, because most of the time is waiting for the disk.
    """
    with _open_models(job) as models, ThreadPoolExecutor(WRITERS) as pool:
        done = [_run_case(job, task, models, pool) for task in tasks]
    folders = (Path(job.request.output) / variant.variant_id for variant in job.variants)
    sync_folders(folder for folder in folders if folder.is_dir())
    return msgspec.msgpack.encode([_finish_writing(job, *case) for case in done])


def _run_case(
    job: ReplayJob, task: ReplayTask, opened: Models, pool: ThreadPoolExecutor
) -> tuple[list[_WrittenLog | ReplayOutcome], list[RecordedReply], int | None]:
    try:
        read = _read_trace(job, task)
    except GatemarkError as error:
        reason = error.lines()[0]
        return [_report_failure(job, task, variant, reason) for variant in job.variants], [], None
    results: list[_WrittenLog | ReplayOutcome] = []
    recorded: list[RecordedReply] = []
    for variant in job.variants:
        models = _scope_models(
            opened, f"{task.case_id}/{variant.variant_id}", recording=job.request.record is not None
        )
        results.append(_run_variant(job, task, variant, read=read, models=models, pool=pool))
        recorded.extend(_collect_replies(models))
    return results, recorded, read.trace.end_ms


def _finish_writing(
    job: ReplayJob,
    results: list[_WrittenLog | ReplayOutcome],
    recorded: list[RecordedReply],
    ended_ms: int | None,
) -> CaseOutcome:
    outcomes = []
    for one in results:
        if isinstance(one, ReplayOutcome):
            outcomes.append(one)
            continue
        error = one.writing.exception()
        if error is None:
            outcomes.append(one.outcome)
        elif isinstance(error, GatemarkError):
            outcomes.append(_report_failure(job, one.task, one.variant, error.lines()[0]))
        else:
            raise error
    return CaseOutcome(outcomes, recorded, ended_ms)


def _read_trace(job: ReplayJob, task: ReplayTask) -> ReadTrace:
    """Return the trace of a case; raise if the manifest pins another one."""
    if task.path is None:
        raise BadInputError(f"the trace of {task.case_id} is missing")
    read = read_trace(task.path, mode=job.request.mode, allow_stub=job.request.allow_stub)
    if read.content_hash != task.content_hash:
        raise BadInputError(
            f"{task.path}: is not the trace of the manifest "
            f"(its content is {read.content_hash}, the manifest says {task.content_hash})"
        )
    if read.trace.meta.case_id != task.case_id:
        raise BadInputError(
            f"{task.path}: holds case {read.trace.meta.case_id!r}, expected {task.case_id!r}"
        )
    return read


def _run_variant(
    job: ReplayJob,
    task: ReplayTask,
    variant: LoadedVariant,
    *,
    read: ReadTrace,
    models: Models,
    pool: ThreadPoolExecutor,
) -> _WrittenLog | ReplayOutcome:
    facts, chunk_size = job.facts, job.chunks.get(variant.variant_id)
    try:
        done = run_variant(
            read.trace,
            variant.config,
            models,
            compat=facts.compat,
            chunk_size_ctu=chunk_size,
            keep_inputs=job.request.keep_inputs,
        )
    except GatemarkError as error:
        return _report_failure(job, task, variant, error.lines()[0])
    log = make_log(
        read.trace,
        variant,
        done,
        facts,
        file_hash=read.file_hash,
        models=models,
        chunk_size_ctu=chunk_size,
    )
    data = pack_gzip(render_json_lines(log.records()))
    warnings = [f"{task.case_id}: {remark.message}" for remark in read.remarks]
    if done.moments.made_up > MANY_FALLBACKS:
        warnings.append(
            f"{task.case_id} {variant.variant_id}: {done.moments.made_up} timestamps are made up, "
            "because their windows do not end with a delta"
        )
    outcome = ReplayOutcome(
        case_id=task.case_id,
        variant_id=variant.variant_id,
        summaries=len(log.events),
        model_ms=add_latencies(log),
        model_failures=done.model_failures,
        questions=len(done.decisions) + len(done.events),
        unparsable=done.unparsable,
        deltas=read.delta_count,
        warnings=tuple(warnings),
    )
    path = _locate_log(job, task, variant)
    writing = pool.submit(write_whole, path, [data], sync_folder=False)
    return _WrittenLog(task, variant, outcome, writing)


def _report_failure(
    job: ReplayJob, task: ReplayTask, variant: LoadedVariant, reason: str
) -> ReplayOutcome:
    """Return a case without a log, and remove the log of an earlier run."""
    _locate_log(job, task, variant).unlink(missing_ok=True)
    return ReplayOutcome(task.case_id, variant.variant_id, reason=reason)


def _locate_log(job: ReplayJob, task: ReplayTask, variant: LoadedVariant) -> Path:
    return Path(job.request.output) / variant.variant_id / name_run_file(task.case_id)


@contextmanager
def _open_models(job: ReplayJob) -> Iterator[Models]:
    """Yield the models of some cases; a model of both agents is opened once."""
    request = job.request
    buffer = open_model(request.buffer_model)
    same = request.summarizer_model == request.buffer_model
    summarizer = buffer if same else open_model(request.summarizer_model)
    try:
        yield Models(buffer, summarizer)
    finally:
        buffer.close()
        if not same:
            summarizer.close()


def _scope_models(opened: Models, scope: str, *, recording: bool) -> Models:
    """Return the models for one case and variant; a recording starts at its first question."""

    def scoped(model: LanguageModel) -> LanguageModel:
        own = model.scoped(scope) if isinstance(model, RecordedModel) else model
        return RecordingModel(own, scope) if recording else own

    buffer = scoped(opened.buffer)
    same = opened.summarizer is opened.buffer
    return Models(buffer, buffer if same else scoped(opened.summarizer))


def _collect_replies(models: Models) -> list[RecordedReply]:
    recording = [m for m in (models.buffer, models.summarizer) if isinstance(m, RecordingModel)]
    found = {key: line for model in recording for key, line in model.lines.items()}
    return list(found.values())
