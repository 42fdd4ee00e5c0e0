"""Measure one case: read its trace once, and its log of every variant.

A log is refused unless its hashes match this trace, this data set and this variant's settings. A
run that was stopped and started again with other settings leaves logs of both in one folder. Each
is valid by itself, but their mean has no meaning, so how they were made is compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.settings_file import read_settings
from gatemark.evidence.source import digest_source, inspect_source
from gatemark.exams.runlog.concepts.choose import ExtractorSpec, load_extractor
from gatemark.exams.runlog.concepts.port import (
    extractor_provenance,
    extractor_record,
)
from gatemark.exams.runlog.metrics.case import case_metrics
from gatemark.exams.runlog.records.manifest import TraceEntry
from gatemark.exams.runlog.records.metrics import PerCaseMetrics
from gatemark.exams.runlog.records.names import plain_case_id, tokengate_config_hash
from gatemark.exams.runlog.records.run import Compat, RunLog
from gatemark.exams.runlog.records.trace_rules import Mode
from gatemark.exams.runlog.traces.files import ReadTrace, read_run_log, read_trace
from gatemark.exams.runlog.traces.trace import TraceText, lost_text

SETTINGS_ENDS = ("*.yaml", "*.yml", "*.json")


class VariantHashes(msgspec.Struct, frozen=True):
    """The hashes of a variant's configuration file and of its token gate."""

    variant_config_hash: str
    tokengate_config_hash: str


def variant_hashes(folder: str | None) -> dict[str, VariantHashes]:
    """Return the hashes of every variant in a folder and its subfolders, or of the built-in ones.

    Only the token gate is read, so configurations of other tools work as well.
    """
    place = (
        Path(folder)
        if folder
        else Path(str(files("gatemark.exams.runlog.replay").joinpath("defaults")))
    )
    if not place.is_dir():
        raise BadInputError(f"{place}: expected a folder of variant configurations")
    found: dict[str, VariantHashes] = {}
    for path in sorted(path for end in SETTINGS_ENDS for path in place.rglob(end)):
        raw = read_settings(str(path))
        if not isinstance(raw, dict) or "variant_id" not in raw:
            continue
        variant = str(raw["variant_id"])
        components = raw.get("components")
        gate = components.get("token_gate") if isinstance(components, dict) else None
        if not isinstance(gate, dict):
            raise BadInputError(f"{path}: components.token_gate of {variant} is missing")
        if variant in found:
            raise BadInputError(f"{path}: is a second configuration of {variant}")
        found[variant] = VariantHashes(digest_bytes(path.read_bytes()), tokengate_config_hash(gate))
    if not found:
        raise BadInputError(f"{place}: holds no variant configurations")
    return found


SETTINGS: Final = ("history_k", "trigger_policy", "compat", "chunk_size_ctu")
"""Settings that must be equal in all logs of a variant."""
CIRCUMSTANCES: Final = ("eval_run_id", "backend")
"""Settings that may differ, and are reported if they do."""
_NO_EXTRACTOR: Final = "none"


class LogOrigin(msgspec.Struct, frozen=True):
    """How one log was made.

    ``extractor`` is the linker that the log names; ``turned_windows`` counts summaries whose window
    ends before it starts.
    """

    made: dict[str, object]
    extractor: str
    turned_windows: int


def origin_of(log: RunLog) -> LogOrigin:
    """Return how a log was made; fields that an older log lacks are left out."""
    meta = log.meta
    fields = ((name, getattr(meta, name)) for name in (*SETTINGS, *CIRCUMSTANCES))
    named = getattr(meta.concept_extractor, "linker_name", _NO_EXTRACTOR)
    return LogOrigin(
        made={name: value for name, value in fields if value is not UNSET},
        extractor=named if isinstance(named, str) else _NO_EXTRACTOR,
        turned_windows=sum(event.start_seq > event.end_seq for event in log.events),
    )


Origins = Mapping[str, Mapping[str, LogOrigin]]
"""Origins by variant and case."""


def by_variant(cases: Mapping[str, Mapping[str, LogOrigin]]) -> Origins:
    """Regroup origins by case as origins by variant."""
    variants = sorted({variant for found in cases.values() for variant in found})
    return {
        variant: {case: found[variant] for case, found in cases.items() if variant in found}
        for variant in variants
    }


def mixed_settings(origins: Origins) -> Iterator[str]:
    """Yield variants whose logs were made with different settings."""
    for variant, cases in origins.items():
        for name in SETTINGS:
            found = _by_value(cases, name)
            if len(found) > 1:
                words = ", ".join(f"{value} in {_names(names)}" for value, names in found.items())
                yield f"{variant}: its logs were made with different {name} ({words})"


def origin_caveats(origins: Origins, compat: str) -> Iterator[str]:
    """Yield caveats about the origin of the measured logs."""
    for variant, cases in origins.items():
        for name in CIRCUMSTANCES:
            found = _by_value(cases, name)
            if len(found) > 1:
                yield f"the logs of {variant} come from {len(found)} runs that differ in {name}"
        made = {origin.made["compat"] for origin in cases.values() if "compat" in origin.made}
        if made - {compat}:
            yield f"the logs of {variant} were made with compat {made.pop()}, not {compat}"
        turned = sum(origin.turned_windows for origin in cases.values())
        if turned:
            yield (
                f"{turned} summaries of {variant} have a window that ends before it starts; it "
                "supports nothing"
            )


def extractor_caveats(origins: Origins, differing: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield variants whose logs name another extractor than the one that ran."""
    for variant, names in differing.items():
        extractors = {origin.extractor for origin in origins[variant].values()} - {_NO_EXTRACTOR}
        if extractors:
            yield (
                f"the logs of {variant} name another concept extractor than the one that ran "
                f"({', '.join(names)})"
            )


def _by_value(cases: Mapping[str, LogOrigin], name: str) -> dict[str, list[str]]:
    """Group cases by a value of their logs; skip logs without the value."""
    found: dict[str, list[str]] = {}
    for case, origin in sorted(cases.items()):
        if name in origin.made:
            value = origin.made[name]
            packed = msgspec.json.encode(value, order="sorted").decode()
            found.setdefault(value if isinstance(value, str) else packed, []).append(case)
    return found


def _names(cases: list[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"


RUN_LOG_ENDS = (".jsonl.gz", ".jsonl")


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
    provenance = extractor_provenance(extractor)
    try:
        found = checked_trace(job, task)
    except BadInputError as error:
        # The trace is not that of the manifest.
        lost = dict.fromkeys(task.logs.values(), error.lines())
        return msgspec.msgpack.encode(MetricsOutcome(task.entry.case_id, provenance, lost))
    traced = TraceText(found.trace, job.compat)
    ran = {
        **extractor_record(extractor),
        "stop_entities_hash": extractor.stoplists.stop_entities_hash,
        "stop_cuis_hash": extractor.stoplists.stop_cuis_hash,
    }
    rows: list[PerCaseMetrics] = []
    refused: dict[str, tuple[str, ...]] = {}
    others: dict[str, list[str]] = {}
    origins: dict[str, LogOrigin] = {}
    for variant, path in sorted(task.logs.items()):
        try:
            log = checked_log(job, task, variant, found)
        except BadInputError as error:
            refused[path] = error.lines()
            continue
        row = case_metrics(
            log,
            traced,
            extractor.concepts,
            tokengate_config_hash_match=True,
            dataset_manifest_hash_valid=True,
        )
        rows.append(row)
        others[variant] = _differing(log, ran)
        origins[variant] = origin_of(log)
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


def checked_trace(job: MetricsJob, task: MetricsTask) -> ReadTrace:
    """Read the trace of a case; refuse one that the manifest does not pin."""
    mode: Mode = "inspect" if job.compat == "source" else "strict"
    found = read_trace(task.trace, mode=mode, allow_stub=True)
    if found.content_hash != task.entry.sha256:
        raise BadInputError(
            f"{task.trace}: its content hashes to {found.content_hash}, the manifest says "
            f"{task.entry.sha256}"
        )
    case_id = plain_case_id(found.trace.meta.case_id)
    if case_id != task.entry.case_id:
        raise BadInputError(
            f"{task.trace}: is of case {case_id!r}, the manifest says {task.entry.case_id!r}"
        )
    return found


def checked_log(job: MetricsJob, task: MetricsTask, variant: str, trace: ReadTrace) -> RunLog:
    """Read the log of a case under a variant; refuse one whose hashes or windows do not fit."""
    path = task.logs[variant]
    log = read_run_log(path, compat=job.compat)
    problems = [f"{path}: {words}" for words in _log_problems(job, task, variant, log, trace)]
    if problems:
        raise BadInputError(tuple(problems))
    return log


def _log_problems(
    job: MetricsJob, task: MetricsTask, variant: str, log: RunLog, trace: ReadTrace
) -> Iterator[str]:
    meta = log.meta
    # Logs of older versions leave out fields that they do not have.
    named: dict[str, tuple[object, object, str]] = {
        "case_id": (plain_case_id(meta.case_id), task.entry.case_id, "its file name"),
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
    yield from _windows_outside(log, trace.trace.last_seq)
    if (words := lost_text(log, trace.trace)) is not None:
        yield words


def _windows_outside(log: RunLog, last_seq: int) -> Iterator[str]:
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


def _differing(log: RunLog, ran: Mapping[str, object]) -> list[str]:
    """Return the settings in which a log names another extractor than the one that ran."""
    stated = msgspec.to_builtins(log.meta.concept_extractor)
    if not isinstance(stated, dict):
        return sorted(ran)
    stoplists = msgspec.to_builtins(log.meta.stoplists_provenance)
    stated |= stoplists if isinstance(stoplists, dict) else {}
    return sorted(name for name, value in stated.items() if name in ran and ran[name] != value)


def _has_logs(folder: Path) -> bool:
    """Return whether a folder has files that may be run logs; run summaries are plain JSON."""
    return folder.is_dir() and any(one.name.endswith(RUN_LOG_ENDS) for one in folder.iterdir())


def find_logs(folder: str, variants: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return run-log files by variant and case: ``FOLDER/V0/case-1.jsonl.gz``."""
    place = Path(folder)
    if not place.is_dir():
        raise BadInputError(f"{folder}: expected a folder of run logs")
    found: dict[str, dict[str, str]] = {}
    wanted = variants or tuple(sorted(path.name for path in place.iterdir() if _has_logs(path)))
    for variant in wanted:
        for path in sorted((place / variant).glob("*.jsonl*")):
            end = next((end for end in RUN_LOG_ENDS if path.name.endswith(end)), None)
            if end is None:
                continue
            case = plain_case_id(path.name.removesuffix(end))
            if case in found.setdefault(variant, {}):
                raise BadInputError(f"{path}: is a second log of {case} under {variant}")
            found[variant][case] = str(path)
        if not found.get(variant):
            raise BadInputError(f"{place / variant}: holds no run logs")
    if not found:
        raise BadInputError(f"{folder}: holds no run logs (expected V0/case-….jsonl.gz)")
    return found
