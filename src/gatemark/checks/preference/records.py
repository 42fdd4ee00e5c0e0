"""One vote between two answers: `gatemark.vote/1`, between candidate and baseline or two models."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema
from gatemark.core.text import is_one_line
from gatemark.evidence.inputs import normalize_id

NAME: Final = "gatemark.vote/1"

Name = Annotated[str, Meta(pattern=r"\S", max_length=512)]


class Vote(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One reviewer's preference for one item, and which answer was shown first."""

    item: Name
    reviewer: Name
    choice: Literal["candidate", "baseline", "tie"]
    first: Literal["candidate", "baseline"]
    schema: Literal["gatemark.vote/1"] | UnsetType = UNSET


class ModelVote(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One reviewer's preference between two of several models; ``model_a`` was shown first."""

    item: Name
    reviewer: Name
    model_a: Name
    model_b: Name
    winner: Literal["model_a", "model_b", "tie", "tie (bothbad)"]
    schema: Literal["gatemark.vote/1"] | UnsetType = UNSET


def check_models_differ(vote: ModelVote) -> list[Problem]:
    """Check that a vote compares two different models."""
    if normalize_id(vote.model_a) != normalize_id(vote.model_b):
        return []
    return [Problem("$.model_b", f"a vote compares two models, got {vote.model_b!r} twice")]


def check_reviewer_is_one_line(vote: Vote | ModelVote) -> list[Problem]:
    """Check that a reviewer's name is a single line."""
    if is_one_line(vote.reviewer):
        return []
    return [Problem("$.reviewer", f"{vote.reviewer!r} has a control character")]


_VOTE: Final = {
    "item": "letter-07",
    "reviewer": "r2",
    "choice": "candidate",
    "first": "baseline",
}

_MODEL_VOTE: Final = {
    "item": "letter-07",
    "reviewer": "r2",
    "model_a": "small-3",
    "model_b": "large-1",
    "winner": "model_b",
}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One reviewer's blind choice between two answers: of candidate and baseline, "
    "or of two models.",
    forms=(
        Form(
            name="vote",
            type=Vote,
            marks=frozenset({"item", "reviewer", "choice"}),
            identity="item",
            unique=("item", "reviewer"),
            good=(_VOTE, _VOTE | {"schema": NAME, "choice": "tie"}),
            bad=(
                BadExample("an answer's letter", _VOTE | {"choice": "A"}, "$.choice"),
                BadExample("a tie shown first", _VOTE | {"first": "tie"}, "$.first"),
                BadExample("an unknown position", _VOTE | {"first": None}, "$.first"),
                BadExample("a blank item", _VOTE | {"item": " "}, "$.item"),
                BadExample("a numeric item", _VOTE | {"item": 7}, "$.item"),
                BadExample("a reviewer on two lines", _VOTE | {"reviewer": "a\nb"}, "$.reviewer"),
                BadExample("nobody voted", _VOTE | {"reviewer": ""}, "$.reviewer"),
                BadExample("a misspelled field", _VOTE | {"shown": "baseline"}, "$"),
                BadExample("no position", {k: v for k, v in _VOTE.items() if k != "first"}, "$"),
                BadExample("another schema", _VOTE | {"schema": "gatemark.pair/1"}, "$.schema"),
            ),
            rules=(check_reviewer_is_one_line,),
        ),
        Form(
            name="models",
            type=ModelVote,
            marks=frozenset({"model_a", "model_b", "winner"}),
            identity="item",
            unique=("item", "reviewer", "model_a", "model_b"),
            good=(
                _MODEL_VOTE,
                _MODEL_VOTE | {"schema": NAME, "winner": "tie"},
                _MODEL_VOTE | {"winner": "tie (bothbad)"},
            ),
            bad=(
                BadExample("a model's name", _MODEL_VOTE | {"winner": "large-1"}, "$.winner"),
                BadExample("one model", _MODEL_VOTE | {"model_b": "small-3"}, "$.model_b"),
                BadExample(
                    "one model, spelt in two ways",
                    _MODEL_VOTE | {"model_b": "Small-3"},
                    "$.model_b",
                ),
                BadExample("a blank model", _MODEL_VOTE | {"model_a": " "}, "$.model_a"),
                BadExample(
                    "a reviewer on two lines", _MODEL_VOTE | {"reviewer": "a\nb"}, "$.reviewer"
                ),
                BadExample("a misspelled field", _MODEL_VOTE | {"model_c": "x"}, "$"),
            ),
            rules=(check_models_differ, check_reviewer_is_one_line),
        ),
    ),
)
