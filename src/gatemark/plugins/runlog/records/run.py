"""The records of a run log: what one variant did with one case's trace.

Unknown keys are allowed, but provenance belongs in ``run_meta`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.plugins.runlog.records.fields import (
    CaseId,
    Count,
    DecisionId,
    EvalRunId,
    EventId,
    Hash,
    MasRunId,
    Misplaced,
    Moment,
    VariantName,
    Version,
)

RUN_VERSION: Final = "1.5.0"

TriggerPolicy = Literal["full_exaid", "turn_end", "no_buffer", "no_tokengate", "no_novelty"]
TriggerReason = Literal[
    "max_words", "boundary_cue", "silence_timer", "max_wait_timeout", "end_of_trace", "turn_end"
]
OlderTriggerReason = Literal[TriggerReason, "threshold", "timeout"]
TriggerType = Literal["turn_end", "tokengate_flush", "buffer_agent"]
DecisionWord = Literal["summarize", "buffer", "discard"]
Compat = Literal["gatemark", "source"]

SUMMARY_LIMITS: Final = {
    "status_action": 150,
    "key_findings": 180,
    "differential_rationale": 210,
    "uncertainty_confidence": 120,
    "recommendation_next_step": 180,
    "agent_contributions": 150,
}
"""Maximum number of characters of each field of a summary."""
*SEMANTIC_FIELDS, LAST_FIELD = SUMMARY_LIMITS
"""The fields of a summary that make up its semantics text, in order, and the one after them."""


class Parts(Struct, frozen=True):
    """Which parts a trigger policy uses, and so which records it writes alongside summaries."""

    gate: bool
    buffer: bool
    novelty: bool

    @property
    def trigger(self) -> TriggerType:
        """What triggers a summary."""
        return "buffer_agent" if self.buffer else "tokengate_flush" if self.gate else "turn_end"


PARTS: Final[Mapping[TriggerPolicy, Parts]] = {
    "full_exaid": Parts(gate=True, buffer=True, novelty=True),
    "turn_end": Parts(gate=False, buffer=False, novelty=False),
    "no_buffer": Parts(gate=True, buffer=False, novelty=False),
    "no_tokengate": Parts(gate=False, buffer=True, novelty=True),
    "no_novelty": Parts(gate=True, buffer=True, novelty=False),
}
SOURCE_VARIANTS: Final = {f"V{number}": policy for number, policy in enumerate(PARTS)}
"""The policies of the built-in variants; other variants name one of these policies."""


class ExtractorSettings(Struct, frozen=True, gc=False, kw_only=True):
    """The concept extractor for the metrics of this run, with its settings."""

    spacy_version: str
    scispacy_version: str
    scispacy_model: str
    linker_name: str
    linker_kb_version: str | None
    linker_resolve_abbreviations: bool
    cui_score_threshold: float
    max_k: int
    min_entity_len: int
    concept_representation: Literal["cui", "surface"]
    cui_normalization: Literal["uppercase", "lowercase", "none"]
    linker_max_entities_per_mention: int | UnsetType = UNSET
    linker_threshold: float | UnsetType = UNSET
    entity_types_kept: list[str] | UnsetType = UNSET
    stop_entities_count: int | UnsetType = UNSET
    stop_cuis_count: int | UnsetType = UNSET


class StoplistsProvenance(Struct, frozen=True, gc=False):
    """The stoplists of the run."""

    stop_entities_hash: Hash
    stop_cuis_hash: Hash
    stoplists_generated_at: Moment
    stoplist_df_report_hash: Hash | UnsetType = UNSET
    stoplists_generated_by_commit: str | UnsetType | None = UNSET


FALLBACK_STEP_MS: Final = 1000
"""The time between two ``seq`` in the fallback method."""


class TimestampDerivation(Struct, frozen=True, gc=False):
    """How the timestamps of the log were derived."""

    method: Literal["trace_t_emitted_ms"]
    fallback_method: Literal["run_start_time_plus_seq"]
    missing_t_emitted_ms_count: int
    derived_from_t_emitted: int | UnsetType = UNSET
    derived_from_fallback: int | UnsetType = UNSET


class Determinism(Struct, frozen=True, gc=False):
    """How the log was written, so that the same run gives the same bytes."""

    gzip_mtime: Literal[0] | UnsetType = UNSET
    json_sort_keys: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET
    json_separators: Annotated[list[str], Meta(min_length=2, max_length=2)] | UnsetType = UNSET


class LlmUsage(Struct, frozen=True, gc=False):
    """Usage of a model call: CTU of the texts, and tokens by the provider."""

    prompt_ctu: Count | UnsetType = UNSET
    completion_ctu: Count | UnsetType = UNSET
    provider_prompt_tokens: int | UnsetType | None = UNSET
    provider_completion_tokens: int | UnsetType | None = UNSET
    model_id: str | UnsetType = UNSET


class FilterResults(Struct, frozen=True, gc=False):
    """Findings of the buffer agent; novelty is null if it is off."""

    completeness_passed: bool | UnsetType = UNSET
    value_passed: bool | UnsetType = UNSET
    novelty_passed: bool | UnsetType | None = UNSET


class SummaryContent(Struct, frozen=True, gc=False):
    """The six fields of a summary."""

    status_action: str | UnsetType = UNSET
    key_findings: str | UnsetType = UNSET
    differential_rationale: str | UnsetType = UNSET
    uncertainty_confidence: str | UnsetType = UNSET
    recommendation_next_step: str | UnsetType = UNSET
    agent_contributions: str | UnsetType = UNSET


class RunMeta(Struct, frozen=True, gc=False, kw_only=True, tag_field="record_type", tag="run_meta"):
    """Where the run comes from and how it was made; exactly one, and the first record.

    ``compat``, ``backend`` and ``chunk_size_ctu`` are added by Gatemark: the compatibility mode,
    the language model, and the size of V3's chunks.
    """

    schema_name: Literal["exaid.run"]
    schema_version: Version
    created_at: Moment
    case_id: CaseId
    variant_id: VariantName
    mas_run_id: MasRunId
    eval_run_id: EvalRunId
    history_k: Annotated[int, Meta(ge=1)]
    trace_file_hash: Hash
    trace_dataset_hash: Hash
    tokengate_config_hash: Hash
    concept_extractor: ExtractorSettings
    stoplists_provenance: StoplistsProvenance
    timestamp_derivation: TimestampDerivation
    determinism: Determinism
    trigger_policy: TriggerPolicy | UnsetType = UNSET
    compat: Compat | UnsetType = UNSET
    backend: dict[str, Any] | UnsetType = UNSET
    chunk_size_ctu: Count | UnsetType = UNSET


class _NoProvenance(Struct, frozen=True, gc=False, kw_only=True, tag_field="record_type"):
    """Keys that must not be repeated outside of ``run_meta``."""

    concept_extractor: Misplaced | UnsetType = UNSET
    stoplists_provenance: Misplaced | UnsetType = UNSET
    timestamp_derivation: Misplaced | UnsetType = UNSET
    determinism: Misplaced | UnsetType = UNSET
    trace_file_hash: Misplaced | UnsetType = UNSET
    trace_dataset_hash: Misplaced | UnsetType = UNSET
    tokengate_config_hash: Misplaced | UnsetType = UNSET


class TokengateFlush(_NoProvenance, frozen=True, kw_only=True, tag="tokengate_flush"):
    """The token gate passed on some text of one agent."""

    flush_index: Count
    case_id: CaseId
    variant_id: VariantName
    timestamp: Moment
    start_seq: Count
    end_seq: Count
    accumulated_ctu: Count
    trigger_reason: TriggerReason | UnsetType = UNSET
    text_hash: Hash | UnsetType = UNSET


class BufferDecision(_NoProvenance, frozen=True, kw_only=True, tag="buffer_decision"):
    """The buffer agent decided whether its text is worth a summary.

    ``failure_mode`` is added by Gatemark: why there is no analysis, if the model failed.
    """

    decision_index: Count
    decision_id: DecisionId
    case_id: CaseId
    variant_id: VariantName
    timestamp: Moment
    input_ctu: Count
    decision: DecisionWord
    llm_usage: LlmUsage
    start_seq: int | UnsetType = UNSET
    end_seq: int | UnsetType = UNSET
    filter_results: FilterResults | UnsetType = UNSET
    latency_ms: Count | UnsetType = UNSET
    failure_mode: str | UnsetType = UNSET


class SummaryEvent(_NoProvenance, frozen=True, kw_only=True, tag="summary_event"):
    """One summary, or a failed attempt at one.

    ``truncated_fields`` is added by Gatemark: the fields that were cut to their limits.
    """

    event_index: Count
    event_id: EventId
    case_id: CaseId
    variant_id: VariantName
    timestamp: Moment
    start_seq: Count
    end_seq: Count
    schema_ok: bool
    summary_semantics_text: str
    summary_ctu: Count
    trigger_type: TriggerType
    summary_history_event_ids: list[EventId]
    summarizer_input_hash: Hash
    limits_ok: bool
    failure_mode: str | None
    llm_usage: LlmUsage
    summarizer_input_text: str | UnsetType = UNSET
    schema_error: str | UnsetType | None = UNSET
    summary_content: SummaryContent | UnsetType = UNSET
    latest_summary_event_id: EventId | UnsetType | None = UNSET
    new_buffer_text_hash: Hash | UnsetType = UNSET
    latency_ms: Count | UnsetType = UNSET
    truncated_fields: list[str] | UnsetType = UNSET


PROVENANCE_KEYS: Final = _NoProvenance.__struct_fields__
RECORD_TYPES: Final[Mapping[str, type[Struct]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (RunMeta, TokengateFlush, BufferDecision, SummaryEvent)
}
"""The record types by the tag of each, in the order of a file."""
RunRecord = RunMeta | TokengateFlush | BufferDecision | SummaryEvent
VersionedRecord: TypeAlias = Any
"""A record of any version; the types of older versions are created at run time."""


class RunLog(Struct, frozen=True):
    """A complete run log, each kind of record in the order of its index.

    ``missing`` lists the fields that an older log lacks; they stay unset.
    """

    meta: RunMeta
    flushes: tuple[TokengateFlush, ...]
    decisions: tuple[BufferDecision, ...]
    events: tuple[SummaryEvent, ...]
    missing: tuple[str, ...] = ()

    def records(self) -> tuple[RunRecord, ...]:
        """Return every record in the order of the file."""
        return (self.meta, *self.flushes, *self.decisions, *self.events)
