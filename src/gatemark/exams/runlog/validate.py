"""Checking traces, manifests and run logs: each file alone, and each against the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.record import Remark
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.validate import validate_files
from gatemark.evidence.whole_file import remark_words
from gatemark.exams.runlog.audit import audit_run
from gatemark.exams.runlog.records.manifest import RunManifest, TraceEntry
from gatemark.exams.runlog.records.names import case_of_trace_file, plain_case_id
from gatemark.exams.runlog.records.run import RunLog
from gatemark.exams.runlog.records.trace_rules import TRACE_RULES, Mode
from gatemark.exams.runlog.traces.dataset import manifest_dataset_hash
from gatemark.exams.runlog.traces.files import (
    CASE_LIST_END,
    MANIFEST_END,
    TraceReading,
    look_at_trace,
    read_manifest,
    read_run_log,
    read_trace,
)

RUN_ENDS = (".jsonl", ".jsonl.gz", ".jsonl.zst")


class TraceStats(msgspec.Struct, frozen=True):
    """What a trace holds, when it could be read."""

    case_id: str
    deltas: int
    turns: int
    control_turns: int
    flagged_turns: int
    duration_ms: int
    stub: bool


class CheckedFile(msgspec.Struct, frozen=True):
    """One file and everything that was found in it."""

    file: str
    kind: str
    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    unlisted: int = 0
    stats: TraceStats | None = None


class RunlogReport(msgspec.Struct, frozen=True):
    """What validation found: files, how often each rule of traces was broken, and stubs."""

    mode: str
    valid: bool
    file_count: int
    invalid_count: int
    rules: dict[str, int]
    stubs: tuple[str, ...]
    files: tuple[CheckedFile, ...]


class ValidateRequest(msgspec.Struct, frozen=True):
    """Which files to check, and against what."""

    paths: tuple[str, ...]
    mode: Mode = "strict"
    manifest: str | None = None
    traces: str | None = None
    max_errors: int = 20


def validate_runlogs(
    request: ValidateRequest, on_progress: Callable[[int, int], None] | None = None
) -> RunlogReport:
    """Check files and folders; a folder stands for the traces, manifests and logs inside."""
    files = _found(request.paths)
    checker = _Checker(request, _pinning_manifest(request, files))
    checked: list[CheckedFile] = []
    for path in files:
        checked.append(checker.check(path))
        if on_progress is not None:
            on_progress(len(checked), len(files))
    checked.extend(checker.missing())
    invalid = [file for file in checked if not file.valid]
    return RunlogReport(
        mode=request.mode,
        valid=not invalid,
        file_count=len(checked),
        invalid_count=len(invalid),
        rules=checker.rules,
        stubs=tuple(
            file.stats.case_id for file in checked if file.stats is not None and file.stats.stub
        ),
        files=tuple(checked),
    )


def _found(places: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        path = Path(place)
        if path.is_dir():
            inside = sorted(
                one
                for one in path.rglob("*")
                if one.name.endswith(RUN_ENDS) and not one.name.endswith(CASE_LIST_END)
            )
            if not inside:
                raise BadInputError(f"{place}: holds no {', '.join(RUN_ENDS)} files")
            found.extend(inside)
        else:
            found.append(path)
    return found


def _pinning_manifest(request: ValidateRequest, files: Sequence[Path]) -> RunManifest | None:
    """The manifest that was named, or the only one among the files."""
    if request.manifest is not None:
        return read_manifest(request.manifest)
    among = [path for path in files if path.name.endswith(MANIFEST_END)]
    if len(among) != 1:
        return None
    try:
        return read_manifest(str(among[0]))
    except GatemarkError:
        # The file itself is among those to be checked, and its check tells what is wrong.
        return None


class _Checker:
    """Checks one file after the other, and remembers what only shows over all of them."""

    def __init__(self, request: ValidateRequest, manifest: RunManifest | None) -> None:
        self._mode: Mode = request.mode
        self._choices = ReadingChoices(max_errors=request.max_errors)
        self._manifest = manifest
        self._entries: dict[str, TraceEntry] = (
            {entry.case_id: entry for entry in manifest.entries} if manifest else {}
        )
        self._seen: set[str] = set()
        self._traces = Path(request.traces) if request.traces else None
        self.rules = dict.fromkeys(TRACE_RULES, 0)

    def check(self, path: Path) -> CheckedFile:
        """One file, by what its name says it is."""
        if case_of_trace_file(path.name) is not None:
            return self._check_trace(path)
        (checked,) = validate_files([str(path)], None, self._choices)
        kind = checked.schema
        problems, unlisted = list(checked.problems), checked.unlisted
        if kind == "exaid.run" and not problems and self._traces is not None:
            problems.extend(self._check_run(path, self._traces))
        return CheckedFile(
            file=str(path),
            kind=kind,
            valid=not problems,
            problems=tuple(problems),
            warnings=checked.remarks,
            unlisted=unlisted,
        )

    def missing(self) -> Iterator[CheckedFile]:
        """Traces that the manifest lists and nobody brought, if traces were brought at all."""
        if not self._seen:
            return
        for case_id in sorted(set(self._entries) - self._seen):
            file = self._entries[case_id].file
            problem = f"{file}: is listed in the manifest and was not found"
            yield CheckedFile(file, "exaid.trace", valid=False, problems=(problem,), warnings=())

    def _check_trace(self, path: Path) -> CheckedFile:
        looked = look_at_trace(str(path), self._mode, self._choices)
        reading = looked.reading
        for rule, count in reading.rule_counts.items():
            self.rules[rule] = self.rules.get(rule, 0) + count
        problems = [*reading.problems, *self._manifest_problems(path, looked)]
        stats = _stats(looked)
        return CheckedFile(
            file=str(path),
            kind="exaid.trace",
            valid=not problems,
            problems=tuple(problems),
            warnings=(
                *(remark_words(str(path), remark) for remark in reading.remarks),
                *self._miscounts(path, stats),
            ),
            unlisted=reading.unlisted,
            stats=stats,
        )

    def _miscounts(self, path: Path, stats: TraceStats | None) -> Iterator[str]:
        """Where the manifest counts other deltas or turns than a trace has."""
        entry = None if stats is None else self._entries.get(stats.case_id)
        if stats is None or entry is None:
            return
        for field, told, found in (
            ("delta_count", entry.delta_count, stats.deltas),
            ("turn_count", entry.turn_count, stats.turns),
        ):
            if told != found:
                yield f"{path}: warning: has {found}, the manifest's {field} says {told}"

    def _manifest_problems(self, path: Path, looked: TraceReading) -> Iterator[str]:
        if self._manifest is None:
            return
        case_id = plain_case_id(case_of_trace_file(path.name) or "")
        entry = self._entries.get(case_id)
        if entry is None:
            yield f"{path}: is not listed in the manifest"
            return
        self._seen.add(case_id)
        if looked.content_hash != entry.sha256:
            yield (
                f"{path}: is not the trace of the manifest (its content is "
                f"{looked.content_hash}, the manifest says {entry.sha256})"
            )

    def _check_run(self, path: Path, traces: Path) -> Iterator[str]:
        log = read_run_log(str(path), compat="source", choices=self._choices)
        trace = _trace_of(log, traces)
        if trace is None:
            yield f"{path}: its trace is not in {traces}"
            return
        read = read_trace(str(trace), mode=self._mode, allow_stub=True)
        told = log.meta.trace_dataset_hash
        dataset = manifest_dataset_hash(self._manifest) if self._manifest else told
        found: Iterator[Remark] = audit_run(
            log, read.trace, file_hash=read.file_hash, dataset_hash=dataset
        )
        for remark in found:
            yield remark_words(str(path), remark)


def _trace_of(log: RunLog, traces: Path) -> Path | None:
    """The trace of a log's case, whichever of its names the file has."""
    for name in (log.meta.case_id, f"{log.meta.case_id}.trace"):
        for end in (".trace.jsonl.gz", ".trace.jsonl", ".jsonl.gz"):
            path = traces / f"{name}{end}"
            if path.is_file():
                return path
    return None


def _stats(looked: TraceReading) -> TraceStats | None:
    trace = looked.trace
    if trace is None:
        return None
    spans = [delta.t_rel_ms for delta in trace.deltas]
    return TraceStats(
        case_id=trace.meta.case_id,
        deltas=len(spans),
        turns=len(trace.turns),
        control_turns=sum(turn.plane == "control_plane" for turn in trace.turns),
        flagged_turns=sum(turn.flag is not None for turn in trace.turns),
        duration_ms=max(spans, default=0) - min(spans, default=0),
        stub=trace.is_stub,
    )
