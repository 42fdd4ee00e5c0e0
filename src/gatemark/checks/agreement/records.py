"""``gatemark.pair/1``: what two independent validators said about one answer.

Two forms: ``pair`` holds both judgements of a question in one record, ``judgement`` holds one
validator's; two files of judgements are joined by ``qid``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema

Label = Literal["VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN"]
ABSTAIN = "ABSTAIN"
SCHOLAR, AUDITOR = "scholar", "auditor"
QuestionId = Annotated[str, Meta(min_length=1, max_length=512)]


class JudgedAnswer(Struct, frozen=True, gc=False):
    """The answer that was judged. Further keys are allowed and not checked."""

    claim: str | UnsetType | None = UNSET
    citations: list[str] | UnsetType | None = UNSET
    constraints_echo: list[str] | UnsetType | None = UNSET


def _answer_properties() -> dict[str, object]:
    _, parts = msgspec.json.schema_components([JudgedAnswer])
    return {
        name: {key: value for key, value in described.items() if key != "default"}
        for name, described in parts[JudgedAnswer.__name__]["properties"].items()
    }


# Two judgements are about the same answer only if all keys are equal, further ones included.
WholeAnswer = Annotated[
    dict[str, Any], Meta(extra_json_schema={"properties": _answer_properties()})
]


class RedFlags(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Hard red flags; a true flag forces a rejection."""

    provenance_violation: bool | UnsetType = UNSET
    constraints_mismatch: bool | UnsetType = UNSET


class Opinion(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One validator's label and the reason given for it.

    Where the validator was asked several times, ``votes`` has every label it gave; ``label`` must
    be the one that most votes have. ``seed`` is the seed of the model.
    """

    label: Label
    reason: str | UnsetType = UNSET
    votes: list[Label] | UnsetType = UNSET
    seed: int | UnsetType = UNSET


class JudgementPair(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Both opinions on one question, with what they were about."""

    qid: QuestionId
    scholar: Opinion
    auditor: Opinion
    answer_json: JudgedAnswer | UnsetType | None = UNSET
    retrieved_ids: list[str] | UnsetType | None = UNSET
    flags: RedFlags | UnsetType = UNSET
    schema: Literal["gatemark.pair/1"] | UnsetType = UNSET


class Judgement(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One validator's opinion on one question, with what it was about."""

    qid: QuestionId
    label: Label
    reason: str | UnsetType = UNSET
    answer_json: WholeAnswer | UnsetType | None = UNSET
    retrieved_ids: list[str] | UnsetType | None = UNSET
    flags: RedFlags | UnsetType = UNSET
    schema: Literal["gatemark.pair/1"] | UnsetType = UNSET
    votes: list[Label] | UnsetType = UNSET
    seed: int | UnsetType = UNSET


class Grounds(Struct, frozen=True, gc=False):
    """What a judgement is about: the answer, the passages and the flags.

    Of the answer, only what arbitration reads is kept, and a digest of the whole.
    """

    answer_json: JudgedAnswer | UnsetType | None = UNSET
    answer_digest: bytes | UnsetType | None = UNSET
    retrieved_ids: list[str] | UnsetType | None = UNSET
    flags: RedFlags | UnsetType = UNSET


def are_answers_typed(records: Sequence[Judgement]) -> bool:
    """Return whether the known keys of all answers have their types."""
    try:
        msgspec.convert([one.answer_json for one in records if one.answer_json], list[JudgedAnswer])
    except msgspec.ValidationError:
        return False
    return True


def answer_is_one(record: Judgement) -> Sequence[Problem]:
    """Check the types of the answer's known keys."""
    if not record.answer_json:
        return ()
    try:
        msgspec.convert(record.answer_json, JudgedAnswer)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        return (Problem(path.strip("`").replace("$", "$.answer_json", 1), message),)
    return ()


_VALID = {"label": "VALID", "reason": "the claim is in the passage"}
_PAIR: dict[str, object] = {"qid": "Q", "scholar": _VALID, "auditor": _VALID}

SCHEMA = RecordSchema(
    name="gatemark.pair/1",
    summary="What two independent validators said about one answer.",
    forms=(
        Form(
            name="pair",
            type=JudgementPair,
            marks=frozenset({"qid", "scholar", "auditor"}),
            identity="qid",
            good=(
                {"qid": "Q1", "scholar": {"label": "VALID"}, "auditor": {"label": "ABSTAIN"}},
                {
                    "schema": "gatemark.pair/1",
                    "qid": "Q2",
                    "scholar": _VALID,
                    "auditor": {"label": "REJECT", "reason": "cites a passage nobody retrieved"},
                    "answer_json": {"claim": "Tea is served at four.", "citations": ["s1#2"]},
                    "retrieved_ids": ["s1#1"],
                    "flags": {"provenance_violation": True, "constraints_mismatch": False},
                },
                {
                    "qid": "Q3",
                    "scholar": {"label": "NOT_IN_CONTEXT"},
                    "auditor": {"label": "NOT_IN_CONTEXT"},
                    "answer_json": None,
                    "retrieved_ids": None,
                },
                {
                    "qid": "Q4",
                    "scholar": {"label": "VALID", "votes": ["VALID", "REJECT", "VALID"], "seed": 7},
                    "auditor": {"label": "VALID"},
                    "answer_json": {"claim": "Tea is served at four.", "citations": None},
                },
            ),
            bad=(
                BadExample("no qid", {"scholar": _VALID, "auditor": _VALID}, "$"),
                BadExample("integer id", _PAIR | {"qid": 7}, "$.qid"),
                BadExample("tab in an id", _PAIR | {"qid": "a\tb"}, "$.qid"),
                BadExample("empty id", _PAIR | {"qid": ""}, "$.qid"),
                BadExample(
                    "label in small letters",
                    _PAIR | {"scholar": {"label": "valid"}},
                    "$.scholar.label",
                ),
                BadExample("flags null", _PAIR | {"flags": None}, "$.flags"),
                BadExample("a flag nobody knows", _PAIR | {"flags": {"other": True}}, "$.flags"),
                BadExample(
                    "citations not a list",
                    _PAIR | {"answer_json": {"citations": "s1"}},
                    "$.answer_json.citations",
                ),
                BadExample("a key nobody knows", _PAIR | {"verdict": "ok"}, "$"),
            ),
        ),
        Form(
            name="judgement",
            type=Judgement,
            marks=frozenset({"qid", "label"}),
            identity="qid",
            good=(
                {"qid": "Q1", "label": "VALID"},
                {
                    "qid": "Q2",
                    "label": "REJECT",
                    "reason": "echo differs from the constraint",
                    "flags": {"constraints_mismatch": True},
                    "retrieved_ids": ["s1#1", "s1#2"],
                    "answer_json": {"citations": []},
                },
            ),
            bad=(
                BadExample("no label", {"qid": "Q", "reason": "forgot"}, "$"),
                BadExample("a label nobody knows", {"qid": "Q", "label": "MAYBE"}, "$.label"),
                BadExample("a label with a space", {"qid": "Q", "label": "VALID "}, "$.label"),
                BadExample(
                    "citations not a list",
                    {"qid": "Q", "label": "VALID", "answer_json": {"citations": "s1"}},
                    "$.answer_json.citations",
                ),
            ),
            rules=(answer_is_one,),
            proof=are_answers_typed,
        ),
    ),
)
