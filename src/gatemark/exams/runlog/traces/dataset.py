"""A set of traces: which cases belong to it, and the manifest that pins their content."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.exams.runlog.records.manifest import (
    MANIFEST_VERSION,
    ManifestDecoding,
    ManifestMeta,
    ManifestProvenance,
    ManifestRecord,
    ManifestSummary,
    RunManifest,
    TraceEntry,
)
from gatemark.exams.runlog.records.names import case_list_bytes, dataset_id, trace_dataset_hash
from gatemark.exams.runlog.records.trace import StreamDelta, TraceRecord, TurnBoundary
from gatemark.exams.runlog.traces.script import Origin

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


def case_list(case_ids: Sequence[str]) -> CaseList:
    """Return the list of some cases."""
    data = case_list_bytes(case_ids)
    return CaseList(tuple(case_ids), data, digest_bytes(data))


def trace_entry(
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
    origin: Origin,
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
            dataset_id=dataset_id(
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
            trace_dataset_hash=dataset_hash_of(entries, cases.hash, origin.mas_run_id),
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


def dataset_hash_of(entries: Iterable[TraceEntry], case_list_hash: str, mas_run: str) -> str:
    """Return the hash of a set of traces."""
    return trace_dataset_hash(
        case_list_hash=case_list_hash,
        mas_run=mas_run,
        traces=((entry.case_id, entry.sha256) for entry in entries),
    )


def manifest_records(manifest: RunManifest) -> tuple[ManifestRecord, ...]:
    """Return the records of a manifest, in file order."""
    return (manifest.meta, manifest.provenance, *manifest.entries, manifest.summary)


def manifest_dataset_hash(manifest: RunManifest) -> str:
    """Return the hash of the listed traces: as stated, or computed."""
    stated = manifest.provenance.trace_dataset_hash
    if stated is not UNSET:
        return stated
    return dataset_hash_of(
        manifest.entries, manifest.provenance.case_list_hash, manifest.meta.mas_run_id
    )
