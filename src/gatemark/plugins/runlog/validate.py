"""Check traces, manifests and run logs, each alone and against the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.record import Remark
from gatemark.evidence.exam_options import option
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.validate import validate_files
from gatemark.evidence.whole_file import remark_words
from gatemark.plugins.runlog.audit_run import audit_run
from gatemark.plugins.runlog.records.manifest import RunManifest, TraceEntry
from gatemark.plugins.runlog.records.names import find_case_of_trace_file, strip_case_id
from gatemark.plugins.runlog.records.run import Compat, RunLog
from gatemark.plugins.runlog.records.trace_file_rules import TRACE_RULES, ReadingMode
from gatemark.plugins.runlog.traces.dataset import find_dataset_hash
from gatemark.plugins.runlog.traces.files import (
    CASE_LIST_END,
    JSONL_ENDS,
    MANIFEST_END,
    ReadTrace,
    TraceReading,
    find_kind_of_file,
    find_traces,
    group_traces_by_case,
    inspect_run_log,
    inspect_trace,
    read_manifest,
    read_trace,
)

MAX_TRACES = 4
"""How many traces an audit keeps for the logs of other variants."""


class TraceStats(msgspec.Struct, frozen=True):
    """Counts of a trace that could be read."""

    case_id: str
    deltas: int
    turns: int
    control_turns: int
    flagged_turns: int
    duration_ms: int
    stub: bool


class CheckedFile(msgspec.Struct, frozen=True):
    """One file and its problems and warnings."""

    file: str
    kind: str
    valid: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    unlisted: int = 0
    stats: TraceStats | None = None


class RunlogReport(msgspec.Struct, frozen=True):
    """The outcome of a validation: files, violations by rule, and stubs."""

    mode: str
    valid: bool
    file_count: int
    invalid_count: int
    rules: dict[str, int]
    stubs: tuple[str, ...]
    files: tuple[CheckedFile, ...]


class ValidateRequest(msgspec.Struct, frozen=True):
    """The files to check, and the manifest and traces to check against."""

    paths: tuple[str, ...] = ()
    mode: ReadingMode = "strict"
    compat: Annotated[
        Compat,
        option(
            "Compatibility mode: source also reads logs whose case ids end with .trace, and null "
            "filters.",
            "--compat",
            "--compat-mode",
        ),
    ] = "gatemark"
    manifest: Annotated[
        str | None, option("Manifest to check traces and run logs against.", metavar="FILE")
    ] = None
    traces: Annotated[
        str | None, option("Folder of traces to check run logs against.", metavar="DIR")
    ] = None
    max_errors: Annotated[int, Meta(ge=1, description="Maximum number of problems to list.")] = 20


def validate_runlogs(
    request: ValidateRequest, on_progress: Callable[[int, int], None] | None = None
) -> RunlogReport:
    """Check files, and the traces, manifests and logs in folders."""
    files = _find_files(request.paths)
    checker = _Checker(request, _find_pinning_manifest(request, files))
    by_path: dict[Path, CheckedFile] = {}
    # The logs of one case follow each other, so that an audit reads their trace once.
    for path in sorted(files, key=lambda path: path.name) if request.traces else files:
        by_path[path] = checker.check(path)
        if on_progress is not None:
            on_progress(len(by_path), len(files))
    checked = [by_path[path] for path in files]
    checked.extend(checker.list_missing())
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


def _find_files(places: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for place in places:
        path = Path(place)
        if path.is_dir():
            inside = sorted(
                one
                for one in path.rglob("*")
                if one.name.endswith(JSONL_ENDS) and not one.name.endswith(CASE_LIST_END)
            )
            if not inside:
                raise BadInputError(f"{place}: holds no {', '.join(JSONL_ENDS)} files")
            found.extend(inside)
        else:
            found.append(path)
    return found


def _find_pinning_manifest(request: ValidateRequest, files: Sequence[Path]) -> RunManifest | None:
    """Return the named manifest, or the only one among the files."""
    if request.manifest is not None:
        return read_manifest(request.manifest)
    among = [path for path in files if path.name.endswith(MANIFEST_END)]
    if len(among) != 1:
        return None
    try:
        return read_manifest(str(among[0]))
    except GatemarkError:
        # The file is checked with the others, which reports the problem.
        return None


class _Checker:
    """Checks files one by one, and collects what concerns all of them."""

    def __init__(self, request: ValidateRequest, manifest: RunManifest | None) -> None:
        self._request = request
        self._choices = ReadingChoices(max_errors=request.max_errors)
        self._manifest = manifest
        self._entries: dict[str, TraceEntry] = (
            {entry.case_id: entry for entry in manifest.entries} if manifest else {}
        )
        self._seen: set[str] = set()
        self._traces = Path(request.traces) if request.traces else None
        self._trace_paths: dict[str, Path] | None = None
        self._read_traces = lru_cache(maxsize=MAX_TRACES)(
            partial(read_trace, mode=request.mode, allow_stub=True)
        )
        self.rules = dict.fromkeys(TRACE_RULES, 0)

    def check(self, path: Path) -> CheckedFile:
        """Check one file; its kind is recognised by its records, not its name."""
        kind = find_kind_of_file(path)
        is_trace = kind is None and find_case_of_trace_file(path.name) is not None
        try:
            if kind == "exaid.trace" or is_trace:
                return self._check_trace(path)
            if kind == "exaid.run":
                return self._check_run(path)
            (checked,) = validate_files([str(path)], None, self._choices)
        except GatemarkError as error:
            return _report_file(path, kind or "unknown", error.lines())
        return _report_file(
            path, checked.schema, checked.problems, checked.remarks, unlisted=checked.unlisted
        )

    def list_missing(self) -> Iterator[CheckedFile]:
        """Yield traces of the manifest that are missing, if any traces were given."""
        if not self._seen:
            return
        for case_id in sorted(set(self._entries) - self._seen):
            file = self._entries[case_id].file
            problem = f"{file}: listed in the manifest, but not found"
            yield _report_file(file, "exaid.trace", (problem,))

    def _check_trace(self, path: Path) -> CheckedFile:
        looked = inspect_trace(str(path), self._request.mode, self._choices)
        reading = looked.reading
        for rule, count in reading.rule_counts.items():
            self.rules[rule] = self.rules.get(rule, 0) + count
        problems = [*reading.problems, *self._check_manifest(path, looked)]
        stats = _count_stats(looked)
        warnings = [remark_words(str(path), remark) for remark in reading.remarks]
        warnings += self._find_miscounts(path, stats)
        return _report_file(
            path, "exaid.trace", problems, warnings, unlisted=reading.unlisted, stats=stats
        )

    def _find_miscounts(self, path: Path, stats: TraceStats | None) -> Iterator[str]:
        """Yield counts of deltas and turns that differ from the manifest."""
        entry = None if stats is None else self._entries.get(stats.case_id)
        if stats is None or entry is None:
            return
        for field, stated, found in (
            ("delta_count", entry.delta_count, stats.deltas),
            ("turn_count", entry.turn_count, stats.turns),
        ):
            if stated != found:
                yield f"{path}: warning: has {found}, the manifest's {field} says {stated}"

    def _check_manifest(self, path: Path, looked: TraceReading) -> Iterator[str]:
        if self._manifest is None:
            return
        named = find_case_of_trace_file(path.name) or ""
        meta_id = None if looked.trace is None else looked.trace.meta.case_id
        case_id = strip_case_id(meta_id or named)
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

    def _check_run(self, path: Path) -> CheckedFile:
        looked = inspect_run_log(str(path), compat=self._request.compat, choices=self._choices)
        problems = list(looked.problems)
        if looked.log is not None and self._traces is not None:
            problems.extend(self._audit(path, looked.log, self._traces))
        return _report_file(path, "exaid.run", problems, looked.warnings, unlisted=looked.unlisted)

    def _find_trace(self, case_id: str, traces: Path) -> ReadTrace | None:
        """Return the trace of a case, read once for all logs of the case."""
        if self._trace_paths is None:
            self._trace_paths = group_traces_by_case(find_traces(str(traces)))
        path = self._trace_paths.get(case_id)
        if path is None:
            return None
        return self._read_traces(str(path))

    def _audit(self, path: Path, log: RunLog, traces: Path) -> Iterator[str]:
        read = self._find_trace(log.meta.case_id, traces)
        if read is None:
            yield f"{path}: its trace is not in {traces}"
            return
        stated = log.meta.trace_dataset_hash
        dataset = find_dataset_hash(self._manifest) if self._manifest else stated
        found: Iterator[Remark] = audit_run(
            log, read.trace, file_hash=read.file_hash, dataset_hash=dataset
        )
        for remark in found:
            yield remark_words(str(path), remark)


def _report_file(
    file: Path | str,
    kind: str,
    problems: Sequence[str],
    warnings: Sequence[str] = (),
    *,
    unlisted: int = 0,
    stats: TraceStats | None = None,
) -> CheckedFile:
    return CheckedFile(
        str(file), kind, not problems, tuple(problems), tuple(warnings), unlisted, stats
    )


def _count_stats(looked: TraceReading) -> TraceStats | None:
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
