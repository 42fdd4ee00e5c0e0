"""A pattern that the output must match; matched in linear time, so no pattern can hang a run."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.scorers.regex.pattern import LinearPattern, compile_pattern
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)


class RegexOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; without ``pattern`` the target is the pattern."""

    pattern: Annotated[str | None, about("Regular expression. Default: the target.")] = None
    match: Annotated[
        Literal["search", "full"], about("Whether it must match somewhere or the whole output.")
    ] = "search"
    ignore_case: Annotated[bool, about("Whether upper and lower case are the same.")] = False
    multiline: Annotated[bool, about("Whether `^` and `$` match at every line.")] = False
    dotall: Annotated[bool, about("Whether `.` matches line breaks.")] = False


def _build(options: RegexOptions) -> ScoreFunction:
    def pattern_of(source: str) -> LinearPattern:
        return compile_pattern(
            source,
            ignore_case=options.ignore_case,
            multiline=options.multiline,
            dotall=options.dotall,
        )

    own = None if options.pattern is None else pattern_of(options.pattern)

    def score(item: Scorable) -> Score:
        if own is None and item.target is None:
            raise BadInputError("regex needs a pattern in its options or a target, got neither")
        patterns = [own] if own else [pattern_of(source) for source in item.target_texts()]
        output = item.output_text()
        for pattern in patterns:
            if pattern.search(output) if options.match == "search" else pattern.fullmatch(output):
                return scored(1.0, matched=truncate(pattern.pattern))
        return scored(0.0)

    return score


SCORER = Scorer(
    name="regex",
    summary="1 when the output matches the pattern (from the options or the target), else 0.",
    options=RegexOptions,
    build=_build,
    needs_target=False,
    known=(
        KnownScore(
            "search", 1.0, output="ticket ABC-123 opened", options={"pattern": r"\b[A-Z]{3}-\d+\b"}
        ),
        KnownScore(
            "full match wants all of it",
            0.0,
            output="ticket ABC-123",
            options={"pattern": r"[A-Z]{3}-\d+", "match": "full"},
        ),
        KnownScore("the target as pattern", 1.0, "colou?r", "a color"),
        KnownScore(
            "case is an option",
            1.0,
            output="YES",
            options={"pattern": "^yes$", "ignore_case": True},
        ),
        KnownScore(
            "a pattern that hangs a backtracking engine",
            0.0,
            output="a" * 5_000 + "!",
            options={"pattern": "^(a+)+$"},
        ),
        KnownScore("backreferences are refused", None, r"(a)\1", "aa"),
        KnownScore("no pattern at all", None, output="x"),
    ),
)
