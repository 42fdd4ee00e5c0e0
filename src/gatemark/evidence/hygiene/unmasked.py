"""Texts as a person would read them: without invisible signs, look-alike letters and encodings."""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import unquote

_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_ROUNDS: Final = 3
# Letters of other alphabets that look like Latin ones, and signs that look like those of paths.
_LOOK_ALIKES: Final = str.maketrans(
    "\u0430\u0435\u0456\u0458\u043a\u043c\u043e\u0440\u0441\u0501\u0455\u0443\u0445\u04bb"
    "\u051b\u051d\u0475\u04cf\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e"
    "\u0420\u0421\u0422\u0423\u0425"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03c7\u0391\u0392\u0395\u0396\u0397\u0399"
    "\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u2215\u2571\u29f8\u2216\u2024",
    "aeijkmopcdsyxhqwvlABESIJKMHOPCTYXaikvopuxABEZHIKMNOPTYX///\\.",
)
_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me"))


def unmasked(text: str) -> str:
    """The text with compatible forms made one, look-alikes made Latin, and escapes undone."""
    for _ in range(_ROUNDS):
        if not _ENCODED.search(text):
            break
        text = unquote(text, errors="replace")
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    seen = "".join(sign for sign in plain if unicodedata.category(sign) not in _INVISIBLE)
    return seen.translate(_LOOK_ALIKES)
