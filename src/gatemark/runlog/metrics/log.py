"""A run log as the metrics see it: the fields they read, and nothing else.

These types decode the records of any run log from version 1.3.0 on, the published ones included;
whether a log keeps its schema and invariants is judged elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

CHARACTERS_PER_CTU = 4
TRACE_SUFFIX = ".trace"


def ctu(text: str) -> int:
    """Canonical text units: a quarter of the characters, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_CTU)


def plain_case_id(case_id: str) -> str:
    """A case id without the file suffix that some writers left on it."""
    return case_id.removesuffix(TRACE_SUFFIX)


class Usage(msgspec.Struct, frozen=True):
    """What a model call cost, in text units."""

    prompt_ctu: int | UnsetType | None = UNSET
    completion_ctu: int | UnsetType | None = UNSET


class RunMeta(msgspec.Struct, frozen=True, tag_field="record_type", tag="run_meta"):
    """Which case, which variant, and the hashes the log was made under."""

    case_id: str
    variant_id: str
    trace_file_hash: str | UnsetType = UNSET
    trace_dataset_hash: str | UnsetType = UNSET
    tokengate_config_hash: str | UnsetType = UNSET
    mas_run_id: str | UnsetType = UNSET
    eval_run_id: str | UnsetType = UNSET
    concept_extractor: dict[str, Any] | UnsetType = UNSET
    stoplists_provenance: dict[str, Any] | UnsetType = UNSET


class Flush(msgspec.Struct, frozen=True, tag_field="record_type", tag="tokengate_flush"):
    """One flush of the token gate."""

    flush_index: int
    timestamp: str
    accumulated_ctu: int
    start_seq: int = 0
    end_seq: int = 0
    trigger_reason: str | UnsetType | None = UNSET


class Decision(msgspec.Struct, frozen=True, tag_field="record_type", tag="buffer_decision"):
    """One decision of the buffer agent."""

    decision_index: int
    decision: str
    timestamp: str = ""
    input_ctu: int | UnsetType | None = UNSET
    latency_ms: float | UnsetType | None = UNSET
    llm_usage: Usage | UnsetType | None = UNSET
    start_seq: int | UnsetType | None = UNSET
    end_seq: int | UnsetType | None = UNSET


class SummaryEvent(msgspec.Struct, frozen=True, tag_field="record_type", tag="summary_event"):
    """One summary, failed or not."""

    event_index: int
    event_id: str
    start_seq: int
    end_seq: int
    schema_ok: bool
    summary_semantics_text: str
    timestamp: str = ""
    summary_ctu: int | UnsetType | None = UNSET
    latest_summary_event_id: str | UnsetType | None = UNSET
    latency_ms: float | UnsetType | None = UNSET
    llm_usage: Usage | UnsetType | None = UNSET
    failure_mode: str | UnsetType | None = UNSET

    @property
    def ctu(self) -> int:
        """The recorded size, or the size of the text where none was recorded."""
        recorded = self.summary_ctu
        return recorded if isinstance(recorded, int) else ctu(self.summary_semantics_text)


Record = RunMeta | Flush | Decision | SummaryEvent


class CaseLog(msgspec.Struct, frozen=True):
    """The records of one run log, each kind in the order of its index."""

    meta: RunMeta
    flushes: tuple[Flush, ...]
    decisions: tuple[Decision, ...]
    events: tuple[SummaryEvent, ...]

    @property
    def case_id(self) -> str:
        """The case, without a file suffix."""
        return plain_case_id(self.meta.case_id)

    @property
    def variant_id(self) -> str:
        """The variant."""
        return self.meta.variant_id


def case_log(meta: RunMeta, records: Iterable[Record]) -> CaseLog:
    """The records of a log sorted into kinds and by index."""
    rest = list(records)
    return CaseLog(
        meta=meta,
        flushes=tuple(
            sorted((r for r in rest if isinstance(r, Flush)), key=lambda r: r.flush_index)
        ),
        decisions=tuple(
            sorted((r for r in rest if isinstance(r, Decision)), key=lambda r: r.decision_index)
        ),
        events=tuple(
            sorted((r for r in rest if isinstance(r, SummaryEvent)), key=lambda r: r.event_index)
        ),
    )
