"""``exaid.manifest``: which traces make up a data set, and where they came from."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gatemark.core.record import BadExample, BadFile, Form, RecordSchema
from gatemark.exams.runlog.records.manifest import (
    ManifestMeta,
    ManifestProvenance,
    ManifestSummary,
    TraceEntry,
)
from gatemark.exams.runlog.records.manifest_rules import ManifestRules, manifest_problems
from gatemark.exams.runlog.records.names import trace_dataset_hash

_HASH: Final = "sha256:" + "4f" * 32
_CASE: Final = "case-synth-000"
_CONTENT: Final = "sha256:" + "a7" * 32
_RUN: Final = "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf"

_META: Final[dict[str, object]] = {
    "record_type": "manifest_meta",
    "schema_version": "2.0.0",
    "dataset_id": "exaid_traces_0a1b2c3d_0ad5f2b4_d22060bf",
    "mas_run_id": _RUN,
    "created_at": "2023-11-14T22:13:20.000Z",
}
_ENTRY: Final[dict[str, object]] = {
    "record_type": "trace_entry",
    "case_id": _CASE,
    "file": "case-synth-000.trace.jsonl.gz",
    "sha256": _CONTENT,
    "delta_count": 412,
    "turn_count": 9,
}
_PROVENANCE: Final[dict[str, object]] = {
    "record_type": "provenance",
    "mac_fork_url": "https://example.org/agents.git",
    "mac_commit": "0a1b2c3d" * 5,
    "exaid_commit": "unknown",
    "model": "synthetic-1",
    "decoding": {"temperature": 1.0, "top_p": None, "max_tokens": 4096, "seed": None},
    "case_list_hash": _HASH,
    "config_hash": _HASH,
    "trace_dataset_hash": trace_dataset_hash(
        case_list_hash=_HASH, mas_run=_RUN, traces=[(_CASE, _CONTENT)]
    ),
}
_SUMMARY: Final[dict[str, object]] = {
    "record_type": "summary",
    "total_cases": 1,
    "total_deltas": 412,
    "total_turns": 9,
    "successful_cases": 1,
    "failed_cases": 0,
}
_FILE: Final = (_META, _PROVENANCE, _ENTRY, _SUMMARY)


def _without(record: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != key}


def _form(
    kind: type[Struct], good: tuple[dict[str, object], ...], *bad: BadExample, identity: str
) -> Form:
    return Form(
        name=str(kind.__struct_config__.tag),
        type=kind,
        marks=frozenset({"record_type"}),
        identity=identity,
        good=good,
        bad=bad,
        rules=(manifest_problems,),
    )


SCHEMA: Final = RecordSchema(
    name="exaid.manifest",
    summary="Which traces make up a data set, with their hashes and where they came from.",
    tag="record_type",
    across=ManifestRules,
    forms=(
        _form(
            ManifestMeta,
            (_META, _META | {"stub_mode": True}),
            BadExample("another version", _META | {"schema_version": "1.0.0"}, "$.schema_version"),
            BadExample("a data set without a prefix", _META | {"dataset_id": "d1"}, "$.dataset_id"),
            BadExample("a campaign in capitals", _META | {"mas_run_id": "mas_A"}, "$.mas_run_id"),
            BadExample("a day alone", _META | {"created_at": "2023-11-14"}, "$.created_at"),
            BadExample(
                "a day no calendar has",
                _META | {"created_at": "2023-02-30T00:00:00Z"},
                "$.created_at",
            ),
            BadExample("said not to be a stub", _META | {"stub_mode": False}, "$.stub_mode"),
            BadExample("a key nobody knows", _META | {"cases": 1}, "$"),
            BadExample("no campaign", _without(_META, "mas_run_id"), "$"),
            identity="dataset_id",
        ),
        _form(
            ManifestProvenance,
            (_PROVENANCE, _without(_PROVENANCE, "trace_dataset_hash")),
            BadExample("a short commit", _PROVENANCE | {"mac_commit": "0a1b2c3d"}, "$.mac_commit"),
            BadExample("no address", _PROVENANCE | {"mac_fork_url": "fork"}, "$.mac_fork_url"),
            BadExample("no temperature", _PROVENANCE | {"decoding": {"seed": 1}}, "$.decoding"),
            BadExample(
                "a bare hash", _PROVENANCE | {"case_list_hash": "4f" * 32}, "$.case_list_hash"
            ),
            BadExample("no model", _without(_PROVENANCE, "model"), "$"),
            identity="mac_commit",
        ),
        _form(
            TraceEntry,
            (_ENTRY, _ENTRY | {"case_id": "case-Synth-1", "delta_count": 0}),
            BadExample("a suffix", _ENTRY | {"case_id": "case-synth-000.trace"}, "$.case_id"),
            BadExample("deltas below zero", _ENTRY | {"delta_count": -1}, "$.delta_count"),
            BadExample(
                "a hash in capitals", _ENTRY | {"sha256": "sha256:" + "A7" * 32}, "$.sha256"
            ),
            BadExample("no file", _ENTRY | {"file": ""}, "$.file"),
            identity="case_id",
        ),
        _form(
            ManifestSummary,
            (_SUMMARY, _without(_without(_SUMMARY, "successful_cases"), "failed_cases")),
            BadExample("cases below zero", _SUMMARY | {"total_cases": -1}, "$.total_cases"),
            BadExample("no turns", _without(_SUMMARY, "total_turns"), "$"),
            identity="",
        ),
    ),
    good_files=(_FILE,),
    bad_files=(
        BadFile(
            "a summary before the entries",
            (_META, _PROVENANCE, _SUMMARY, _ENTRY),
            4,
            "record_order",
        ),
        BadFile("two metas", (_META, _META, _PROVENANCE, _ENTRY, _SUMMARY), 2, "one_of_each"),
        BadFile("no summary", (_META, _PROVENANCE, _ENTRY), 1, "one_of_each"),
        BadFile(
            "a case twice", (_META, _PROVENANCE, _ENTRY, _ENTRY, _SUMMARY), 4, "unique_entries"
        ),
        BadFile(
            "a sum that is off",
            (_META, _PROVENANCE, _ENTRY, _SUMMARY | {"total_deltas": 400}),
            4,
            "summary_adds_up",
        ),
        BadFile(
            "a case that is not listed",
            (_META, _PROVENANCE, _ENTRY, _SUMMARY | {"total_cases": 2}),
            4,
            "summary_adds_up",
        ),
        BadFile(
            "the hash of other traces",
            (_META, _PROVENANCE | {"trace_dataset_hash": _HASH}, _ENTRY, _SUMMARY),
            2,
            "dataset_hash",
        ),
    ),
)
