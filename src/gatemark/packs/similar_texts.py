"""Whether two texts are the same question or target, however they are written or wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_TELLING_LENGTH: Final = 8


def is_rendering(given: object, asked: Iterable[object]) -> bool:
    """Whether an input holds one that was asked: prompts, messages and variables wrap it."""
    if given in asked:
        return True
    text = "".join(_split_words(given))
    for each in asked:
        parts = _split_words(each)
        long = [part for part in parts if len(part) >= _TELLING_LENGTH] or parts[:1]
        if not long or any(part in text for part in long):
            return True
    return False


def is_same_target(given: object, known: Iterable[object]) -> bool:
    """Whether a target is one of those known, but for case, spaces and what is around its texts."""
    words = _split_words(given)
    return any(
        given == each or "".join(words) == "".join(parts) or not {*words}.isdisjoint(parts)
        for each in known
        for parts in (_split_words(each),)
    )


def _split_words(value: object) -> list[str]:
    """Return the letters and digits of each text in a value, longest text first."""
    if isinstance(value, Mapping):
        value = [part for name, part in value.items() if name != "role"]
    if isinstance(value, list | tuple):
        return sorted(
            (part for each in value for part in _split_words(each)), key=len, reverse=True
        )
    text = "" if value is None else _BETWEEN_WORDS.sub("", str(value)).casefold()
    return [text] if text else []
