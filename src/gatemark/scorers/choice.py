r"""The letter of a multiple-choice answer, read by fixed rules.

The rules are tried in order, and the first that finds a letter decides:

1. ``whole``: the output is one letter, perhaps dressed: ``B``, ``(b)``, ``**B.**``;
2. ``stated``: ``answer is B``, ``Answer: (B)``, ``option B``, ``\boxed{B}``;
3. ``leading``: the output opens with a marked letter: ``B) because …``;
4. ``lone``: capital letters standing alone in the text, an article or pronoun left out.

When a rule finds two different letters the answer is ambiguous. An ambiguous or unreadable
answer is a wrong answer with a detail, not an unscored one: a model must not gain by mumbling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final

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

_DRESS: Final = " \t\r\n*_`\"'()[]{}.:,;!$"
_READ_LENGTH: Final = 20_000
_NEXT_WORD: Final = re.compile(r"[ \t]{1,3}[a-z]")


class ChoiceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    letters: Annotated[str, about("Letters of the choices.")] = "ABCD"

    def __post_init__(self) -> None:
        distinct = set(self.letters)
        if len(distinct) < 2 or len(distinct) != len(self.letters):
            raise InvalidValueError(
                f"letters must be two or more different ones, got {self.letters!r}"
            )
        if not re.fullmatch(r"[A-Z]+", self.letters):
            raise InvalidValueError(f"letters must be capitals from A to Z, got {self.letters!r}")


def _make_rules(letters: str) -> tuple[tuple[str, Callable[[str], list[str]]], ...]:
    either = f"[{letters}{letters.lower()}]"
    stated = re.compile(
        r"\b(?:answer|choice|option)(?:\s+is)?\s*[:=]?\s{0,3}"
        rf"[*_`\"'(\[{{]{{0,4}}(?:option\s+)?({either})(?![\w'’])"
        rf"|\\boxed\{{\s{{0,3}}(?:\\text\{{)?({either})\}}",
        re.IGNORECASE,
    )
    leading = re.compile(rf"\s{{0,3}}(?:[*_]{{0,2}}\(?({either})[).:][*_]{{0,2}}(?:\s|$))")
    lone = re.compile(rf"(?<![\w'’])([{letters}])(?![\w'’])")

    def find_whole(text: str) -> list[str]:
        bare = text.strip(_DRESS)
        return [bare] if len(bare) == 1 and bare.upper() in letters else []

    def find_said(text: str) -> list[str]:
        return [
            match.group(1) or match.group(2)
            for match in stated.finditer(text)
            if match.group(1) != "a" or not _is_start_of_phrase(text, match.end())
        ]

    def find_opened(text: str) -> list[str]:
        match = leading.match(text)
        return [match.group(1)] if match else []

    def find_alone(text: str) -> list[str]:
        return [
            match.group(1)
            for match in lone.finditer(text)
            if match.group(1) not in "AI" or not _is_start_of_phrase(text, match.end())
        ]

    return (
        ("whole", find_whole),
        ("stated", find_said),
        ("leading", find_opened),
        ("lone", find_alone),
    )


def _is_start_of_phrase(text: str, end: int) -> bool:
    """Return whether a letter is the article or pronoun of the following words."""
    return _NEXT_WORD.match(text, end) is not None


def _build(options: ChoiceOptions) -> ScoreFunction:
    rules = _make_rules(options.letters)

    def target_letter(text: str) -> str:
        letter = text.strip(_DRESS).upper()
        if len(letter) != 1 or letter not in options.letters:
            raise BadInputError(f"target must be one of {options.letters}, got {truncate(text)}")
        return letter

    def score(item: Scorable) -> Score:
        targets = {target_letter(text) for text in item.target_texts()}
        text = item.output_text()
        # A long answer states its letter first or last.
        if len(text) > 2 * _READ_LENGTH:
            text = f"{text[:_READ_LENGTH]}\n{text[-_READ_LENGTH:]}"
        for name, find in rules:
            letters = sorted({letter.upper() for letter in find(text)})
            if len(letters) > 1:
                return scored(0.0, why="ambiguous answer", rule=name, letters=" ".join(letters))
            if letters:
                return scored(letters[0] in targets, rule=name, letter=letters[0])
        return scored(0.0, why="no letter could be read from the output")

    return score


SCORER = Scorer(
    name="choice",
    summary="1 when the letter read from the output is the target's; unreadable counts as wrong.",
    options=ChoiceOptions,
    build=_build,
    known=(
        KnownScore("a bare letter", 1.0, "B", "b"),
        KnownScore("a dressed letter", 1.0, "B", "**(B).**"),
        KnownScore("stated", 1.0, "C", "So the answer is C."),
        KnownScore("boxed", 1.0, "D", "Thus $\\boxed{D}$"),
        KnownScore("leading", 1.0, "A", "A) it is red"),
        KnownScore("lone", 1.0, "C", "I would go with C here"),
        KnownScore("an article is not a letter", 1.0, "B", "A dog barks, so B"),
        KnownScore("a statement beats a mention", 1.0, "B", "A looks good but the answer is B"),
        KnownScore("two letters: wrong", 0.0, "A", "A or B"),
        KnownScore("mumbling is wrong", 0.0, "A", "hard to say"),
        KnownScore("wrong letter", 0.0, "A", "B"),
        KnownScore("a target that is no letter", None, "E", "A"),
    ),
)
