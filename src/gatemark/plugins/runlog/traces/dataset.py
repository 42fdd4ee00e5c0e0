"""A set of traces: the records of each, the cases in it, and the manifest that pins them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.plugins.runlog.records.manifest import (
    MANIFEST_VERSION,
    ManifestDecoding,
    ManifestMeta,
    ManifestProvenance,
    ManifestRecord,
    ManifestSummary,
    RunManifest,
    TraceEntry,
)
from gatemark.plugins.runlog.records.names import (
    format_moment,
    hash_text,
    hash_trace_dataset,
    name_dataset,
    render_case_list,
)
from gatemark.plugins.runlog.records.trace import (
    TRACE_VERSION,
    Decoding,
    StreamDelta,
    TraceMeta,
    TraceRecord,
    TurnBoundary,
)

_START, _DELTA, _END = range(3)


class ScriptTurn(Struct, frozen=True):
    """One turn before it is placed in a trace: pieces of text, each with its time."""

    agent_id: str
    start_ms: int
    pieces: tuple[tuple[int, str], ...]
    end_ms: int


class TraceOrigin(Struct, frozen=True):
    """Where a trace comes from; the same for all traces of a campaign."""

    mas_run_id: str
    mac_commit: str
    exaid_commit: str
    model: str
    decoding: Decoding


class _Event(NamedTuple):
    """An event with its time; events sort by time, then starts before deltas before ends."""

    at_ms: int
    priority: int
    turn_id: int
    place: int
    text: str


def build_trace_records(
    case_id: str, turns: list[ScriptTurn], origin: TraceOrigin, *, stub: bool = False
) -> list[TraceRecord]:
    """Return a whole trace: meta first, then boundaries and deltas with a running ``seq``."""
    events: list[_Event] = []
    for turn_id, turn in enumerate(turns, start=1):
        events.append(_Event(turn.start_ms, _START, turn_id, 0, ""))
        events += [
            _Event(at_ms, _DELTA, turn_id, place, text)
            for place, (at_ms, text) in enumerate(turn.pieces)
        ]
        events.append(_Event(turn.end_ms, _END, turn_id, 0, ""))
    events.sort(key=lambda event: event[:4])
    said = [event for event in events if event.priority == _DELTA]
    t0 = said[0].at_ms if said else min((turn.start_ms for turn in turns), default=0)
    meta = TraceMeta(
        schema_version=TRACE_VERSION,
        case_id=case_id,
        mas_run_id=origin.mas_run_id,
        mac_commit=origin.mac_commit,
        exaid_commit=origin.exaid_commit,
        model=origin.model,
        decoding=origin.decoding,
        created_at=format_moment(events[0].at_ms if events else t0),
        t0_emitted_ms=t0,
        stub_mode=True if stub else UNSET,
        total_turns=len(turns),
        total_deltas=len(said),
    )
    records: list[TraceRecord] = [meta]
    for seq, event in enumerate(events):
        turn = turns[event.turn_id - 1]
        records.append(_build_record(case_id, seq, event, turn, t0))
    return records


def _build_record(case_id: str, seq: int, event: _Event, turn: ScriptTurn, t0: int) -> TraceRecord:
    if event.priority == _DELTA:
        return StreamDelta(
            case_id=case_id,
            seq=seq,
            turn_id=event.turn_id,
            agent_id=turn.agent_id,
            delta_text=event.text,
            t_emitted_ms=event.at_ms,
            t_rel_ms=event.at_ms - t0,
        )
    is_end = event.priority == _END
    return TurnBoundary(
        case_id=case_id,
        seq=seq,
        turn_id=event.turn_id,
        agent_id=turn.agent_id,
        boundary="end" if is_end else "start",
        t_ms=event.at_ms,
        t_rel_ms=event.at_ms - t0,
        content_hash=hash_text("".join(text for _, text in turn.pieces)) if is_end else UNSET,
    )


Selection = Literal["all", "list", "fixed_subset"]
SUBSET_COUNT: Final = 40
SUBSET_SEED: Final = 42


def select_cases(
    known: Iterable[str],
    mode: Selection = "all",
    *,
    wanted: Sequence[str] = (),
    count: int = SUBSET_COUNT,
    seed: int = SUBSET_SEED,
) -> list[str]:
    """Return some of the known cases, sorted: all, those on a list, or a seeded sample."""
    ordered = sorted(set(known))
    if mode == "all":
        return ordered
    if mode == "list":
        strange = sorted(set(wanted) - set(ordered))
        if strange:
            raise BadInputError(f"case {strange[0]!r} is not among the {len(ordered)} known cases")
        return sorted(set(wanted))
    if count > len(ordered):
        raise BadInputError(f"cannot draw {count} cases from {len(ordered)}")
    return sorted(random.Random(seed).sample(ordered, count))  # noqa: S311 - a published draw


class CaseList(Struct, frozen=True):
    """The cases of a campaign, as a file and by the hash of its bytes."""

    case_ids: tuple[str, ...]
    data: bytes
    hash: str


def build_case_list(case_ids: Sequence[str]) -> CaseList:
    """Return the list of some cases."""
    data = render_case_list(case_ids)
    return CaseList(tuple(case_ids), data, digest_bytes(data))


def build_trace_entry(
    case_id: str, file: str, content_hash: str, records: Sequence[TraceRecord]
) -> TraceEntry:
    """Return the manifest entry of one trace."""
    return TraceEntry(
        case_id=case_id,
        file=file,
        sha256=content_hash,
        delta_count=sum(isinstance(record, StreamDelta) for record in records),
        turn_count=len(
            {record.turn_id for record in records if isinstance(record, StreamDelta | TurnBoundary)}
        ),
    )


def make_manifest(
    origin: TraceOrigin,
    cases: CaseList,
    entries: Sequence[TraceEntry],
    *,
    created_at: str,
    config_hash: str,
    fork_url: str,
    stub: bool = False,
) -> RunManifest:
    """Return the manifest of a campaign, in the order of the case list."""
    decoding = msgspec.to_builtins(origin.decoding)
    return RunManifest(
        meta=ManifestMeta(
            schema_version=MANIFEST_VERSION,
            dataset_id=name_dataset(
                mac_commit=origin.mac_commit, decoding=decoding, case_list_hash=cases.hash
            ),
            mas_run_id=origin.mas_run_id,
            created_at=created_at,
            stub_mode=True if stub else UNSET,
        ),
        provenance=ManifestProvenance(
            mac_fork_url=fork_url,
            mac_commit=origin.mac_commit,
            exaid_commit=origin.exaid_commit,
            model=origin.model,
            decoding=msgspec.convert({"temperature": None, **decoding}, ManifestDecoding),
            case_list_hash=cases.hash,
            config_hash=config_hash,
            trace_dataset_hash=hash_dataset(entries, cases.hash, origin.mas_run_id),
        ),
        entries=tuple(entries),
        summary=ManifestSummary(
            total_cases=len(entries),
            total_deltas=sum(entry.delta_count for entry in entries),
            total_turns=sum(entry.turn_count for entry in entries),
            successful_cases=len(entries),
            failed_cases=0,
        ),
    )


def hash_dataset(entries: Iterable[TraceEntry], case_list_hash: str, mas_run: str) -> str:
    """Return the hash of a set of traces."""
    return hash_trace_dataset(
        case_list_hash=case_list_hash,
        mas_run=mas_run,
        traces=((entry.case_id, entry.sha256) for entry in entries),
    )


def list_manifest_records(manifest: RunManifest) -> tuple[ManifestRecord, ...]:
    """Return the records of a manifest, in file order."""
    return (manifest.meta, manifest.provenance, *manifest.entries, manifest.summary)


def find_dataset_hash(manifest: RunManifest) -> str:
    """Return the hash of the listed traces: as stated, or computed."""
    stated = manifest.provenance.trace_dataset_hash
    if stated is not UNSET:
        return stated
    return hash_dataset(
        manifest.entries, manifest.provenance.case_list_hash, manifest.meta.mas_run_id
    )
