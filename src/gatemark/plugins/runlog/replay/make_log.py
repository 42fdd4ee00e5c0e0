"""Make a complete run log from what a variant did with one case."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct

from gatemark.core.canonical import digest_bytes
from gatemark.plugins.runlog.records.names import format_moment
from gatemark.plugins.runlog.records.run import (
    RUN_VERSION,
    Compat,
    Determinism,
    ExtractorSettings,
    RunLog,
    RunMeta,
    StoplistsProvenance,
)
from gatemark.plugins.runlog.replay.config import LoadedVariant
from gatemark.plugins.runlog.replay.prompts import PROMPT_VERSION
from gatemark.plugins.runlog.replay.variants import CaseRecorder, Models
from gatemark.plugins.runlog.traces.trace import Trace

NO_EXTRACTOR: Final = ExtractorSettings(
    spacy_version="none",
    scispacy_version="none",
    scispacy_model="none",
    linker_name="none",
    linker_kb_version=None,
    linker_resolve_abbreviations=False,
    cui_score_threshold=0.7,
    max_k=10,
    min_entity_len=3,
    concept_representation="cui",
    cui_normalization="uppercase",
)
"""A replay extracts no concepts; the extractor of later metrics can be given beforehand."""
NO_STOPLIST: Final = digest_bytes(b"")


class RunFacts(Struct, frozen=True):
    """What all cases and variants of one evaluation share."""

    eval_run_id: str
    trace_dataset_hash: str
    compat: Compat = "gatemark"
    created_at: str | None = None
    concept_extractor: ExtractorSettings = NO_EXTRACTOR
    stoplists: StoplistsProvenance | None = None


def make_log(
    trace: Trace,
    variant: LoadedVariant,
    done: CaseRecorder,
    facts: RunFacts,
    *,
    file_hash: str,
    models: Models,
    chunk_size_ctu: int | None = None,
) -> RunLog:
    """Return a complete run log; by default, it was created when its trace ended."""
    created_at = facts.created_at or format_moment(trace.end_ms)
    meta = RunMeta(
        schema_name="exaid.run",
        schema_version=RUN_VERSION,
        created_at=created_at,
        case_id=trace.meta.case_id,
        variant_id=variant.variant_id,
        mas_run_id=trace.meta.mas_run_id,
        eval_run_id=facts.eval_run_id,
        history_k=variant.config.summarizer.history_k,
        trigger_policy=variant.config.trigger_policy,
        trace_file_hash=file_hash,
        trace_dataset_hash=facts.trace_dataset_hash,
        tokengate_config_hash=variant.tokengate_config_hash,
        concept_extractor=facts.concept_extractor,
        stoplists_provenance=facts.stoplists
        or StoplistsProvenance(
            stop_entities_hash=NO_STOPLIST,
            stop_cuis_hash=NO_STOPLIST,
            stoplists_generated_at=created_at,
            stoplists_generated_by_commit=None,
        ),
        timestamp_derivation=done.moments.derivation(),
        determinism=Determinism(gzip_mtime=0, json_sort_keys=True, json_separators=[",", ":"]),
        compat=facts.compat,
        backend={
            "buffer_agent": models.buffer.identity(),
            "summarizer": models.summarizer.identity(),
            "prompts": PROMPT_VERSION,
        },
        chunk_size_ctu=UNSET if chunk_size_ctu is None else chunk_size_ctu,
    )
    return RunLog(meta, tuple(done.flushes), tuple(done.decisions), tuple(done.events))


def add_latencies(log: RunLog) -> int:
    """Return how long the models of a run took, as they report it."""
    spans = [decision.latency_ms for decision in log.decisions]
    spans += [event.latency_ms for event in log.events]
    return sum(span for span in spans if span is not UNSET)
