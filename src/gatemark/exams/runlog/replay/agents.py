"""The two agents that ask a language model, and their prompts.

The buffer agent holds text back until it is worth a summary: a model analyses the text, and code
decides. A model that fails, or whose reply is not an analysis, triggers nothing. The summarizer
writes six short fields about new text, within limits or with the failure recorded. A change of a
prompt changes every input hash.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.exams.runlog.records.names import ctu, text_hash
from gatemark.exams.runlog.records.run import (
    SEMANTIC_FIELDS,
    SUMMARY_LIMITS,
    Compat,
    FilterResults,
    LlmUsage,
    SummaryContent,
)
from gatemark.exams.runlog.replay.model import (
    LanguageModel,
    ModelError,
    ModelQuestion,
    ModelReply,
    TextSegment,
    json_object,
    segment_block,
)

PROMPT_VERSION: Final = 1
NO_SUMMARIES: Final = "(no summaries yet)"

BUFFER_SYSTEM: Final = """\
You watch the work of several agents and decide whether a person who follows it should be
interrupted now. You get the latest summaries this person has read, text that is being held back,
and new text. Answer with one JSON object and nothing else:
{"rationale": text of at most 240 characters,
 "stream_state": "SAME_TOPIC_CONTINUING" or "TOPIC_SHIFT" or "CRITICAL_ALERT",
 "is_complete": whether held and new text together end a finished thought, inference or action,
 "is_relevant": whether it is worth an interruption: a new or changed plan or position, an abnormal
  finding, a matter of safety%s}
When you are not sure, answer false."""
NOVELTY_LINE: Final = """,
 "is_novel": whether it is a new kind of decision compared with the summaries, not more detail"""

SUMMARY_SYSTEM: Final = """\
You write updates for a person who follows the work of several agents. Say only what the new text
says. Answer with one JSON object and nothing else. Every field is text with at most this many
characters, and says so briefly when there is nothing new:
""" + "\n".join(f"{field}: {limit}" for field, limit in SUMMARY_LIMITS.items())

REWRITE_SYSTEM: Final = """\
You shorten fields of an update without losing what matters. Answer with the whole JSON object and
nothing else."""


def buffer_prompt(history: list[str], context: str, new: str, reason: str, history_k: int) -> str:
    """Return the prompt of a buffer agent about one flush."""
    summaries = "\n".join(history) or NO_SUMMARIES
    return (
        f"Latest summaries, at most {history_k}, newest last:\n{summaries}\n\n"
        f"Held back so far:\n{context}\n\n"
        f"New text, let through because of {reason}:\n{new}\n"
    )


def summary_prompt(history: list[str], latest: str | None, new: str) -> str:
    """Return the prompt of a summarizer about its segments."""
    earlier = "\n".join(history) or NO_SUMMARIES
    return (
        f"Earlier summaries:\n{earlier}\n\n"
        f"Latest summary:\n{latest or NO_SUMMARIES}\n\n"
        f"New text:\n{new}\n"
    )


def rewrite_prompt(draft: str, too_long: dict[str, int]) -> str:
    """Return the prompt to rewrite fields that are too long."""
    wanted = "\n".join(
        f"{field}: at most {SUMMARY_LIMITS[field]} characters, it has {length}"
        for field, length in too_long.items()
    )
    return (
        f"This update has fields that are too long:\n{draft}\n\nShorten these fields:\n{wanted}\n"
    )


def history_text(fields: dict[str, str]) -> str:
    """Return a summary as later prompts show it, with contributions."""
    return "\n".join(f"{field}: {text}" for field, text in fields.items())


StreamState = Literal["SAME_TOPIC_CONTINUING", "TOPIC_SHIFT", "CRITICAL_ALERT"]
MAX_RATIONALE: Final = 240


class Analysis(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model says about new text; novelty is unset if not requested."""

    rationale: Annotated[str, Meta(max_length=MAX_RATIONALE)]
    stream_state: StreamState
    is_complete: bool
    is_relevant: bool
    is_novel: bool | UnsetType = UNSET


class SegmentLook(Struct, frozen=True):
    """The evaluation of one segment: whether to summarise, and the fields of its decision record.

    ``unanswered`` means that the model itself failed, not only that its reply was unusable.
    """

    trigger: bool
    path: Literal["A", "B", "C"] | None
    analysis: Analysis | None
    input_ctu: int
    usage: LlmUsage
    latency_ms: int | None
    failure: str | None
    unanswered: bool = False

    def filters(self) -> FilterResults | UnsetType:
        """Return the outcome of the three filters; unset without an analysis."""
        found = self.analysis
        if found is None:
            return UNSET
        return FilterResults(
            completeness_passed=found.is_complete,
            value_passed=found.is_relevant,
            novelty_passed=None if found.is_novel is UNSET else found.is_novel,
        )


def trigger_path(analysis: Analysis) -> Literal["A", "B", "C"] | None:
    """Return the path by which an analysis leads to a summary, or None.

    C: an alert. A: complete, relevant and new. B: the topic shifts, and the held text is relevant
    and new. If novelty was not requested, everything counts as new.
    """
    novel = analysis.is_novel is UNSET or analysis.is_novel
    if analysis.stream_state == "CRITICAL_ALERT":
        return "C"
    if analysis.is_complete and analysis.is_relevant and novel:
        return "A"
    if analysis.stream_state == "TOPIC_SHIFT" and analysis.is_relevant and novel:
        return "B"
    return None


class BufferAgent:
    """Evaluated segments, and parked ones that were not evaluated."""

    def __init__(self, model: LanguageModel, *, novelty: bool, history_k: int) -> None:
        self._model = model
        self._novelty = novelty
        self._history_k = history_k
        self._system = BUFFER_SYSTEM % (NOVELTY_LINE if novelty else "")
        self._live: list[TextSegment] = []
        self._parked: list[TextSegment] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held."""
        return not self._live and not self._parked

    def hold(self, segment: TextSegment) -> None:
        """Add a segment without evaluating it."""
        self._live.append(segment)

    def park(self, segment: TextSegment) -> None:
        """Keep a segment that comes too late to be evaluated."""
        self._parked.append(segment)

    def evaluate(self, segment: TextSegment, history: list[str], reason: str) -> SegmentLook:
        """Add a segment and ask the model about it."""
        context = (*self._parked, *self._live)
        self._live.append(segment)
        held, new = segment_block(context), segment_block((segment,))
        latest = history[-self._history_k :]
        prompt = buffer_prompt(latest, held, new, reason, self._history_k)
        question = ModelQuestion(
            task="buffer",
            system=self._system,
            prompt=prompt,
            new=(segment,),
            context=context,
            history=tuple(latest),
            novelty=self._novelty,
        )
        reply: ModelReply | None = None
        analysis: Analysis | None = None
        failure = None
        unanswered = False
        try:
            reply = self._model.ask(question)
            analysis = _analysis(reply, novelty=self._novelty)
        except ModelError as error:
            failure, unanswered = f"model_error: {error}", True
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            failure = f"analysis_invalid: {error}"
        path = None if analysis is None else trigger_path(analysis)
        return SegmentLook(
            trigger=path is not None,
            path=path,
            analysis=analysis,
            input_ctu=ctu(f"{held}\n{new}"),
            usage=usage_of(self._model, reply, prompt, _dump(analysis)),
            latency_ms=None if reply is None else reply.latency_ms,
            failure=failure,
            unanswered=unanswered,
        )

    def take(self) -> tuple[TextSegment, ...]:
        """Remove and return everything that is held, parked text first."""
        held = (*self._parked, *self._live)
        self._live, self._parked = [], []
        return held


def usage_of(
    model: LanguageModel, reply: ModelReply | None, prompt: str, completion: str
) -> LlmUsage:
    """Return the usage of a call; without a reply, the provider counts are None."""
    return LlmUsage(
        prompt_ctu=ctu(prompt),
        completion_ctu=ctu(completion),
        provider_prompt_tokens=None if reply is None else reply.prompt_tokens,
        provider_completion_tokens=None if reply is None else reply.completion_tokens,
        model_id=model.model_id if reply is None else reply.model_id,
    )


_decode: Final = msgspec.json.Decoder(Analysis).decode


def _analysis(reply: ModelReply, *, novelty: bool) -> Analysis:
    found = _decode(json_object(reply.text))
    if novelty == (found.is_novel is UNSET):
        word = "is missing" if novelty else "was not asked for"
        raise msgspec.ValidationError(f"is_novel {word}")
    return found


@lru_cache(maxsize=1024)
def _dump(analysis: Analysis | None) -> str:
    """Return an analysis as JSON; cached, because rules give the same few repeatedly."""
    if analysis is None:
        return ""
    fields: dict[str, object] = msgspec.to_builtins(analysis)
    return json.dumps(fields)


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
        return text_hash(self.prompt)

    @property
    def block_hash(self) -> str:
        """The hash of the text that the summary is about."""
        return text_hash(self.block)


class Summarizer:
    """Asks for a summary, once more if fields are too long, and cuts what still is."""

    def __init__(self, model: LanguageModel, compat: Compat = "gatemark") -> None:
        self._model = model
        self._compat: Compat = compat

    def summarize(
        self, segments: tuple[TextSegment, ...], history: list[str], latest: str | None
    ) -> Summary:
        """Summarize some segments, given the earlier summaries."""
        block = segment_block(segments)
        prompt = summary_prompt(history, latest, block)
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
            if too_long := _too_long(fields):
                fields = self._rewrite(question, fields, too_long, replies)
                cut = _too_long(fields)
                fields = {
                    field: cut_text(text, SUMMARY_LIMITS[field]) for field, text in fields.items()
                }
        except ModelError as error:
            failure, error_words = "unexpected_error", str(error)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            failure, error_words = "schema_validation_error", str(error)
        if failure is None and (cut or (self._compat == "source" and _near_limit(fields))):
            failure = "length_limit_violation"
            error_words = _length_words(cut or _near_limit(fields))
        semantics = semantics_text(fields, self._compat)
        return Summary(
            fields=fields,
            schema_ok=failure is None,
            limits_ok=failure != "length_limit_violation",
            failure_mode=failure,
            schema_error=error_words,
            truncated=tuple(cut),
            usage=_total_usage(self._model, replies, prompt, semantics),
            latency_ms=_total_ms(replies),
            prompt=prompt,
            block=block,
            semantics=semantics,
            for_history=history_text(fields),
        )

    def _ask(self, question: ModelQuestion, replies: list[ModelReply]) -> dict[str, str]:
        reply = self._model.ask(question)
        replies.append(reply)
        found = _decode_fields(json_object(reply.text))
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
            prompt=rewrite_prompt(draft, too_long),
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


def semantics_text(fields: dict[str, str], compat: Compat = "gatemark") -> str:
    """Join the first five fields; if all are empty, only mode ``source`` keeps the spaces."""
    texts = [fields[field] for field in SEMANTIC_FIELDS]
    return " ".join(texts) if compat == "source" or any(texts) else ""


_decode_fields: Final = msgspec.json.Decoder(SummaryFields).decode


def _too_long(fields: dict[str, str]) -> dict[str, int]:
    return {field: len(text) for field, text in fields.items() if len(text) > SUMMARY_LIMITS[field]}


def _near_limit(fields: dict[str, str]) -> dict[str, int]:
    return {
        field: len(text)
        for field, text in fields.items()
        if text and len(text) >= SUMMARY_LIMITS[field] - NEAR_LIMIT
    }


def _length_words(fields: dict[str, int]) -> str:
    words = (f"{field} must be <= {SUMMARY_LIMITS[field]}, got {n}" for field, n in fields.items())
    return "; ".join(words)


def _total_ms(replies: list[ModelReply]) -> int | None:
    known = [reply.latency_ms for reply in replies if reply.latency_ms is not None]
    return sum(known) if known else None


def _total_usage(
    model: LanguageModel, replies: list[ModelReply], prompt: str, completion: str
) -> LlmUsage:
    """Return CTU of the first prompt and the output, and tokens of all replies with counts."""
    usage = usage_of(model, replies[-1] if replies else None, prompt, completion)
    changes: dict[str, object] = {}
    for field, name in (
        ("provider_prompt_tokens", "prompt_tokens"),
        ("provider_completion_tokens", "completion_tokens"),
    ):
        known = [getattr(reply, name) for reply in replies if getattr(reply, name) is not None]
        changes[field] = sum(known) if known else None
    return msgspec.structs.replace(usage, **changes)
