"""Phrases that must occur in the output."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)


class ContainsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; without ``phrases`` the target has them."""

    phrases: Annotated[tuple[str, ...], about("Phrases to look for. Default: the target.")] = ()
    mode: Annotated[Literal["any", "all"], about("Whether any or all of them must appear.")] = "any"
    ignore_case: Annotated[bool, about("Whether upper and lower case are the same.")] = True

    def __post_init__(self) -> None:
        if any(not phrase.strip() for phrase in self.phrases):
            raise InvalidValueError("phrases must not be empty: every output contains nothing")


def _build(options: ContainsOptions) -> ScoreFunction:
    def folded(text: str) -> str:
        return text.casefold() if options.ignore_case else text

    def score(item: Scorable) -> Score:
        phrases = options.phrases or _from_target(item)
        output = folded(item.output_text())
        missing = [phrase for phrase in phrases if folded(phrase) not in output]
        found = len(missing) < len(phrases) if options.mode == "any" else not missing
        return scored(found, missing=truncate(", ".join(missing))) if missing else scored(found)

    return score


def _from_target(item: Scorable) -> tuple[str, ...]:
    if item.target is None:
        raise BadInputError("contains needs phrases in its options or a target, got neither")
    phrases = item.target_texts()
    if any(not phrase.strip() for phrase in phrases):
        raise BadInputError("target must not hold an empty phrase: every output contains nothing")
    return phrases


SCORER = Scorer(
    name="contains",
    summary="1 when any (or all) of the phrases occur in the output, else 0.",
    options=ContainsOptions,
    build=_build,
    needs_target=False,
    known=(
        KnownScore(title="in a sentence", target="Paris", output="It is Paris.", expected=1.0),
        KnownScore(title="any case", target="Paris", output="it is PARIS", expected=1.0),
        KnownScore(
            title="case on request",
            target="Paris",
            output="it is PARIS",
            options={"ignore_case": False},
            expected=0.0,
        ),
        KnownScore(title="any of two", target=["red", "blue"], output="a blue one", expected=1.0),
        KnownScore(
            title="all of two",
            target=["red", "blue"],
            output="a blue one",
            options={"mode": "all"},
            expected=0.0,
        ),
        KnownScore(
            title="phrases of the suite",
            output="Please see a doctor.",
            options={"phrases": ["see a doctor"]},
            expected=1.0,
        ),
        KnownScore(title="an empty phrase is no criterion", target="", output="x", expected=None),
        KnownScore(title="no phrases at all", output="x", expected=None),
    ),
)
