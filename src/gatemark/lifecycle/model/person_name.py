"""Names of people: what can be one, and which two names a reader would take for the same."""

from __future__ import annotations

import unicodedata
from typing import Final

MAX_NAME: Final = 128
_ALPHABETS: Final = frozenset({"LATIN", "CYRILLIC", "GREEK"})
_LATIN_LOOKS: Final = str.maketrans(
    # Cyrillic, then Greek; small letters that are drawn like Latin ones.
    "аеорсухіјѕһԁԛԝкгαονρτυικχ",
    "aeopcyxijshdqwkraovptuikx",
)


def name_problem(name: str) -> str | None:
    """Why a text cannot name a person; None when it can."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"a name must have 1 to {MAX_NAME} characters, got {len(name)}"
    for letter in name:
        if letter.isspace() or not letter.isprintable():
            what = unicodedata.name(letter, f"U+{ord(letter):04X}")
            return f"the name {name!r} has a character that cannot be seen ({what})"
    if unicodedata.normalize("NFKC", name) != name:
        usual = unicodedata.normalize("NFKC", name)
        return f"the name {name!r} is written in an unusual form; the usual one is {usual!r}"
    alphabets = {unicodedata.name(letter, "").partition(" ")[0] for letter in name}
    mixed = sorted(alphabets & _ALPHABETS)
    if len(mixed) > 1:
        words = " and ".join(alphabet.capitalize() for alphabet in mixed)
        return f"the name {name!r} mixes {words} letters"
    return None


def look_of(name: str) -> str:
    """What a reader sees of a name: the same for names that differ in case or in alphabet alone."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_LATIN_LOOKS)
