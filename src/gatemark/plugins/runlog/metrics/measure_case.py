"""Measure one case: read its trace once, and its log of every variant.

A log is refused unless its hashes match this trace, this data set and this variant's settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.source import digest_source, inspect_source
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec, load_extractor
from gatemark.plugins.runlog.concepts.port import describe_extractor, describe_extractor_provenance
from gatemark.plugins.runlog.metrics.case import compute_case_metrics
from gatemark.plugins.runlog.metrics.origins import LogOrigin, describe_origin
from gatemark.plugins.runlog.records.manifest import TraceEntry
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.names import strip_case_id
from gatemark.plugins.runlog.records.run import Compat, RunLog
from gatemark.plugins.runlog.records.trace_file_rules import Mode
from gatemark.plugins.runlog.traces.files import ReadTrace, read_run_log, read_trace
from gatemark.plugins.runlog.traces.trace import TraceText, find_lost_text


class MetricsJob(msgspec.Struct, frozen=True):
    """What all cases share: reading options, and the hashes that logs must have."""

    extractor: ExtractorSpec
    compat: Compat
    trace_dataset_hash: str
    tokengate_hashes: dict[str, str]


class MetricsTask(msgspec.Struct, frozen=True):
    """One case: its entry in the manifest, its trace, and its logs by variant."""

    entry: TraceEntry
    trace: str
    logs: dict[str, str]


class MetricsOutcome(msgspec.Struct, frozen=True):
    """The outcome of one case. ``refused`` has the problems of each refused log.

    ``extractor`` is the provenance of the one that ran; ``other_extractors`` lists, per variant,
    the settings in which the log names another. ``origins`` has, per variant, how the log was made.
    """

    case_id: str
    extractor: dict[str, object]
    refused: dict[str, tuple[str, ...]]
    rows: list[PerCaseMetrics] = []
    files: list[EvidenceFile] = []
    end_ms: int = 0
    is_stub: bool = False
    other_extractors: dict[str, list[str]] = {}
    origins: dict[str, LogOrigin] = {}


def measure_case(job: MetricsJob, task: MetricsTask) -> bytes:
    """Read one case and measure it under every variant; return the outcome as bytes."""
    extractor = load_extractor(job.extractor)
    provenance = describe_extractor_provenance(extractor)
    try:
        found = read_checked_trace(job, task)
    except BadInputError as error:
        # The trace is not that of the manifest.
        lost = dict.fromkeys(task.logs.values(), error.lines())
        return msgspec.msgpack.encode(MetricsOutcome(task.entry.case_id, provenance, lost))
    traced = TraceText(found.trace, job.compat)
    ran = {
        **describe_extractor(extractor),
        "stop_entities_hash": extractor.stoplists.stop_entities_hash,
        "stop_cuis_hash": extractor.stoplists.stop_cuis_hash,
    }
    rows: list[PerCaseMetrics] = []
    refused: dict[str, tuple[str, ...]] = {}
    others: dict[str, list[str]] = {}
    origins: dict[str, LogOrigin] = {}
    for variant, path in sorted(task.logs.items()):
        try:
            log = read_checked_log(job, task, variant, found)
        except BadInputError as error:
            refused[path] = error.lines()
            continue
        row = compute_case_metrics(
            log,
            traced,
            extractor.concepts,
            tokengate_config_hash_match=True,
            dataset_manifest_hash_valid=True,
        )
        rows.append(row)
        others[variant] = _find_differing(log, ran)
        origins[variant] = describe_origin(log)
    outcome = MetricsOutcome(
        case_id=task.entry.case_id,
        rows=rows,
        refused=refused,
        files=[digest_source(inspect_source(path)) for path in (task.trace, *task.logs.values())],
        end_ms=found.trace.end_ms,
        is_stub=found.trace.is_stub,
        other_extractors={variant: names for variant, names in others.items() if names},
        extractor=provenance,
        origins=origins,
    )
    return msgspec.msgpack.encode(outcome)


def read_checked_trace(job: MetricsJob, task: MetricsTask) -> ReadTrace:
    """Read the trace of a case; refuse one that the manifest does not pin."""
    mode: Mode = "inspect" if job.compat == "source" else "strict"
    found = read_trace(task.trace, mode=mode, allow_stub=True)
    if found.content_hash != task.entry.sha256:
        raise BadInputError(
            f"{task.trace}: its content hashes to {found.content_hash}, the manifest says "
            f"{task.entry.sha256}"
        )
    case_id = strip_case_id(found.trace.meta.case_id)
    if case_id != task.entry.case_id:
        raise BadInputError(
            f"{task.trace}: is of case {case_id!r}, the manifest says {task.entry.case_id!r}"
        )
    return found


def read_checked_log(job: MetricsJob, task: MetricsTask, variant: str, trace: ReadTrace) -> RunLog:
    """Read the log of a case under a variant; refuse one whose hashes or windows do not fit."""
    path = task.logs[variant]
    log = read_run_log(path, compat=job.compat)
    problems = [f"{path}: {words}" for words in _find_log_problems(job, task, variant, log, trace)]
    if problems:
        raise BadInputError(tuple(problems))
    return log


def _find_log_problems(
    job: MetricsJob, task: MetricsTask, variant: str, log: RunLog, trace: ReadTrace
) -> Iterator[str]:
    meta = log.meta
    # Logs of older versions leave out fields that they do not have.
    named: dict[str, tuple[object, object, str]] = {
        "case_id": (strip_case_id(meta.case_id), task.entry.case_id, "its file name"),
        "variant_id": (meta.variant_id, variant, "its folder"),
        "trace_dataset_hash": (meta.trace_dataset_hash, job.trace_dataset_hash, "the manifest"),
        "trace_file_hash": (meta.trace_file_hash, trace.file_hash, "the trace file"),
        "tokengate_config_hash": (
            meta.tokengate_config_hash,
            job.tokengate_hashes.get(variant),
            "the variant's configuration",
        ),
    }
    for name, (stated, found, where) in named.items():
        if not isinstance(stated, str):
            yield f"{name} is missing, so nothing ties it to {where}"
        elif stated != found:
            yield f"{name} is {stated}, {where} says {found}"
    yield from _find_windows_outside(log, trace.trace.last_seq)
    if (words := find_lost_text(log, trace.trace)) is not None:
        yield words


def _find_windows_outside(log: RunLog, last_seq: int) -> Iterator[str]:
    windows: list[tuple[str, object, object]] = [
        *(
            (f"tokengate_flush {one.flush_index}", one.start_seq, one.end_seq)
            for one in log.flushes
        ),
        *((one.decision_id, one.start_seq, one.end_seq) for one in log.decisions),
        *((one.event_id, one.start_seq, one.end_seq) for one in log.events),
    ]
    for name, start, end in windows:
        for word, seq in (("starts", start), ("ends", end)):
            if isinstance(seq, int) and not 0 <= seq <= last_seq:
                yield f"{name} {word} at seq {seq}, the trace ends at {last_seq}"


def _find_differing(log: RunLog, ran: Mapping[str, object]) -> list[str]:
    """Return the settings in which a log names another extractor than the one that ran."""
    stated = msgspec.to_builtins(log.meta.concept_extractor)
    if not isinstance(stated, dict):
        return sorted(ran)
    stoplists = msgspec.to_builtins(log.meta.stoplists_provenance)
    stated |= stoplists if isinstance(stoplists, dict) else {}
    return sorted(name for name, value in stated.items() if name in ran and ran[name] != value)
