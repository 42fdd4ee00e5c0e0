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
    Scorer,
    scored,
    truncate,
    with_options,
)


class ContainsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; without ``phrases`` the target has them."""

    phrases: Annotated[tuple[str, ...], about("Phrases to look for. Default: the target.")] = ()
    mode: Annotated[Literal["any", "all"], about("Whether any or all of them must appear.")] = "any"
    ignore_case: Annotated[bool, about("Whether upper and lower case are the same.")] = True

    def __post_init__(self) -> None:
        if any(not phrase.strip() for phrase in self.phrases):
            raise InvalidValueError("phrases must not be empty: every output contains nothing")


def _score(options: ContainsOptions, item: Scorable) -> Score:
    fold = str.casefold if options.ignore_case else str
    phrases = options.phrases or _read_phrases(item)
    output = fold(item.output_text())
    missing = [phrase for phrase in phrases if fold(phrase) not in output]
    found = len(missing) < len(phrases) if options.mode == "any" else not missing
    return scored(found, missing=truncate(", ".join(missing))) if missing else scored(found)


def _read_phrases(item: Scorable) -> tuple[str, ...]:
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
    build=with_options(_score),
    needs_target=False,
    known=(
        KnownScore("in a sentence", 1.0, "Paris", "It is Paris."),
        KnownScore("any case", 1.0, "Paris", "it is PARIS"),
        KnownScore("case on request", 0.0, "Paris", "it is PARIS", options={"ignore_case": False}),
        KnownScore("any of two", 1.0, ["red", "blue"], "a blue one"),
        KnownScore("all of two", 0.0, ["red", "blue"], "a blue one", options={"mode": "all"}),
        KnownScore(
            "phrases of the suite",
            1.0,
            output="Please see a doctor.",
            options={"phrases": ["see a doctor"]},
        ),
        KnownScore("an empty phrase is no criterion", None, "", "x"),
        KnownScore("no phrases at all", None, output="x"),
    ),
)
