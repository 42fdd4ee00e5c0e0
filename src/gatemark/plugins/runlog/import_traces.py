"""``gatemark import --to traces`` and ``gatemark runlog manifest``: traces of other systems.

A turn becomes a start, one delta and an end, because exports do not have pieces of text with their
own times. If an export has no times at all, messages are one second apart, and the report says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.core.atomic import write_whole
from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.runlog.records.manifest import RunManifest
from gatemark.plugins.runlog.records.names import (
    UNKNOWN_COMMIT,
    name_mas_run,
    name_trace_file,
    shorten_hash,
    write_compact_json,
)
from gatemark.plugins.runlog.records.trace import Decoding, TraceMeta
from gatemark.plugins.runlog.records.trace_file_rules import Mode
from gatemark.plugins.runlog.traces.conversations import (
    BASE_MS,
    STEP_MS,
    TOOLS,
    Conversation,
    SpokenTurn,
    read_conversations,
)
from gatemark.plugins.runlog.traces.dataset import (
    CaseList,
    ScriptTurn,
    TraceOrigin,
    build_case_list,
    build_trace_entry,
    build_trace_records,
    find_dataset_hash,
    make_manifest,
)
from gatemark.plugins.runlog.traces.files import (
    ReadTrace,
    find_traces,
    pack_gzip,
    read_trace,
    render_json_lines,
    write_case_list,
    write_manifest_file,
)
from gatemark.samples.importer import ReadOptions, open_foreign
from gatemark.samples.prepare import remove_private

NO_COMMIT: Final = "0" * 40
UNKNOWN_MODEL: Final = "unknown"
UNKNOWN_SOURCE: Final = "urn:gatemark:imported"
_STRANGERS: Final = re.compile(r"[^a-zA-Z0-9_-]+")


class TracesImported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of converting exports to traces; ``output`` is null if nothing was written."""

    tool: str
    traces: int
    turns: int
    refused: int
    redacted: int
    output: str | None
    notes: tuple[str, ...]
    refusals: tuple[str, ...]


def import_traces(
    paths: Sequence[str],
    *,
    tool: str = "auto",
    output: str | None = None,
    redact: bool = False,
    exclude_bad: bool = False,
) -> TracesImported:
    """Convert exports to traces; write nothing if a conversation cannot be read.

    ``exclude_bad`` goes on without such conversations. ``redact`` replaces texts that show
    personal data or secrets before anything is written.
    """
    if tool not in ("auto", *TOOLS):
        raise UsageError(f"only conversations become traces ({', '.join(TOOLS)}), not {tool} logs")
    files = [open_foreign(Path(path), ReadOptions().limits) for path in paths]
    read = read_conversations(files, tool)
    refusals = [f"{refusal.place}: {refusal.reason}" for refusal in read.refused]
    kept: dict[str, Conversation] = {}
    for conversation in read.found:
        case_id = make_case_name(conversation.name)
        if not conversation.turns:
            refusals.append(f"{paths[0]}: {conversation.name}: nobody says anything in it")
        elif case_id in kept:
            refusals.append(f"{paths[0]}: two conversations are called {case_id}")
        else:
            kept[case_id] = conversation
    if not kept and not refusals:
        raise BadInputError(f"{paths[0]}: holds no conversations")
    redacted = 0
    if redact:
        for case_id, conversation in kept.items():
            kept[case_id] = _redact_turns(conversation)
            redacted += kept[case_id] != conversation
    writes = output is not None and bool(kept) and (exclude_bad or not refusals)
    if writes and output is not None:
        _write(kept, Path(output))
    return TracesImported(
        tool=read.tool,
        traces=len(kept),
        turns=sum(len(one.turns) for one in kept.values()),
        refused=len(refusals),
        redacted=redacted,
        output=output if writes else None,
        notes=tuple(_list_notes(kept.values())),
        refusals=tuple(refusals),
    )


def make_case_name(name: str) -> str:
    """Return a case id for the name of a conversation: the same name, if it is valid."""
    plain = _STRANGERS.sub("-", name).strip("-_")
    if plain == name and plain:
        return plain
    mark = shorten_hash(digest_bytes(name.encode("utf-8", "surrogatepass")))
    return f"{plain or 'case'}-{mark}"


def _redact_turns(conversation: Conversation) -> Conversation:
    turns = tuple(
        msgspec.structs.replace(turn, text=str(remove_private(turn.text)))
        for turn in conversation.turns
    )
    return msgspec.structs.replace(conversation, turns=turns)


def _list_notes(conversations: Iterable[Conversation]) -> list[str]:
    found = list(conversations)
    untimed = backwards = 0
    for one in found:
        times = [turn.at_ms for turn in one.turns if turn.at_ms is not None]
        if len(times) < len(one.turns):
            untimed += 1
        else:
            backwards += times != sorted(times)
    notes = []
    if untimed:
        notes.append(
            f"{untimed} of {len(found)} conversations lack times; their turns are {STEP_MS} ms "
            "apart, so that timers of the token gate mean nothing there"
        )
    if backwards:
        notes.append(
            f"the times of {backwards} of {len(found)} conversations run backwards; their turns "
            "are in the order of their times"
        )
    return notes


def _write(kept: dict[str, Conversation], folder: Path) -> None:
    cases = build_case_list(sorted(kept))
    models = sorted({model for one in kept.values() for model in one.models})
    model = models[0] if len(models) == 1 else "several" if models else UNKNOWN_MODEL
    origin = TraceOrigin(
        mas_run_id=name_mas_run(
            mac_commit=NO_COMMIT, model=model, decoding={}, case_list_hash=cases.hash
        ),
        mac_commit=NO_COMMIT,
        exaid_commit=UNKNOWN_COMMIT,
        model=model,
        decoding=Decoding(),
    )
    for case_id, conversation in kept.items():
        records = build_trace_records(case_id, make_script(conversation.turns), origin)
        data = pack_gzip(render_json_lines(records, ascii_only=True))
        write_whole(folder / name_trace_file(case_id), [data])


def make_script(turns: Sequence[SpokenTurn]) -> list[ScriptTurn]:
    """Return turns with times: their own, or one second after the turn before."""
    if any(turn.at_ms is None for turn in turns):
        known = [turn.at_ms for turn in turns if turn.at_ms is not None]
        start = min(known, default=BASE_MS)
        turns = [
            SpokenTurn(turn.agent, turn.text, start + at * STEP_MS) for at, turn in enumerate(turns)
        ]
    script = []
    for turn in turns:
        end = turn.at_ms or 0
        start = end if turn.start_ms is None else min(end, turn.start_ms)
        script.append(ScriptTurn(turn.agent, start, ((end, turn.text),), end))
    return script


class ManifestMade(msgspec.Struct, frozen=True):
    """The manifest of a folder of traces."""

    manifest: str
    case_list: str
    trace_dataset_hash: str
    cases: int
    deltas: int
    turns: int


def write_manifest(
    traces: str, output: str | None = None, *, source_url: str = UNKNOWN_SOURCE, mode: Mode
) -> ManifestMade:
    """Write the manifest that pins the traces of a folder, and the list of its cases."""
    paths = find_traces(traces)
    names = [path.name for path in paths]
    read = [read_trace(str(path), mode=mode, allow_stub=True) for path in paths]
    manifest, cases = _build_manifest(read, names, traces, source_url)
    folder = Path(output or traces)
    return ManifestMade(
        manifest=write_manifest_file(folder, manifest),
        case_list=write_case_list(folder, manifest, cases),
        trace_dataset_hash=find_dataset_hash(manifest),
        cases=len(read),
        deltas=manifest.summary.total_deltas,
        turns=manifest.summary.total_turns,
    )


def _build_manifest(
    read: Sequence[ReadTrace], names: Sequence[str], traces: str, source_url: str
) -> tuple[RunManifest, CaseList]:
    by_case: dict[str, tuple[ReadTrace, str]] = {}
    for found, name in zip(read, names, strict=True):
        case_id = found.trace.meta.case_id
        if case_id in by_case:
            raise BadInputError(f"{traces}: {name} and {by_case[case_id][1]} are of {case_id}")
        by_case[case_id] = (found, name)
    meta = _find_common_meta([found.trace.meta for found in read], traces)
    cases = build_case_list(sorted(by_case))
    entries = [
        build_trace_entry(case_id, name, found.content_hash, found.trace.records)
        for case_id, (found, name) in sorted(by_case.items())
    ]
    decoding = meta.decoding if isinstance(meta.decoding, Decoding) else Decoding()
    manifest = make_manifest(
        TraceOrigin(
            mas_run_id=meta.mas_run_id,
            mac_commit=meta.mac_commit,
            exaid_commit=UNKNOWN_COMMIT if meta.exaid_commit is UNSET else meta.exaid_commit,
            model=meta.model,
            decoding=decoding,
        ),
        cases,
        entries,
        created_at=max(found.trace.meta.created_at for found in read),
        config_hash=digest_bytes(write_compact_json({"source": source_url})),
        fork_url=source_url,
        stub=any(found.trace.is_stub for found in read),
    )
    return manifest, cases


def _find_common_meta(metas: Sequence[TraceMeta], traces: str) -> TraceMeta:
    """Return what the traces share; refuse traces of several runs."""
    runs = sorted({meta.mas_run_id for meta in metas})
    if len(runs) > 1:
        raise BadInputError(
            f"{traces}: holds traces of several runs ({', '.join(runs[:3])}); import the exports "
            "of one data set with one command"
        )
    return metas[0]
