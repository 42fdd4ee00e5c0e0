"""The summarizer: asks for a summary, and keeps its fields within their limits."""

from __future__ import annotations

import json
from typing import Final, Literal

import msgspec
from msgspec import Struct

from gatemark.plugins.runlog.records.names import hash_text
from gatemark.plugins.runlog.records.run import (
    SEMANTIC_FIELDS,
    SUMMARY_LIMITS,
    Compat,
    LlmUsage,
    SummaryContent,
)
from gatemark.plugins.runlog.replay.buffer_agent import count_usage
from gatemark.plugins.runlog.replay.model import (
    LanguageModel,
    ModelError,
    ModelQuestion,
    ModelReply,
    TextSegment,
    find_json_object,
    render_segments,
)
from gatemark.plugins.runlog.replay.prompts import (
    REWRITE_SYSTEM,
    SUMMARY_SYSTEM,
    render_history,
    write_rewrite_prompt,
    write_summary_prompt,
)

FailureMode = Literal["length_limit_violation", "schema_validation_error", "unexpected_error"]
KEEP_WORDS_ABOVE: Final = 0.8
"""A text is cut at its last space if that keeps more than this share of the limit."""
NEAR_LIMIT: Final = 1
"""In mode ``source``, a field this close to its limit counts as cut."""


class SummaryFields(Struct, frozen=True, forbid_unknown_fields=True):
    """The six fields that a model must return."""

    status_action: str
    key_findings: str
    differential_rationale: str
    uncertainty_confidence: str
    recommendation_next_step: str
    agent_contributions: str


class Summary(Struct, frozen=True):
    """A summary, or a failed attempt; ``fields`` are then empty texts.

    ``semantics`` is the content of the summary, without the contributions; ``for_history`` is the
    summary as later prompts show it.
    """

    fields: dict[str, str]
    schema_ok: bool
    limits_ok: bool
    failure_mode: FailureMode | None
    schema_error: str | None
    truncated: tuple[str, ...]
    usage: LlmUsage
    latency_ms: int | None
    prompt: str
    block: str
    semantics: str
    for_history: str

    @property
    def content(self) -> SummaryContent:
        """The six fields as the log stores them."""
        return SummaryContent(**self.fields)

    @property
    def input_hash(self) -> str:
        """The hash of the model's prompt."""
        return hash_text(self.prompt)

    @property
    def block_hash(self) -> str:
        """The hash of the text that the summary is about."""
        return hash_text(self.block)


class Summarizer:
    """Asks for a summary, once more if fields are too long, and cuts what still is."""

    def __init__(self, model: LanguageModel, compat: Compat = "gatemark") -> None:
        self._model = model
        self._compat: Compat = compat

    def summarize(
        self, segments: tuple[TextSegment, ...], history: list[str], latest: str | None
    ) -> Summary:
        """Summarize some segments, given the earlier summaries."""
        block = render_segments(segments)
        prompt = write_summary_prompt(history, latest, block)
        before = (*history, latest) if latest else tuple(history)
        question = ModelQuestion(
            task="summary", system=SUMMARY_SYSTEM, prompt=prompt, new=segments, history=before
        )
        replies: list[ModelReply] = []
        fields = dict.fromkeys(SUMMARY_LIMITS, "")
        cut: dict[str, int] = {}
        failure: FailureMode | None = None
        error_words = None
        try:
            fields = self._ask(question, replies)
            if too_long := _find_too_long(fields):
                fields = self._rewrite(question, fields, too_long, replies)
                cut = _find_too_long(fields)
                fields = {
                    field: cut_text(text, SUMMARY_LIMITS[field]) for field, text in fields.items()
                }
        except ModelError as error:
            failure, error_words = "unexpected_error", str(error)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            failure, error_words = "schema_validation_error", str(error)
        if failure is None and (cut or (self._compat == "source" and _list_near_limit(fields))):
            failure = "length_limit_violation"
            error_words = _describe_lengths(cut or _list_near_limit(fields))
        semantics = join_semantics(fields, self._compat)
        return Summary(
            fields=fields,
            schema_ok=failure is None,
            limits_ok=failure != "length_limit_violation",
            failure_mode=failure,
            schema_error=error_words,
            truncated=tuple(cut),
            usage=_add_usage(self._model, replies, prompt, semantics),
            latency_ms=_add_latencies(replies),
            prompt=prompt,
            block=block,
            semantics=semantics,
            for_history=render_history(fields),
        )

    def _ask(self, question: ModelQuestion, replies: list[ModelReply]) -> dict[str, str]:
        reply = self._model.ask(question)
        replies.append(reply)
        found = _decode_fields(find_json_object(reply.text))
        fields: dict[str, str] = msgspec.structs.asdict(found)
        return fields

    def _rewrite(
        self,
        question: ModelQuestion,
        fields: dict[str, str],
        too_long: dict[str, int],
        replies: list[ModelReply],
    ) -> dict[str, str]:
        """Ask once for shorter fields; keep the first summary if the reply is not one."""
        draft = json.dumps(fields, ensure_ascii=False)
        again = ModelQuestion(
            task="rewrite",
            system=REWRITE_SYSTEM,
            prompt=write_rewrite_prompt(draft, too_long),
            new=question.new,
            history=question.history,
            draft=fields,
        )
        try:
            rewritten = self._ask(again, replies)
        except (ModelError, msgspec.DecodeError, msgspec.ValidationError):
            return fields
        return fields | {field: rewritten[field] for field in too_long}


def cut_text(text: str, limit: int) -> str:
    """Cut a text to a limit: at the last space if that keeps most of it, else exactly."""
    if len(text) <= limit:
        return text
    kept = text[:limit]
    space = kept.rfind(" ")
    return kept[:space] if space > limit * KEEP_WORDS_ABOVE else kept


def join_semantics(fields: dict[str, str], compat: Compat = "gatemark") -> str:
    """Join the first five fields; if all are empty, only mode ``source`` keeps the spaces."""
    texts = [fields[field] for field in SEMANTIC_FIELDS]
    return " ".join(texts) if compat == "source" or any(texts) else ""


_decode_fields: Final = msgspec.json.Decoder(SummaryFields).decode


def _find_too_long(fields: dict[str, str]) -> dict[str, int]:
    return {field: len(text) for field, text in fields.items() if len(text) > SUMMARY_LIMITS[field]}


def _list_near_limit(fields: dict[str, str]) -> dict[str, int]:
    return {
        field: len(text)
        for field, text in fields.items()
        if text and len(text) >= SUMMARY_LIMITS[field] - NEAR_LIMIT
    }


def _describe_lengths(fields: dict[str, int]) -> str:
    words = (f"{field} must be <= {SUMMARY_LIMITS[field]}, got {n}" for field, n in fields.items())
    return "; ".join(words)


def _add_latencies(replies: list[ModelReply]) -> int | None:
    known = [reply.latency_ms for reply in replies if reply.latency_ms is not None]
    return sum(known) if known else None


def _add_usage(
    model: LanguageModel, replies: list[ModelReply], prompt: str, completion: str
) -> LlmUsage:
    """Return CTU of the first prompt and the output, and tokens of all replies with counts."""
    usage = count_usage(model, replies[-1] if replies else None, prompt, completion)
    changes: dict[str, object] = {}
    for field, name in (
        ("provider_prompt_tokens", "prompt_tokens"),
        ("provider_completion_tokens", "completion_tokens"),
    ):
        known = [getattr(reply, name) for reply in replies if getattr(reply, name) is not None]
        changes[field] = sum(known) if known else None
    return msgspec.structs.replace(usage, **changes)
