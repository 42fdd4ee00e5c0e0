"""Make synthetic traces: choose cases, write traces, and write a manifest that pins them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.exam_options import option
from gatemark.evidence.settings_file import read_settings, settings_as
from gatemark.evidence.source import inspect_source
from gatemark.plugins.runlog.records.manifest import TraceEntry
from gatemark.plugins.runlog.records.names import (
    UNKNOWN_COMMIT,
    format_moment,
    hash_config,
    name_trace_file,
    write_compact_json,
)
from gatemark.plugins.runlog.replay.case import FEW_CASES, split_batches
from gatemark.plugins.runlog.traces.dataset import (
    SUBSET_COUNT,
    SUBSET_SEED,
    CaseList,
    Selection,
    TraceOrigin,
    build_case_list,
    build_trace_entry,
    find_dataset_hash,
    make_manifest,
    select_cases,
)
from gatemark.plugins.runlog.traces.files import (
    pack_gzip,
    render_json_lines,
    write_case_list,
    write_manifest_file,
)
from gatemark.plugins.runlog.traces.synthetic import (
    BASE_MS,
    FORK,
    SyntheticSettings,
    describe_campaign,
    list_case_ids,
    list_stub_case_ids,
    make_stub_trace,
    make_synthetic_trace,
)
from gatemark.workspace import Workspace


class CaseChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of the known cases to use: all, those on a list, or a seeded sample."""

    mode: Selection = "all"
    cases: tuple[str, ...] = ()
    count: int = SUBSET_COUNT
    seed: int = SUBSET_SEED


class TracesRequest(msgspec.Struct, frozen=True):
    """Which traces to make, and where to write them.

    ``is_overruled`` means that options changed the settings of the configuration files.
    """

    output: Annotated[str, option("Folder for the traces.")] = "data/traces"
    manifests: Annotated[str, option("Folder for the case list and the manifest.")] = (
        "data/manifests"
    )
    settings: SyntheticSettings = SyntheticSettings()
    config_files: tuple[str, ...] = ()
    is_overruled: bool = False
    choice: CaseChoice = CaseChoice()
    limit: Annotated[int | None, Meta(ge=1, description="Maximum number of cases.")] = None
    stub: Annotated[
        bool,
        option(
            "Write stub traces, marked as placeholders of missing ones.", "--stub", "--stub-mode"
        ),
    ] = False
    dry_run: Annotated[bool, option("Write only the case list.")] = False
    created_at: Annotated[
        str | None, option("Time to write into the manifest.", metavar="TIME")
    ] = None
    exaid_commit: str = UNKNOWN_COMMIT


class TracesMade(msgspec.Struct, frozen=True):
    """The files that were written; no traces after a dry run."""

    dataset_id: str
    mas_run_id: str
    case_list: str
    case_list_hash: str
    manifest: str | None
    trace_dataset_hash: str | None
    cases: int
    deltas: int
    turns: int


class _TraceJob(msgspec.Struct, frozen=True):
    settings: SyntheticSettings
    origin: TraceOrigin
    output: str
    stub: bool


def read_synthetic_settings(path: str | None, **given: object) -> SyntheticSettings:
    """Read settings from a file; values given as options win."""
    raw = {} if path is None else read_settings(path)
    if not isinstance(raw, dict):
        raise BadInputError(f"{path}: expected a mapping of settings")
    chosen = {key: value for key, value in given.items() if value is not None}
    return settings_as({**raw, **chosen}, SyntheticSettings, path or "options")


def read_case_choice(path: str | None) -> CaseChoice:
    """Read a case selection; without a file, select all cases."""
    if path is None:
        return CaseChoice()
    return settings_as(read_settings(path), CaseChoice, path)


MAX_CASE_LIST_BYTES: Final = 64 * 1024 * 1024


def read_case_list(path: str) -> tuple[str, ...]:
    """Read a list of cases: lines with a ``case_id``, or bare names."""
    source = inspect_source(path)
    names = []
    if source.byte_count > MAX_CASE_LIST_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_CASE_LIST_BYTES} bytes")
    try:
        text = Path(source.path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.strip()
        if plain.startswith("{"):
            try:
                plain = msgspec.json.decode(plain, type=_CaseLine).case_id
            except msgspec.MsgspecError as error:
                raise BadInputError(f"{path}:{number}: {error}") from error
        if plain:
            names.append(plain)
    if not names:
        raise BadInputError(f"{path}: lists no cases")
    return tuple(names)


class _CaseLine(msgspec.Struct, frozen=True):
    case_id: str


def make_traces(
    workspace: Workspace,
    request: TracesRequest,
    on_progress: Callable[[int, int], None] | None = None,
) -> TracesMade:
    """Choose cases and write their list, their traces and their manifest."""
    known = list_stub_case_ids() if request.stub else list_case_ids(request.settings)
    choice = request.choice
    chosen = select_cases(
        known, choice.mode, wanted=choice.cases, count=choice.count, seed=choice.seed
    )[: request.limit]
    cases = build_case_list(chosen)
    origin = describe_campaign(request.settings, cases.hash, request.exaid_commit)
    entries = (
        () if request.dry_run else _write_traces(workspace, request, cases, origin, on_progress)
    )
    manifest = make_manifest(
        origin,
        cases,
        entries,
        created_at=request.created_at or format_moment(BASE_MS),
        config_hash=_hash_config(request),
        fork_url=FORK,
        stub=request.stub,
    )
    folder = Path(request.manifests)
    return TracesMade(
        dataset_id=manifest.meta.dataset_id,
        mas_run_id=origin.mas_run_id,
        case_list=write_case_list(folder, manifest, cases),
        case_list_hash=cases.hash,
        manifest=None if request.dry_run else write_manifest_file(folder, manifest),
        trace_dataset_hash=None if request.dry_run else find_dataset_hash(manifest),
        cases=len(chosen),
        deltas=manifest.summary.total_deltas,
        turns=manifest.summary.total_turns,
    )


def _write_traces(
    workspace: Workspace,
    request: TracesRequest,
    cases: CaseList,
    origin: TraceOrigin,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[TraceEntry, ...]:
    job = _TraceJob(request.settings, origin, request.output, request.stub)
    entries: dict[str, TraceEntry] = {}
    engine = workspace.engine_for(len(cases.case_ids), FEW_CASES)
    for data in engine.run(partial(_write_some, job), split_batches(cases.case_ids)):
        for entry in msgspec.msgpack.decode(data, type=list[TraceEntry]):
            entries[entry.case_id] = entry
        if on_progress is not None:
            on_progress(len(entries), len(cases.case_ids))
    return tuple(entries[case_id] for case_id in cases.case_ids)


def _write_some(job: _TraceJob, names: tuple[str, ...]) -> bytes:
    return msgspec.msgpack.encode([_write_trace(job, case_id) for case_id in names])


def _write_trace(job: _TraceJob, case_id: str) -> TraceEntry:
    if job.stub:
        records = make_stub_trace(case_id, job.origin)
    else:
        records = make_synthetic_trace(case_id, job.settings, job.origin)
    data = render_json_lines(records, ascii_only=True)
    file = name_trace_file(case_id)
    write_whole(Path(job.output) / file, [pack_gzip(data)])
    return build_trace_entry(case_id, file, digest_bytes(data), records)


def _hash_config(request: TracesRequest) -> str:
    """Hash the configuration files in the order of their paths, and settings given as options."""
    files = [Path(path).read_bytes() for path in sorted(request.config_files)]
    if not files or request.is_overruled:
        files.append(write_compact_json(msgspec.to_builtins(request.settings)))
    return hash_config(files)
