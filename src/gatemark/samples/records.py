"""One answer to one item and how it was scored: `gatemark.sample/1`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gatemark.core.record import BadExample, Form, Problem, RecordSchema

NAME: Final = "gatemark.sample/1"

NonBlank = Annotated[str, Meta(pattern=r"\S", description="text that is not blank")]
SampleId = Annotated[str, Meta(pattern=r"\S", max_length=512)]
Share = Annotated[float, Meta(ge=0, le=1)]
Span = Annotated[float, Meta(ge=0)]


class SampleError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why an item has no scores."""

    kind: NonBlank
    message: str


class ScoreSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting with which a tool made a score: an option of its scorer, a threshold, a judge."""

    score: NonBlank
    name: NonBlank
    value: str


class SampleOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tool that ran and scored a sample, and problems of its log.

    ``partial`` says why the run is incomplete, ``contradictions`` where the log disagrees with its
    own rows. Neither can pass a comparison. ``by_position`` means that the tool had no ids, so that
    ids are positions or default names. ``lower_is_better`` and ``higher_is_better`` name the scores
    of which the tool says so. ``settings`` are those with which the tool made its scores: scores
    that were made with other settings cannot be compared.
    """

    tool: NonBlank
    version: NonBlank | None = None
    partial: tuple[NonBlank, ...] = ()
    contradictions: tuple[NonBlank, ...] = ()
    by_position: bool = False
    lower_is_better: tuple[NonBlank, ...] = ()
    higher_is_better: tuple[NonBlank, ...] = ()
    settings: tuple[ScoreSetting, ...] = ()

    @property
    def name(self) -> str:
        """The tool with its version, if the log has one."""
        return self.tool if self.version is None else f"{self.tool} {self.version}"

    def settings_of(self, score: str) -> dict[str, str]:
        """Return the settings with which a score was made, as far as the log tells."""
        return {one.name: one.value for one in self.settings if one.score == score}


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One answer to one item.

    ``schema``, ``id`` and ``scores`` are required: a record without scores would look like one that
    was not scored yet. All else is optional: ``epoch`` defaults to 1, the rest to null or empty.
    ``id`` and ``epoch`` together identify the sample. A null score means that the scorer gave no
    number; ``error`` means that the whole item failed: ``scores`` is then empty, and the item still
    counts. ``cost`` is the cost of the answer, ``tokens`` the number of tokens in and out,
    ``answered_at`` the time of the answer (RFC 3339, with a time zone). ``origin`` names the tool
    whose log the sample was imported from.
    """

    schema: Literal["gatemark.sample/1"]
    id: SampleId
    scores: dict[str, float | None]
    epoch: Annotated[int, Meta(ge=1)] = 1
    input: Any = None
    target: Any = None
    output: Any = None
    confidence: Share | None = None
    error: SampleError | None = None
    latency_ms: Span | None = None
    cluster: NonBlank | None = None
    tags: dict[str, str] = {}
    origin: SampleOrigin | None = None
    cost: Span | None = None
    tokens: Annotated[int, Meta(ge=0, le=2**53 - 1)] | None = None
    answered_at: Annotated[datetime, Meta(tz=True)] | None = None


def check_errored_is_unscored(sample: Sample) -> list[Problem]:
    """Check that an errored sample has no scores; a 0 would be an invented number."""
    if sample.error is None or not sample.scores:
        return []
    named = ", ".join(sorted(sample.scores))
    return [Problem("$.error", f"an errored sample must have no scores, got {named}")]


def check_numbers_are_finite(sample: Sample) -> list[Problem]:
    """Check that every number is finite; a missing score is null."""
    numbers = {f"$.scores.{name}": score for name, score in sample.scores.items()}
    numbers |= {
        "$.confidence": sample.confidence,
        "$.latency_ms": sample.latency_ms,
        "$.cost": sample.cost,
    }
    return [
        Problem(path, f"must be finite, got {number}")
        for path, number in numbers.items()
        if number is not None and not math.isfinite(number)
    ]


def do_rules_hold(samples: Sequence[Sample]) -> bool:
    """Return whether both rules hold for all samples; x - x is 0 only for a finite x."""
    nothing = 0.0
    for sample in samples:
        if sample.error is not None and sample.scores:
            return False
        for score in sample.scores.values():
            if score is not None:
                nothing += score - score
        if sample.confidence is not None:
            nothing += sample.confidence - sample.confidence
        if sample.latency_ms is not None:
            nothing += sample.latency_ms - sample.latency_ms
        if sample.cost is not None:
            nothing += sample.cost - sample.cost
    return nothing == 0.0


_SCORED: Final = {
    "schema": NAME,
    "id": "add-004",
    "epoch": 2,
    "input": "What is 4 + 4?",
    "target": "8",
    "output": "8",
    "scores": {"exact": 1, "style": None},
    "confidence": 0.93,
    "error": None,
    "latency_ms": 41.5,
    "cluster": "arithmetic",
    "tags": {"lane": "even"},
}
_ERRORED: Final = {
    "schema": NAME,
    "id": "add-013",
    "input": {"question": "13+13"},
    "scores": {},
    "error": {"kind": "RuntimeError", "message": "tool crashed"},
}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One answer to one item: input, output, scores, or an error instead of scores.",
    forms=(
        Form(
            name="sample",
            type=Sample,
            marks=frozenset({"schema", "id", "scores"}),
            identity="id",
            unique=("id", "epoch"),
            good=(
                _SCORED,
                _ERRORED,
                {"schema": NAME, "id": "q1", "scores": {}},
                _SCORED | {"origin": {"tool": "promptfoo", "version": "0.121.20"}},
            ),
            bad=(
                BadExample(
                    "an error beside a score", _SCORED | {"error": _ERRORED["error"]}, "$.error"
                ),
                BadExample("a blank id", _SCORED | {"id": "  "}, "$.id"),
                BadExample("a numeric id", _SCORED | {"id": 4}, "$.id"),
                BadExample("an epoch before the first", _SCORED | {"epoch": 0}, "$.epoch"),
                BadExample("a confidence above 1", _SCORED | {"confidence": 93}, "$.confidence"),
                BadExample("a negative latency", _SCORED | {"latency_ms": -1}, "$.latency_ms"),
                BadExample(
                    "a score in words", _SCORED | {"scores": {"exact": "C"}}, "$.scores.exact"
                ),
                BadExample("a tag that is no text", _SCORED | {"tags": {"lane": 2}}, "$.tags.lane"),
                BadExample("an error in one word", _ERRORED | {"error": "crashed"}, "$.error"),
                BadExample(
                    "an error without a message",
                    _ERRORED | {"error": {"kind": "timeout"}},
                    "$.error",
                ),
                BadExample("a misspelled field", _SCORED | {"latency": 3}, "$"),
                BadExample("an origin without a tool", _SCORED | {"origin": {}}, "$.origin"),
                BadExample("no scores at all", {"schema": NAME, "id": "q1"}, "$"),
                BadExample("another schema", _SCORED | {"schema": "gatemark.pair/1"}, "$.schema"),
            ),
            rules=(check_errored_is_unscored, check_numbers_are_finite),
            proof=do_rules_hold,
        ),
    ),
)
