"""A toy world for the metrics: concepts are capital letters, a trace is a list of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gatemark.runlog.metrics.case import CaseMetrics, case_metrics
from gatemark.runlog.metrics.log import (
    CaseLog,
    Decision,
    Flush,
    RunMeta,
    SummaryEvent,
    Usage,
    case_log,
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


def event(
    index: int,
    text: str = "",
    window: tuple[int, int] = (0, 0),
    *,
    ok: bool = True,
    latest: str | None = None,
    **more: Any,
) -> SummaryEvent:
    return SummaryEvent(
        event_index=index,
        event_id=f"case-1-V0-se-{index:03d}",
        start_seq=window[0],
        end_seq=window[1],
        schema_ok=ok,
        summary_semantics_text=text,
        latest_summary_event_id=latest,
        **more,
    )


def decision(index: int, word: str = "buffer", **more: Any) -> Decision:
    return Decision(decision_index=index, decision=word, **more)


def flush(index: int, timestamp: str, ctu: int = 10, reason: Any = "max_words") -> Flush:
    return Flush(flush_index=index, timestamp=timestamp, accumulated_ctu=ctu, trigger_reason=reason)


def usage(prompt: int, completion: int) -> Usage:
    return Usage(prompt_ctu=prompt, completion_ctu=completion)


def log(*records: Any, case: str = "case-1", variant: str = "V0") -> CaseLog:
    return case_log(RunMeta(case_id=case, variant_id=variant), records)


def measure(found: CaseLog, words: Sequence[str] | str = "") -> CaseMetrics:
    return case_metrics(
        found,
        WordTrace(tuple(words.split() if isinstance(words, str) else words)),
        letters,
        tokengate_config_hash_match=True,
        dataset_manifest_hash_valid=True,
    )
