"""Whether a higher score is better: by what somebody stated, the tool, its labels, or the name.

Comparing a score the wrong way round turns a fall into a rise, so a direction that nothing tells is
unknown, and a graded score without a direction cannot be judged. A score of 0 or 1 that nobody
knows counts as right at 1, unless its name is one of those that mean either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatemark.core.reason import Reason, ReasonKind
from gatemark.samples.records import SampleOrigin

Better = Literal["higher", "lower"]
"""Which scores are the better ones."""

_TABLE: Final = Path(__file__).with_name("score_directions.csv")
"""Common names. Some mean either, as people want: even their 0 and 1 need it stated."""
_BETTER: Final[dict[str, Better | Literal["either"]]] = {
    "higher": "higher",
    "lower": "lower",
    "either": "either",
}
STATED: Final = "stated"
ONLY_ZERO_AND_ONE: Final = "1 counts as right"
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TAG: Final = re.compile(r"\s*[\[(][^\])]*[\])]\s*$")
_EDGES: Final = frozenset(("mean", "avg", "average", "metric", "value"))
_HARM: Final = frozenset(("asr", "fails", "injection", "jailbroken", "pii", "rude", "secret"))
"""Words of harm that are no names of scores by themselves."""
_SUFFIX: Final = frozenset(("rate", "frac", "fraction", "share", "ratio", "percent", "pct"))

UNKNOWN_DIRECTION: Final = ReasonKind(
    "unknown_score_direction", "whether a higher {score} is better is not known; {remedy}"
)
DIRECTION_CLASH: Final = ReasonKind(
    "score_direction_clash",
    "whether a higher {score} is better is contradictory: {one}, but {other}; {remedy}",
)


class Direction(msgspec.Struct, frozen=True):
    """Which scores are better, and who says so; None if nothing does or if sources clash."""

    better: Better | None
    source: str | None = None
    clash: tuple[str, str] | None = None
    despite: str | None = None
    """What says the opposite of a stated direction."""

    def explain_unknown(self, score: str, remedy: str) -> Reason | None:
        """Return why the direction is not known, or None if it is."""
        if self.better is not None:
            return None
        if self.clash is not None:
            one, other = self.clash
            return DIRECTION_CLASH(score=score, one=one, other=other, remedy=remedy)
        return UNKNOWN_DIRECTION(score=score, remedy=remedy)

    @property
    def is_lower(self) -> bool:
        """Whether lower scores are better."""
        return self.better == "lower"


class DirectionClues:
    """What some samples say about one score.

    ``lower`` and ``higher`` are the tools that state a direction; ``passed`` and ``failed`` the
    ends of the scores with such a label; ``is_graded`` means that not all scores are 0 or 1.
    """

    def __init__(self) -> None:
        self.lower: set[str] = set()
        self.higher: set[str] = set()
        self.passed: list[float] = []
        self.failed: list[float] = []
        self.is_graded = False

    def ask_tools(self, score: str, origins: Iterable[SampleOrigin]) -> None:
        """Add the tools that state a direction of the score."""
        for origin in origins:
            if score in origin.lower_is_better:
                self.lower.add(origin.tool)
            if score in origin.higher_is_better:
                self.higher.add(origin.tool)

    def add_score(self, value: float, passed: bool | None = None) -> None:
        """Add one score, and the verdict that stands beside it in the log, if one does."""
        self.is_graded = self.is_graded or value not in (0, 1)
        if passed is not None:
            (self.passed if passed else self.failed).append(value)


@lru_cache(maxsize=1024)
def direction_of_name(name: str) -> Better | Literal["either"] | None:
    """Return the direction of a common name, whatever its spelling; None for any other name.

    ``exact_match/strict`` and ``squad/f1`` have parts; the parts that are known must agree, and no
    word of the others may mean the opposite. A word of harm makes any other name mean either:
    ``is_toxic`` and ``no_leak`` look alike, and only people know.
    """
    whole = _look_up(name)
    if whole is None and "/" in name:
        known = {part: found for part in name.split("/") if (found := _look_up(part)) is not None}
        others = [part for part in name.split("/") if part not in known]
        if len(set(known.values())) == 1 and not any(map(_has_doubtful_word, others)):
            whole = next(iter(known.values()))
    return "either" if whole is None and _has_doubtful_word(name) else whole


def _has_doubtful_word(name: str) -> bool:
    return any(
        _look_up(word.lower()) in ("lower", "either") or word.lower() in _HARM
        for word in _WORD.findall(name)
    )


def find_direction(name: str, clues: DirectionClues, stated: Better | None = None) -> Direction:
    """Return the direction of a score from the best source that tells it.

    What a person states is taken. Otherwise the tool, its labels and the name must not contradict
    each other: the first two know the score, and the name only what others call so.
    """
    if stated is not None:
        found = find_direction(name, clues)
        is_other = found.better not in (None, stated) and found.source != ONLY_ZERO_AND_ONE
        return Direction(stated, STATED, despite=found.source if is_other else None)
    told = [*_ask_tools(clues), *_ask_labels(clues)]
    for better, source in told[1:]:
        if better != told[0][0]:
            return Direction(None, clash=(told[0][1], source))
    if told:
        return Direction(*told[0])
    by_name = direction_of_name(name)
    if by_name == "either":
        return Direction(None)
    if by_name is not None:
        return Direction(by_name, f"{name} is a common name")
    return Direction(None) if clues.is_graded else Direction("higher", ONLY_ZERO_AND_ONE)


def _ask_tools(clues: DirectionClues) -> list[tuple[Better, str]]:
    lower: list[tuple[Better, str]] = [
        ("lower", f"{tool} says that lower is better") for tool in sorted(clues.lower)
    ]
    return lower + [
        ("higher", f"{tool} says that higher is better") for tool in sorted(clues.higher)
    ]


def _ask_labels(clues: DirectionClues) -> list[tuple[Better, str]]:
    """Return the side on which scores pass, if labels and numbers are cleanly apart."""
    if not clues.passed or not clues.failed:
        return []
    if max(clues.passed) < min(clues.failed):
        return [("lower", "the labels pass low scores and fail high ones")]
    if max(clues.failed) < min(clues.passed):
        return [("higher", "the labels pass high scores and fail low ones")]
    return []


def _look_up(name: str) -> Better | Literal["either"] | None:
    known = _read_table()
    words = [word.lower() for word in _WORD.findall(_TAG.sub("", name))]
    for candidate in _spellings(words):
        if candidate in known:
            return known[candidate]
    return None


@cache
def _read_table() -> dict[str, Better | Literal["either"]]:
    rows = _TABLE.read_text(encoding="ascii").split()[1:]
    return {name: _BETTER[word] for name, word in (row.split(",") for row in rows)}


def _spellings(words: list[str]) -> Iterable[str]:
    """Yield the name as written, then without its numbers and the words of aggregates."""
    yield "_".join(words)
    yield "".join(words)
    bare = [word for word in words if not word.isdigit() and word not in _EDGES]
    while bare and bare[-1] in ("at", "k"):
        bare = bare[:-1]
    yield "_".join(bare)
    if len(bare) > 1 and bare[-1] in _SUFFIX:
        yield "_".join(bare[:-1])


class Orientation(msgspec.Struct, frozen=True):
    """Scores turned so that higher is better, and back: ``at`` minus the score where lower is."""

    direction: Direction
    at: float | None = None

    @classmethod
    def of(cls, direction: Direction, scores: Iterable[float]) -> Orientation:
        """Return how to turn scores: inside [0, 1] by 1 minus the score, others by their sign."""
        if not direction.is_lower:
            return cls(direction)
        return cls(direction, 1.0 if all(0 <= score <= 1 for score in scores) else 0.0)

    def turn(self, score: float) -> float:
        """Return a score as judged, or a judged one as the log has it."""
        return score if self.at is None else self.at - score

    def turn_change(self, change: float) -> float:
        """Return a difference of scores turned round, or as it is."""
        return change if self.at is None else 0.0 - change

    def turn_interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval of a difference, turned round or as they are."""
        return (low, high) if self.at is None else (self.turn_change(high), self.turn_change(low))
