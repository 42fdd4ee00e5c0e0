"""Letters that look like others: read a text as the eye does."""

from __future__ import annotations

import re
import string
import unicodedata
from typing import Final
from urllib.parse import unquote

LATIN_LOOKS: Final[dict[int, int | str]] = {
    # Cyrillic.
    **str.maketrans(
        "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0433"
        "\u0455\u0456\u0458\u0475\u04cf\u0501\u050d\u051b\u051d",
        "abekmhopctyxrsijvldgqw",
    ),
    **str.maketrans(
        "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
        "\u0405\u0406\u0408\u0474\u04c0\u0500\u050c\u051a\u051c",
        "ABEKMHOPCTYXSIJVLDGQW",
    ),
    # Greek.
    **str.maketrans(
        "\u03b1\u03b2\u03b3\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7",
        "abyezhikmvoptux",
    ),
    **str.maketrans(
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
        "ABEZHIKMNOPTYX",
    ),
    # Armenian.
    **str.maketrans("\u0570\u0578\u057d\u0581\u0585\u054d\u0555", "hnugoUO"),
    # Dashes and quotation marks.
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2043, 0x2212), "-"),
    **dict.fromkeys((0x2018, 0x2019, 0x201B, 0x2032), "'"),
}
"""Signs of other alphabets that look like a Latin one.

No two small letters of one alphabet look like the same Latin letter here, so that two words of one
language stay two words. Letters with a dot or stroke more or less are letters of their own.
"""
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_ROUNDS: Final = 3
# Signs that look like those of paths.
_LOOK_ALIKES: Final = {
    **LATIN_LOOKS,
    **str.maketrans("\u2215\u2571\u29f8\u2216\u2024", "///\\."),
}
_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me"))


def is_hidden(sign: str) -> bool:
    """Return whether a sign takes no place on the screen; it can carry what nobody sees."""
    return unicodedata.category(sign) in ("Cf", "Co", "Cn")


def unmasked(text: str) -> str:
    """Return a text with compatible forms, look-alike letters and escapes normalised."""
    for _ in range(_ROUNDS):
        if not _ENCODED.search(text):
            break
        text = unquote(text, errors="replace")
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    seen = "".join(sign for sign in plain if unicodedata.category(sign) not in _INVISIBLE)
    return seen.translate(_LOOK_ALIKES)


FIRST_SIGNS: Final = {sign: sign.lower() for sign in string.ascii_letters + string.digits}
_SMALL: Final = bytes(range(256)).lower()
_NO_LETTERS: Final = bytes(code for code in range(128) if not chr(code).isalnum())


_FOLDED: Final = {
    **LATIN_LOOKS,
    **str.maketrans(
        "\u04bb\u04ba\u044c\u04af\u04ae\u03c2\u03c3\u03c9"
        "\u0131\u0251\u0261\u0269\u0142\u0141\u00f8\u00d8\u0111\u0110\u0127\u0126\u0167\u0166",
        "hHbyYcowiagilLoOdDhHtT",
    ),
}
"""With letters that differ in a stroke or a dot: in a sentence, that is as good as an accent."""


def bare_text(text: str, *, folds: bool) -> str:
    """Return a text's letters and digits in one case, without marks and blanks.

    With ``folds``, letters with accents and letters of other alphabets are the Latin ones that they
    look like.
    """
    if text.isascii():
        return text.encode().translate(_SMALL, _NO_LETTERS).decode()
    if folds:
        plain = unicodedata.normalize("NFKD", text).translate(_FOLDED)
    else:
        plain = unicodedata.normalize("NFKC", text)
    return "".join(filter(str.isalnum, plain.casefold()))
