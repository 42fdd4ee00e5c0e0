"""A toy world for the metrics: concepts are capital letters, a trace is a list of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.plugins.runlog.metrics.case import compute_case_metrics
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.run import (
    BufferDecision,
    LlmUsage,
    RunLog,
    RunMeta,
    SummaryEvent,
    TokengateFlush,
)


def letters(text: str) -> frozenset[str]:
    """Concepts of the toy world: words that are one capital letter."""
    return frozenset(word for word in text.split() if len(word) == 1 and word.isupper())


class WordTrace(msgspec.Struct, frozen=True):
    """One word per seq, ten milliseconds apart."""

    words: tuple[str, ...]
    is_stub: bool = False

    @property
    def whole(self) -> str:
        return " ".join(self.words)

    @property
    def duration_ms(self) -> int:
        return 10 * max(0, len(self.words) - 1)

    def window(self, start_seq: int, end_seq: int) -> str:
        return " ".join(self.words[start_seq : end_seq + 1])


HASH = "sha256:" + "0" * 64


def event(
    index: int,
    text: str = "",
    window: tuple[int, int] = (0, 0),
    *,
    ok: bool = True,
    latest: str | None = None,
    **more: Any,
) -> SummaryEvent:
    fields: dict[str, Any] = {
        "event_index": index,
        "event_id": f"case-1-V0-se-{index:03d}",
        "case_id": "case-1",
        "variant_id": "V0",
        "timestamp": "2025-12-21T10:00:00Z",
        "start_seq": window[0],
        "end_seq": window[1],
        "schema_ok": ok,
        "summary_semantics_text": text,
        "summary_ctu": UNSET,
        "trigger_type": "buffer_agent",
        "summary_history_event_ids": [],
        "summarizer_input_hash": HASH,
        "limits_ok": ok,
        "failure_mode": None if ok else "schema_validation_error",
        "llm_usage": LlmUsage(),
        "latest_summary_event_id": latest,
    }
    return SummaryEvent(**{**fields, **more})


def decision(index: int, word: Any = "buffer", **more: Any) -> BufferDecision:
    fields: dict[str, Any] = {
        "decision_index": index,
        "decision_id": f"case-1-V0-bd-{index:03d}",
        "case_id": "case-1",
        "variant_id": "V0",
        "timestamp": "2025-12-21T10:00:00Z",
        "input_ctu": UNSET,
        "decision": word,
        "llm_usage": UNSET,
    }
    return BufferDecision(**{**fields, **more})


def flush(index: int, timestamp: str, ctu: int = 10, reason: Any = "max_words") -> TokengateFlush:
    return TokengateFlush(
        flush_index=index,
        case_id="case-1",
        variant_id="V0",
        timestamp=timestamp,
        start_seq=0,
        end_seq=0,
        accumulated_ctu=ctu,
        trigger_reason=reason,
    )


def usage(prompt: int, completion: int) -> LlmUsage:
    return LlmUsage(prompt_ctu=prompt, completion_ctu=completion)


def log(*records: Any, case: str = "case-1", variant: Any = "V0") -> RunLog:
    unset: Any = UNSET
    meta = RunMeta(
        **dict.fromkeys(RunMeta.__struct_fields__, unset) | {"case_id": case, "variant_id": variant}
    )
    return RunLog(
        meta=meta,
        flushes=tuple(record for record in records if isinstance(record, TokengateFlush)),
        decisions=tuple(record for record in records if isinstance(record, BufferDecision)),
        events=tuple(record for record in records if isinstance(record, SummaryEvent)),
    )


def measure(found: RunLog, words: Sequence[str] | str = "") -> PerCaseMetrics:
    return compute_case_metrics(
        found,
        WordTrace(tuple(words.split() if isinstance(words, str) else words)),
        letters,
        tokengate_config_hash_match=True,
        dataset_manifest_hash_valid=True,
    )
