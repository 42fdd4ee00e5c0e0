"""The records of a manifest: which traces make up a data set, and where they came from."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.plugins.runlog.records.fields import (
    CaseId,
    Count,
    DatasetId,
    Hash,
    MasRunId,
    Moment,
    Uri,
)

MANIFEST_VERSION: Final = "2.0.0"


class ManifestDecoding(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Sampling settings of the model; null if the traces do not say."""

    temperature: float | None
    top_p: float | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET


class _ManifestPart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="record_type"
):
    """What all records of a manifest share."""


class ManifestMeta(_ManifestPart, frozen=True, tag="manifest_meta"):
    """Which data set this is; the first record. ``stub_mode`` is present only if true."""

    schema_version: Literal["2.0.0"]
    dataset_id: DatasetId
    mas_run_id: MasRunId
    created_at: Moment
    stub_mode: bool | UnsetType = UNSET


class ManifestProvenance(_ManifestPart, frozen=True, tag="provenance"):
    """Which code and model made the traces, and the hashes of their inputs."""

    mac_fork_url: Uri
    mac_commit: Annotated[str, Meta(min_length=40, max_length=40)]
    exaid_commit: str
    model: str
    decoding: ManifestDecoding
    case_list_hash: Hash
    config_hash: Hash
    case_list_hash_input: str | UnsetType = UNSET
    trace_dataset_hash: Hash | UnsetType = UNSET
    trace_dataset_hash_definition: str | UnsetType = UNSET


class TraceEntry(_ManifestPart, frozen=True, tag="trace_entry"):
    """One trace; ``sha256`` is the hash of its content before compression."""

    case_id: CaseId
    file: Annotated[str, Meta(min_length=1)]
    sha256: Hash
    delta_count: Count
    turn_count: Count


class ManifestSummary(_ManifestPart, frozen=True, tag="summary"):
    """The sums over all entries; the last record."""

    total_cases: Count
    total_deltas: Count
    total_turns: Count
    successful_cases: Count | UnsetType = UNSET
    failed_cases: Count | UnsetType = UNSET


ManifestRecord = ManifestMeta | ManifestProvenance | TraceEntry | ManifestSummary


class RunManifest(Struct, frozen=True):
    """A whole manifest."""

    meta: ManifestMeta
    provenance: ManifestProvenance
    entries: tuple[TraceEntry, ...]
    summary: ManifestSummary
