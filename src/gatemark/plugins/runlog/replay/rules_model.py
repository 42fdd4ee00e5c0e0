"""A rule-based language model: deterministic, offline and fast.

It looks for words that indicate kinds of statements, and for sentences with them. It is not clever,
but always the same. Its latency is virtual: a fixed function of how much it read and wrote, so that
logs of the same trace have the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from gatemark.plugins.runlog.records.names import count_ctu
from gatemark.plugins.runlog.records.run import SUMMARY_LIMITS
from gatemark.plugins.runlog.replay.model import ModelQuestion, ModelReply, TextSegment
from gatemark.plugins.runlog.replay.summarizer import cut_text
from gatemark.plugins.runlog.replay.token_gate import has_boundary_cue

RULES_VERSION: Final = 1
MODEL_ID: Final = f"gatemark-rules-{RULES_VERSION}"
BASE_MS: Final = 20
READ_CTU_PER_MS: Final = 40
WRITTEN_CTU_PER_MS: Final = 2
NOTHING: Final = "Nothing new."
SHIFT_BELOW: Final = 0.25
"""The topic shifts if less than this share of the new words was in the last held segments."""
LOOK_BACK: Final = 2
"""How many of the last held segments are compared."""

KINDS: Final[dict[bytes, str]] = {
    word: kind
    for kind, words in {
        "plan": "recommend recommends recommended suggest propose proposes plan plans next should"
        " must schedule refer referral consult begin start initiate continue stop switch "
        "deploy rollback restart patch order request approve hold",
        "finding": "shows showed reveals revealed found finding findings elevated reduced abnormal "
        "normal positive negative increased decreased absent present high low measured observed "
        "reports reported confirmed error failed failure latency spike",
        "cause": "because due caused cause causes suggesting suggests consistent indicates "
        "explains therefore hence likely differential diagnosis hypothesis root",
        "doubt": "uncertain unclear possible possibly probably may might could unlikely "
        "confidence cannot unknown doubt pending",
        "stance": "agree agrees disagree disagrees instead revise revised reconsider changed "
        "change however but contrary conclude conclusion final decided decision",
        "safety": "risk risks contraindicated allergy allergic toxic danger unsafe breach leak "
        "loss warning caution adverse",
    }.items()
    for word in words.encode().split()
}
KIND_WORDS: Final = frozenset(KINDS)
ALERTS: Final = (
    "anaphyla",
    "cardiac arrest",
    "septic shock",
    "respiratory failure",
    "life-threatening",
    "life threatening",
    "data loss",
    "outage",
    "evacuate",
    "critical alert",
    "emergency",
)
# Words are bytes: one table lower-cases letters and turns everything else into spaces.
_TO_WORDS: Final = bytes(
    sign if sign >= 128 or chr(sign).isalnum() or sign == ord("'") else ord(" ")
    for sign in bytes(range(256)).lower()
)
_SENTENCE: Final = re.compile(r"[^.?!\n]+[.?!]*")
_FIELD_KINDS: Final = {
    "key_findings": "finding",
    "differential_rationale": "cause",
    "uncertainty_confidence": "doubt",
    "recommendation_next_step": "plan",
}
_SHORT_WORDS: Final = 3


class RulesModel:
    """Answers every question by rule, and never fails."""

    model_id = MODEL_ID

    def ask(self, question: ModelQuestion) -> ModelReply:
        if question.task == "buffer":
            answer: Mapping[str, object] = _analyse_text(question)
        elif question.task == "summary":
            answer = _summarise_segments(question.new)
        else:
            answer = {
                field: cut_text(text, SUMMARY_LIMITS[field])
                for field, text in question.draft.items()
            }
        text = msgspec.json.encode(answer).decode()
        return ModelReply(
            text=text, model_id=MODEL_ID, latency_ms=simulate_ms(question.prompt, text)
        )

    def identity(self) -> dict[str, object]:
        return {
            "kind": "rules",
            "version": RULES_VERSION,
            "latency_ms": f"{BASE_MS} + ctu_in/{READ_CTU_PER_MS} + ctu_out/{WRITTEN_CTU_PER_MS}",
        }

    def close(self) -> None:
        """Do nothing: no connection is open."""


def simulate_ms(prompt: str, reply: str) -> int:
    """Return the simulated latency of the rules."""
    return BASE_MS + count_ctu(prompt) // READ_CTU_PER_MS + count_ctu(reply) // WRITTEN_CTU_PER_MS


def _analyse_text(question: ModelQuestion) -> dict[str, object]:
    text = " ".join(segment.text for segment in question.new)
    small = text.lower()
    words, kinds = _read_words(text)
    if any(map(small.__contains__, ALERTS)):
        state = "CRITICAL_ALERT"
    elif question.context and _measure_familiarity(words, question.context) < SHIFT_BELOW:
        state = "TOPIC_SHIFT"
    else:
        state = "SAME_TOPIC_CONTINUING"
    answer: dict[str, object] = {
        "rationale": f"kinds: {', '.join(sorted(kinds)) or 'none'}",
        "stream_state": state,
        "is_complete": has_boundary_cue(text),
        "is_relevant": bool(kinds & {"plan", "stance", "safety"}) or {"finding", "cause"} <= kinds,
    }
    if question.novelty:
        answer["is_novel"] = _is_novel(words, question.history)
    return answer


def _split_words(text: str) -> list[bytes]:
    return text.encode("utf-8", "replace").translate(_TO_WORDS).split()


@lru_cache(maxsize=1024)
def _collect_words(text: str) -> frozenset[bytes]:
    """Return the words of a text; cached, because recent summaries recur."""
    return frozenset(_split_words(text))


@lru_cache(maxsize=1024)
def _read_words(text: str) -> tuple[frozenset[bytes], set[str]]:
    """Return the content words and the kinds of statements; cached, because held text recurs."""
    words = _split_words(text)
    return frozenset([word for word in words if len(word) > _SHORT_WORDS]), _find_kinds(words)


def _measure_familiarity(mine: frozenset[bytes], context: tuple[TextSegment, ...]) -> float:
    """Return the share of words that were in the last held segments."""
    if not mine:
        return 1.0
    unheard = mine.difference(*[_read_words(segment.text)[0] for segment in context[-LOOK_BACK:]])
    return 1.0 - len(unheard) / len(mine)


def _is_novel(mine: frozenset[bytes], history: tuple[str, ...]) -> bool:
    """Return whether most of the content words are in none of the latest summaries."""
    telling = mine - KIND_WORDS
    unheard = telling.difference(*map(_collect_words, history))
    return len(unheard) * 2 > len(telling)


def _summarise_segments(segments: tuple[TextSegment, ...]) -> dict[str, str]:
    sentences: list[str] = []
    counts: dict[str, int] = {}
    for segment in segments:
        found = [part.strip() for part in _SENTENCE.findall(segment.text)]
        sentences.extend(part for part in found if part)
        counts[segment.agent_id] = counts.get(segment.agent_id, 0) + len(segment.text.split())
    kinds = [_find_kinds(_split_words(sentence)) for sentence in sentences]
    fields = {"status_action": _fit_sentences(sentences[-1:], "status_action")}
    for field, kind in _FIELD_KINDS.items():
        holding = (part for part, found in zip(sentences, kinds, strict=True) if kind in found)
        fields[field] = _fit_sentences(holding, field)
    who = (f"{agent}: {count} words" for agent, count in counts.items())
    fields["agent_contributions"] = cut_text(", ".join(who), SUMMARY_LIMITS["agent_contributions"])
    return {field: fields[field] for field in SUMMARY_LIMITS}


def _find_kinds(words: list[bytes]) -> set[str]:
    """Return the kinds of statements that words indicate."""
    return {KINDS[word] for word in KIND_WORDS.intersection(words)}


def _fit_sentences(sentences: Iterable[str], field: str) -> str:
    """Return as many whole sentences as fit; the first is cut if it is too long."""
    limit = SUMMARY_LIMITS[field]
    kept = ""
    for sentence in sentences:
        longer = f"{kept} {sentence}" if kept else sentence
        if len(longer) > limit:
            return kept or cut_text(sentence, limit)
        kept = longer
    return kept or NOTHING
