"""One blind vote between candidate and baseline: `gatemark.vote/1`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.record import BadExample, Form, Problem, RecordSchema
from gatemark.core.text import is_one_line

NAME: Final = "gatemark.vote/1"

Name = Annotated[str, Meta(pattern=r"\S", max_length=512)]


class Vote(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What one reviewer preferred for one item, and which answer was shown first."""

    item: Name
    reviewer: Name
    choice: Literal["candidate", "baseline", "tie"]
    first: Literal["candidate", "baseline"]
    schema: Literal["gatemark.vote/1"] | UnsetType = UNSET


def reviewer_is_one_line(vote: Vote) -> list[Problem]:
    """A reviewer is named like an item: in one line."""
    if is_one_line(vote.reviewer):
        return []
    return [Problem("$.reviewer", f"{vote.reviewer!r} has a control character")]


_VOTE: Final = {
    "item": "letter-07",
    "reviewer": "r2",
    "choice": "candidate",
    "first": "baseline",
}

SCHEMA: Final = RecordSchema(
    name=NAME,
    summary="One reviewer's blind choice between the candidate's and the baseline's answer.",
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
            rules=(reviewer_is_one_line,),
        ),
    ),
)
