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
    Scorer,
    scored,
    text_of,
    truncate,
    with_options,
)


class SetF1Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    separator: Annotated[str, about("Text between the members of a list.")] = ","
    ignore_case: Annotated[bool, about("Whether upper and lower case are the same.")] = True

    def __post_init__(self) -> None:
        if not self.separator:
            raise InvalidValueError("separator must not be empty")


def f1_score(overlap_count: int, found_count: int, expected_count: int) -> float:
    """Return the harmonic mean of precision and recall; 1 if both sets are empty."""
    if found_count + expected_count == 0:
        return 1.0
    return 2 * overlap_count / (found_count + expected_count)


def _split_items(value: object, subject: str, options: SetF1Options) -> frozenset[str]:
    items: Iterable[object] = (
        value if isinstance(value, (list, tuple)) else _split(value, subject, options.separator)
    )
    texts = (text_of(item, subject).strip() for item in items)
    return frozenset(text.casefold() if options.ignore_case else text for text in texts if text)


def _score(options: SetF1Options, item: Scorable) -> Score:
    expected = _split_items(item.target, "target", options)
    found = _split_items(item.output, "output", options)
    detail = {
        name: truncate(", ".join(sorted(rest)))
        for name, rest in (("missing", expected - found), ("extra", found - expected))
        if rest
    }
    return scored(f1_score(len(expected & found), len(found), len(expected)), **detail)


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
    build=with_options(_score),
    known=(
        KnownScore("same set", 1.0, ["a", "b"], "b, a"),
        KnownScore("2 of 3 found, 1 extra: P = R = 2/3", 2 / 3, ["a", "b", "c"], ["a", "b", "x"]),
        KnownScore("1 of 4 found and nothing else: P 1, R 1/4", 0.4, ["a", "b", "c", "d"], '["a"]'),
        KnownScore("repeats count once", 1.0, ["a"], "a, A, a"),
        KnownScore("nothing asked, nothing found", 1.0, [], ""),
        KnownScore("nothing asked, one found", 0.0, [], "a"),
        KnownScore("disjoint", 0.0, ["a"], ["b"]),
        KnownScore("no target", None, output="a"),
    ),
)
