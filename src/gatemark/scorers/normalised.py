"""Equal to the target after both are normalised."""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Annotated, Final

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    scored,
    text_of,
    truncate,
    with_options,
)

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)
_ASCII_PUNCTUATION: Final = frozenset(string.punctuation)


class NormalisedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What normalisation removes: each switch drops one kind of difference."""

    compatibility: Annotated[
        bool, about("Whether forms of the same character are the same (NFKC).")
    ] = True
    case: Annotated[bool, about("Whether upper and lower case are the same.")] = True
    punctuation: Annotated[bool, about("Whether punctuation is ignored.")] = True
    articles: Annotated[bool, about("Whether English articles are ignored.")] = False
    whitespace: Annotated[bool, about("Whether runs of blanks are one blank.")] = True


def normalise(text: str, options: NormalisedOptions) -> str:
    """Return the normalised text.

    Punctuation is every character of a Unicode P category and ASCII punctuation, removed and not
    replaced, so ``U.S.`` becomes ``US``; articles are the English ones.
    """
    if options.compatibility:
        # One character may become eighteen.
        text = text_of(unicodedata.normalize("NFKC", text), "text in its NFKC form")
    if options.case:
        text = text.casefold()
    if options.punctuation:
        text = "".join(character for character in text if not _is_punctuation(character))
    if options.articles:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.split()) if options.whitespace else text


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P")


def _score(options: NormalisedOptions, item: Scorable) -> Score:
    output = normalise(item.output_text(), options)
    targets = [normalise(target, options) for target in item.target_texts()]
    return scored(output in targets, output=truncate(output))


SCORER = Scorer(
    name="normalised",
    summary=(
        "1 when output and target are equal after NFKC, case folding, and dropping punctuation, "
        "extra whitespace and (on request) English articles."
    ),
    options=NormalisedOptions,
    build=with_options(_score),
    known=(
        KnownScore("case and full stop", 1.0, "paris", "Paris."),
        KnownScore("German sharp s", 1.0, "STRASSE", "straße"),
        KnownScore("full-width digits", 1.0, "42", "４２"),
        KnownScore("inner whitespace", 1.0, "New York", "new\n  york"),
        KnownScore("articles stay", 0.0, "cat", "the cat"),
        KnownScore("articles go", 1.0, "cat", "The cat", options={"articles": True}),
        KnownScore("case kept on request", 0.0, "paris", "Paris", options={"case": False}),
        KnownScore("no target", None, output="x"),
    ),
)
