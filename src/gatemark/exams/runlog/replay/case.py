"""Cases of an evaluation: read traces, replay them through every variant, write logs.

This runs in a worker process; it returns what to report about each case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct

from gatemark.core.atomic import sync_folders, write_whole
from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.exam import option
from gatemark.exams.runlog.records.names import UNKNOWN_COMMIT, moment_text, run_file_name
from gatemark.exams.runlog.records.run import (
    RUN_VERSION,
    Compat,
    Determinism,
    ExtractorSettings,
    RunLog,
    RunMeta,
    StoplistsProvenance,
)
from gatemark.exams.runlog.records.trace_rules import Mode
from gatemark.exams.runlog.replay.agents import PROMPT_VERSION
from gatemark.exams.runlog.replay.config import LoadedVariant
from gatemark.exams.runlog.replay.model import (
    LanguageModel,
    RecordedModel,
    RecordedReply,
    RecordingModel,
)
from gatemark.exams.runlog.replay.models import ModelChoice, open_model
from gatemark.exams.runlog.replay.variants import MANY_FALLBACKS, CaseRecorder, Models, run_variant
from gatemark.exams.runlog.traces.files import ReadTrace, json_lines, packed, read_trace
from gatemark.exams.runlog.traces.trace import Trace

NO_EXTRACTOR: Final = ExtractorSettings(
    spacy_version="none",
    scispacy_version="none",
    scispacy_model="none",
    linker_name="none",
    linker_kb_version=None,
    linker_resolve_abbreviations=False,
    cui_score_threshold=0.7,
    max_k=10,
    min_entity_len=3,
    concept_representation="cui",
    cui_normalization="uppercase",
)
"""A replay extracts no concepts; the extractor of later metrics can be given beforehand."""
NO_STOPLIST: Final = digest_bytes(b"")


class RunFacts(Struct, frozen=True):
    """What all cases and variants of one evaluation share."""

    eval_run_id: str
    trace_dataset_hash: str
    compat: Compat = "gatemark"
    created_at: str | None = None
    concept_extractor: ExtractorSettings = NO_EXTRACTOR
    stoplists: StoplistsProvenance | None = None


def make_log(
    trace: Trace,
    variant: LoadedVariant,
    done: CaseRecorder,
    facts: RunFacts,
    *,
    file_hash: str,
    models: Models,
    chunk_size_ctu: int | None = None,
) -> RunLog:
    """Return a complete run log; by default, it was created when its trace ended."""
    created_at = facts.created_at or moment_text(trace.end_ms)
    meta = RunMeta(
        schema_name="exaid.run",
        schema_version=RUN_VERSION,
        created_at=created_at,
        case_id=trace.meta.case_id,
        variant_id=variant.variant_id,
        mas_run_id=trace.meta.mas_run_id,
        eval_run_id=facts.eval_run_id,
        history_k=variant.config.summarizer.history_k,
        trigger_policy=variant.config.trigger_policy,
        trace_file_hash=file_hash,
        trace_dataset_hash=facts.trace_dataset_hash,
        tokengate_config_hash=variant.tokengate_config_hash,
        concept_extractor=facts.concept_extractor,
        stoplists_provenance=facts.stoplists
        or StoplistsProvenance(
            stop_entities_hash=NO_STOPLIST,
            stop_cuis_hash=NO_STOPLIST,
            stoplists_generated_at=created_at,
            stoplists_generated_by_commit=None,
        ),
        timestamp_derivation=done.moments.derivation(),
        determinism=Determinism(gzip_mtime=0, json_sort_keys=True, json_separators=[",", ":"]),
        compat=facts.compat,
        backend={
            "buffer_agent": models.buffer.identity(),
            "summarizer": models.summarizer.identity(),
            "prompts": PROMPT_VERSION,
        },
        chunk_size_ctu=UNSET if chunk_size_ctu is None else chunk_size_ctu,
    )
    return RunLog(meta, tuple(done.flushes), tuple(done.decisions), tuple(done.events))


def model_ms(log: RunLog) -> int:
    """Return how long the models of a run took, as they report it."""
    spans = [decision.latency_ms for decision in log.decisions]
    spans += [event.latency_ms for event in log.events]
    return sum(span for span in spans if span is not UNSET)


T = TypeVar("T")

WRITERS: Final = 4
BATCH_CASES: Final = 32
FEWEST_BATCHES: Final = 8
# Another process takes longer to start than this many cases.
FEW_CASES: Final = 20


def in_batches(tasks: Sequence[T]) -> list[tuple[T, ...]]:
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


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to replay, how, and where to write the logs."""

    traces: Annotated[str, option("Folder of traces.")] = "data/traces"
    output: Annotated[str, option("Folder for the run logs.")] = "data/runs"
    configs: Annotated[
        str | None, option("Folder of V0.yaml to V4.yaml (default: built in).", metavar="DIR")
    ] = None
    variants: Annotated[
        tuple[str, ...], option("Variant to run. Repeatable.", "--variant", "variants")
    ] = ()
    case: Annotated[str, option("Text that the name of a case must contain.")] = ""
    manifest: Annotated[
        str | None,
        option("Manifest of the traces (default: the only one near them).", metavar="FILE"),
    ] = None
    eval_run_id: Annotated[
        str | None, option("Name of the evaluation (default: made from the hashes).")
    ] = None
    code_commit: Annotated[str, option("Commit under test.")] = UNKNOWN_COMMIT
    created_at: Annotated[
        str | None,
        option("Time to write into the logs (default: that of the traces).", metavar="TIME"),
    ] = None
    compat: Annotated[
        Compat | None,
        option(
            "Compatibility mode (default: from the configuration).", "--compat", "--compat-mode"
        ),
    ] = None
    mode: Annotated[
        Mode,
        option(
            "Whether odd times and turns of a trace are errors or warnings.",
            "--mode",
            "--strictness",
        ),
    ] = "strict"
    allow_stub: Annotated[bool, option("Replay stub traces too.")] = False
    buffer_model: ModelChoice = ModelChoice("rules")
    summarizer_model: ModelChoice = ModelChoice("rules")
    record: Annotated[
        str | None,
        option("File to record every answer in, for a later --model FILE.", metavar="FILE"),
    ] = None
    keep_inputs: Annotated[bool, option("Write the prompts of the summarizer into the logs.")] = (
        False
    )
    extractor: Annotated[
        str | None,
        option("Concept extractor that metrics will use, for run_meta.", metavar="NAME|FILE"),
    ] = None
    stoplists: Annotated[
        str | None, option("Stoplists that metrics will use with it.", metavar="DIR")
    ] = None
    v3_report: Annotated[
        str | None, option("Report to take the chunk size of V3 from.", metavar="FILE")
    ] = None
    allow_commit_mismatch: Annotated[bool, option("Accept a V3 report of another commit.")] = False
    max_unparsable: Annotated[
        float,
        Meta(ge=0, le=1, description="Maximum share of model answers that cannot be read."),
    ] = 0.05


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


class CaseDone(msgspec.Struct, frozen=True):
    """What a worker reports about its case; ``ended_ms`` is when its trace ended."""

    outcomes: list[ReplayOutcome]
    recorded: list[RecordedReply]
    ended_ms: int | None = None


class _Written(NamedTuple):
    """A log that is being written, and what to report when it is on the disk."""

    task: ReplayTask
    variant: LoadedVariant
    outcome: ReplayOutcome
    writing: Future[None]


def run_some(job: ReplayJob, tasks: tuple[ReplayTask, ...]) -> bytes:
    """Run some cases through every variant; a failure is a reason, and leaves no log.

    Logs are written by separate threads, because most of the time is waiting for the disk.
    """
    with _opened(job) as models, ThreadPoolExecutor(WRITERS) as pool:
        done = [_run_case(job, task, models, pool) for task in tasks]
    folders = (Path(job.request.output) / variant.variant_id for variant in job.variants)
    sync_folders(folder for folder in folders if folder.is_dir())
    return msgspec.msgpack.encode([_settled(job, *case) for case in done])


def _run_case(
    job: ReplayJob, task: ReplayTask, opened: Models, pool: ThreadPoolExecutor
) -> tuple[list[_Written | ReplayOutcome], list[RecordedReply], int | None]:
    try:
        read = _read(job, task)
    except GatemarkError as error:
        reason = error.lines()[0]
        return [_failed(job, task, variant, reason) for variant in job.variants], [], None
    results: list[_Written | ReplayOutcome] = []
    recorded: list[RecordedReply] = []
    for variant in job.variants:
        models = _scoped(
            opened, f"{task.case_id}/{variant.variant_id}", recording=job.request.record is not None
        )
        results.append(_run_variant(job, task, variant, read=read, models=models, pool=pool))
        recorded.extend(_recorded(models))
    return results, recorded, read.trace.end_ms


def _settled(
    job: ReplayJob,
    results: list[_Written | ReplayOutcome],
    recorded: list[RecordedReply],
    ended_ms: int | None,
) -> CaseDone:
    outcomes = []
    for one in results:
        if isinstance(one, ReplayOutcome):
            outcomes.append(one)
            continue
        error = one.writing.exception()
        if error is None:
            outcomes.append(one.outcome)
        elif isinstance(error, GatemarkError):
            outcomes.append(_failed(job, one.task, one.variant, error.lines()[0]))
        else:
            raise error
    return CaseDone(outcomes, recorded, ended_ms)


def _read(job: ReplayJob, task: ReplayTask) -> ReadTrace:
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
) -> _Written | ReplayOutcome:
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
        return _failed(job, task, variant, error.lines()[0])
    log = make_log(
        read.trace,
        variant,
        done,
        facts,
        file_hash=read.file_hash,
        models=models,
        chunk_size_ctu=chunk_size,
    )
    data = packed(json_lines(log.records()))
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
        model_ms=model_ms(log),
        model_failures=done.model_failures,
        questions=len(done.decisions) + len(done.events),
        unparsable=done.unparsable,
        deltas=read.delta_count,
        warnings=tuple(warnings),
    )
    path = _log_path(job, task, variant)
    writing = pool.submit(write_whole, path, [data], sync_folder=False)
    return _Written(task, variant, outcome, writing)


def _failed(job: ReplayJob, task: ReplayTask, variant: LoadedVariant, reason: str) -> ReplayOutcome:
    """Return a case without a log, and remove the log of an earlier run."""
    _log_path(job, task, variant).unlink(missing_ok=True)
    return ReplayOutcome(task.case_id, variant.variant_id, reason=reason)


def _log_path(job: ReplayJob, task: ReplayTask, variant: LoadedVariant) -> Path:
    return Path(job.request.output) / variant.variant_id / run_file_name(task.case_id)


@contextmanager
def _opened(job: ReplayJob) -> Iterator[Models]:
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


def _scoped(opened: Models, scope: str, *, recording: bool) -> Models:
    """Return the models for one case and variant; a recording starts at its first question."""

    def scoped(model: LanguageModel) -> LanguageModel:
        own = model.scoped(scope) if isinstance(model, RecordedModel) else model
        return RecordingModel(own, scope) if recording else own

    buffer = scoped(opened.buffer)
    same = opened.summarizer is opened.buffer
    return Models(buffer, buffer if same else scoped(opened.summarizer))


def _recorded(models: Models) -> list[RecordedReply]:
    recording = [m for m in (models.buffer, models.summarizer) if isinstance(m, RecordingModel)]
    found = {key: line for model in recording for key, line in model.lines.items()}
    return list(found.values())
