"""The buffer agent: decides whether new text is worth a summary."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.plugins.runlog.records.names import count_ctu
from gatemark.plugins.runlog.records.run import FilterResults, LlmUsage
from gatemark.plugins.runlog.replay.model import (
    LanguageModel,
    ModelError,
    ModelQuestion,
    ModelReply,
    TextSegment,
    find_json_object,
    render_segments,
)
from gatemark.plugins.runlog.replay.prompts import BUFFER_SYSTEM, NOVELTY_LINE, write_buffer_prompt

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


def find_trigger_path(analysis: Analysis) -> Literal["A", "B", "C"] | None:
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
        held, new = render_segments(context), render_segments((segment,))
        latest = history[-self._history_k :]
        prompt = write_buffer_prompt(latest, held, new, reason, self._history_k)
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
            analysis = _read_analysis(reply, novelty=self._novelty)
        except ModelError as error:
            failure, unanswered = f"model_error: {error}", True
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            failure = f"analysis_invalid: {error}"
        path = None if analysis is None else find_trigger_path(analysis)
        return SegmentLook(
            trigger=path is not None,
            path=path,
            analysis=analysis,
            input_ctu=count_ctu(f"{held}\n{new}"),
            usage=count_usage(self._model, reply, prompt, _render_analysis(analysis)),
            latency_ms=None if reply is None else reply.latency_ms,
            failure=failure,
            unanswered=unanswered,
        )

    def take(self) -> tuple[TextSegment, ...]:
        """Remove and return everything that is held, parked text first."""
        held = (*self._parked, *self._live)
        self._live, self._parked = [], []
        return held


def count_usage(
    model: LanguageModel, reply: ModelReply | None, prompt: str, completion: str
) -> LlmUsage:
    """Return the usage of a call; without a reply, the provider counts are None."""
    return LlmUsage(
        prompt_ctu=count_ctu(prompt),
        completion_ctu=count_ctu(completion),
        provider_prompt_tokens=None if reply is None else reply.prompt_tokens,
        provider_completion_tokens=None if reply is None else reply.completion_tokens,
        model_id=model.model_id if reply is None else reply.model_id,
    )


_decode: Final = msgspec.json.Decoder(Analysis).decode


def _read_analysis(reply: ModelReply, *, novelty: bool) -> Analysis:
    found = _decode(find_json_object(reply.text))
    if novelty == (found.is_novel is UNSET):
        word = "is missing" if novelty else "was not asked for"
        raise msgspec.ValidationError(f"is_novel {word}")
    return found


@lru_cache(maxsize=1024)
def _render_analysis(analysis: Analysis | None) -> str:
    """Return an analysis as JSON; cached, because rules give the same few repeatedly."""
    if analysis is None:
        return ""
    fields: dict[str, object] = msgspec.to_builtins(analysis)
    return json.dumps(fields)
