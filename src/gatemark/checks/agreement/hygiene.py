"""What is odd about the texts of a row: copied, private or long reasons, and inexact refusals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import UnsetType

from gatemark.evidence.look_alikes import FIRST_SIGNS, bare_text
from gatemark.evidence.personal_data import find_suspects, personal_data

Text = str | UnsetType | None
MIN_COPIED_WORDS: Final = 4
"""Shorter reasons, such as codes, are often equal by chance."""
_HEAD_CHARS: Final = 12
SLACK_CHARS: Final = 16
"""A claim with more characters beyond the token is not a variant of it."""


def find_odd_reasons(
    names: Sequence[str], sides: Mapping[str, Sequence[Text]], longest: int
) -> Iterator[tuple[str, str]]:
    """Yield the kind and the words of each reason with personal data or too many characters."""
    found = [
        (place, side)
        for side, (who, reasons) in enumerate(sides.items())
        for place in _find_doubtful([one or "" for one in reasons], longest)
    ]
    whose = list(sides)
    for place, side in sorted(found):
        who = whose[side]
        reason = sides[who][place] or ""
        if kinds := personal_data(reason):
            yield "personal_data", f"{names[place]} ({who}: {', '.join(kinds)})"
        if len(reason) > longest:
            yield "long_reason", f"{names[place]} ({who}: {len(reason)} characters)"


def _find_doubtful(reasons: Sequence[str], longest: int) -> Collection[int]:
    suspects = find_suspects(reasons)
    if max(map(len, reasons), default=0) <= longest:
        return suspects
    return {*suspects, *(place for place, one in enumerate(reasons) if len(one) > longest)}


def is_copied(one: Text, other: Text) -> bool:
    """Return whether both sides give one reason that is too long to be the same by chance."""
    if not one or not other:
        return False
    # Most reasons differ in their first letter, nearly all in the first words.
    first, second = FIRST_SIGNS.get(one[0]), FIRST_SIGNS.get(other[0])
    if first != second and first is not None and second is not None:
        return False
    if one != other and (
        _begin_apart(one, other) or bare_text(one, folds=True) != bare_text(other, folds=True)
    ):
        return False
    return max(map(_count_words, (one, other))) >= MIN_COPIED_WORDS


def _begin_apart(one: str, other: str) -> bool:
    heads = bare_text(one[:_HEAD_CHARS], folds=True), bare_text(other[:_HEAD_CHARS], folds=True)
    # The letters of a text are those of its parts in turn.
    return not heads[0].startswith(heads[1]) and not heads[1].startswith(heads[0])


class RefusalToken:
    """The only text of a refusal, and what looks like it but is not the exact text."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._words = _strip_punctuation(token)
        self._longest = len(token) + SLACK_CHARS
        # Most claims lack this word and need no closer check.
        self._rarest = max(self._words.split(), key=len, default="")

    def find_inexact(
        self, claims: Sequence[Text], refused: Collection[int], accepted: Collection[int]
    ) -> list[int]:
        """Return the places of refusals that are not the exact token, or that both sides accept.

        ``refused`` and ``accepted`` are the places that both sides refuse or accept.
        """
        found = {place for place in refused if (claim := claims[place]) and claim != self._token}
        found.update(
            place
            for place, claim in enumerate(claims)
            if claim
            and len(claim) <= self._longest
            and (place in accepted if claim == self._token else self._is_like(claim))
        )
        return sorted(found)

    def _is_like(self, claim: str) -> bool:
        """Return whether a claim is the token apart from case and punctuation."""
        return self._rarest in claim.casefold() and _strip_punctuation(claim) == self._words


def _strip_punctuation(text: str) -> str:
    """Return a text in lower case and without punctuation, for comparison."""
    return " ".join("".join(s if s.isalnum() else " " for s in text.casefold()).split())


_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{2}"
)
"""Two signs of a script that puts no blanks between words, which make about one word."""


def _count_words(text: str) -> int:
    return len(_strip_punctuation(_UNSPACED.sub(" w ", text)).split())
