"""Whether a reply repeats the payload it was sent, in whole or in part."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MIN_CHARS: Final = 12
MIN_WORDS: Final = 3
WINDOW: Final = 32
WORDS_IN_A_ROW: Final = 4
_SPACES: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"\w+")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
MAX_DECODED: Final = 200
"""So many words of a reply are tried as hexadecimal digits and base 64."""


def repeats_payload(reply: Any, payload: Any) -> bool:
    """Whether a whole object, a longer text or several words in a row come back.

    Looks at the payload's values and at the reply's keys and values, ignores case, spacing and
    what stands between words, and reads hexadecimal digits and base 64 as well. Numbers, names of
    fields and lone words do not count: a service may well name those.
    """
    if isinstance(payload, dict | list) and payload and any(_same(reply, payload)):
        return True
    told = list(_texts(reply, keys=True))
    said = [_plain(text) for text in (*told, *_decoded(told))]
    sent = [text for text in map(_plain, _texts(payload, keys=False)) if _is_telling(text)]
    if not said or not sent:
        return False
    together = "\n".join(said)
    if any(piece in together for text in sent for piece in _pieces(text)):
        return True
    if any(len(text) >= WINDOW and text in source for text in said for source in sent):
        return True
    spelled = "\n".join(map(_words_only, said))
    return any(_words_only(phrase) in spelled for text in sent for phrase in _phrases(text))


def _is_telling(text: str) -> bool:
    """Shorter texts are too common to tell an echo from a coincidence."""
    return len(text) >= WINDOW or (len(text) >= MIN_CHARS and len(_words(text)) >= MIN_WORDS)


def _pieces(text: str) -> Iterator[str]:
    """What would give an echo of this text away."""
    if len(text) <= WINDOW:
        yield text
    for start in range(0, len(text) - WINDOW + 1, WINDOW):
        yield text[start : start + WINDOW]
    yield from _phrases(text)


def _phrases(text: str) -> Iterator[str]:
    """Every few words in a row."""
    words = _words(text)
    for first, last in zip(words, words[WORDS_IN_A_ROW - 1 :], strict=False):
        if last.end() - first.start() >= MIN_CHARS:
            yield text[first.start() : last.end()]


def _words_only(text: str) -> str:
    return _BETWEEN_WORDS.sub(" ", text).strip()


def _decoded(texts: list[str]) -> Iterator[str]:
    """What long words say when they are hexadecimal digits or base 64."""
    words = [word for text in texts for word in _ENCODED.findall(text)]
    for word in words[:MAX_DECODED]:
        for decode in (bytes.fromhex, _from_base64):
            try:
                yield decode(word).decode()
            except (ValueError, binascii.Error):
                continue


def _from_base64(word: str) -> bytes:
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def _words(text: str) -> list[re.Match[str]]:
    return list(_WORD.finditer(text))


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text).strip().lower()


def _same(value: Any, payload: Any) -> Iterator[bool]:
    yield value == payload
    for inner in _children(value):
        yield from _same(inner, payload)


def _texts(value: Any, *, keys: bool) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    if keys and isinstance(value, Mapping):
        yield from (key for key in value if isinstance(key, str))
    for inner in _children(value):
        yield from _texts(inner, keys=keys)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
