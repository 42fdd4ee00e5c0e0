"""Overlap of two sets of items: precision, recall and their harmonic mean."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    text_of,
    truncate,
)


class SetF1Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    separator: Annotated[str, about("Text between the members of a list.")] = ","
    ignore_case: Annotated[bool, about("Whether upper and lower case are the same.")] = True

    def __post_init__(self) -> None:
        if not self.separator:
            raise InvalidValueError("separator must not be empty")


def f1(overlap_count: int, found_count: int, expected_count: int) -> float:
    """Return the harmonic mean of precision and recall; 1 if both sets are empty."""
    if found_count + expected_count == 0:
        return 1.0
    return 2 * overlap_count / (found_count + expected_count)


def _build(options: SetF1Options) -> ScoreFunction:
    def items_of(value: object, subject: str) -> frozenset[str]:
        items: Iterable[object] = (
            value if isinstance(value, (list, tuple)) else _split(value, subject, options.separator)
        )
        texts = (text_of(item, subject).strip() for item in items)
        return frozenset(text.casefold() if options.ignore_case else text for text in texts if text)

    def score(item: Scorable) -> Score:
        expected = items_of(item.target, "target")
        found = items_of(item.output, "output")
        overlap = expected & found
        detail = {
            name: truncate(", ".join(sorted(rest)))
            for name, rest in (("missing", expected - found), ("extra", found - expected))
            if rest
        }
        return scored(f1(len(overlap), len(found), len(expected)), **detail)

    return score


def _split(value: object, subject: str, separator: str) -> list[object]:
    """Return the items of a text: a JSON list, or parts between separators and line ends."""
    text = text_of(value, subject)
    if text.lstrip().startswith("["):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            return parsed
    return [piece for line in text.splitlines() for piece in line.split(separator)]


SCORER = Scorer(
    name="set_f1",
    summary="F1 of the output's items against the target's: lists, JSON lists or separated text.",
    options=SetF1Options,
    build=_build,
    known=(
        KnownScore(title="same set", target=["a", "b"], output="b, a", expected=1.0),
        KnownScore(
            title="2 of 3 found, 1 extra: P = R = 2/3",
            target=["a", "b", "c"],
            output=["a", "b", "x"],
            expected=2 / 3,
        ),
        KnownScore(
            title="1 of 4 found and nothing else: P 1, R 1/4",
            target=["a", "b", "c", "d"],
            output='["a"]',
            expected=0.4,
        ),
        KnownScore(title="repeats count once", target=["a"], output="a, A, a", expected=1.0),
        KnownScore(title="nothing asked, nothing found", target=[], output="", expected=1.0),
        KnownScore(title="nothing asked, one found", target=[], output="a", expected=0.0),
        KnownScore(title="disjoint", target=["a"], output=["b"], expected=0.0),
        KnownScore(title="no target", output="a", expected=None),
    ),
)
