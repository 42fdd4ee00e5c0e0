"""Find what must not be recorded from a reply: parts of the payload, and secrets.

A reply is checked as a whole. Its texts are also checked joined, reversed and decoded, because a
payload can be split over reasons, spelled backwards, or sent as hexadecimal digits, base 64 or
character codes. A leak names the field of the reply, never the content.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Final, NamedTuple

from gatemark.evidence.look_alikes import unmasked
from gatemark.evidence.private_text import PrivateTextRules, PrivateTextScan

PAYLOAD: Final = "payload"
OTHER_FIELD: Final = "other"
CODE_FIELDS: Final = ("reasons", "evidence_refs", "fallback")
FIELDS: Final = frozenset(
    (
        *CODE_FIELDS,
        *("label", "severity", "confidence", "model", "model_digest", "device", "precision"),
        *("authority", "authority_flags", "actions", "allowed_actions", "actual_action", "notes"),
    )
)
"""The fields of a reply that a leak may name; any other key could be part of the payload."""
MIN_CHARS: Final = 12
MIN_WORDS: Final = 3
ECHO_WINDOW: Final = 32
WORDS_IN_A_ROW: Final = 4
WORDS_IN_ORDER: Final = 5
WORD_CHARS: Final = 4
SQUEEZED: Final = 15
SCANNED_CHARS: Final = 64 * 1024
MAX_DECODED: Final = 200
"""Maximum number of words of a reply that are decoded as hexadecimal digits and base 64."""
_SPACES: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"\w+")
_PLAIN_WORD: Final = re.compile(r"[^\W_]+")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
_HEX_RUN: Final = re.compile(r"[0-9a-fA-F]{6,}")
_CODES: Final = re.compile(r"\d{2,3}")
_NOT_PRIVATE: Final = frozenset(("over_long", "excerpt", "embedded_json"))


class Leak(NamedTuple):
    """The kind of leaked content, and the field of the reply that has it."""

    kind: str
    field: str

    @property
    def code(self) -> str:
        """The leak as a note of a record."""
        if self.kind == PAYLOAD:
            return f"reply_repeats_payload:{self.field}"
        return f"reply_leaks:{self.kind}:{self.field}"


@cache
def _get_scan() -> PrivateTextScan:
    return PrivateTextScan(PrivateTextRules())


def find_leaks(reply: object, payload: object, kept: Mapping[str, Sequence[str]]) -> list[Leak]:
    """Return what leaks from a reply; ``kept`` are the texts that would be written, by field."""
    sent = SentTexts(payload)
    found: dict[Leak, None] = {}
    for field, value in _split_fields(reply):
        if sent.is_repeated_in(value):
            found[Leak(PAYLOAD, field)] = None
        for kind in _find_private_kinds(value):
            found[Leak(kind, field)] = None
    if not any(leak.kind == PAYLOAD for leak in found) and sent.is_repeated_in(reply):
        found[Leak(PAYLOAD, OTHER_FIELD)] = None
    for field, texts in kept.items():
        given = list(_walk_texts(reply.get(field), keys=True)) if isinstance(reply, Mapping) else []
        if sent.is_spread_over(texts) or sent.is_spread_over(given[:MAX_DECODED]):
            found[Leak(PAYLOAD, field)] = None
        for kind in _find_private_kinds("".join(texts)):
            found[Leak(kind, field)] = None
    everything = [text for texts in kept.values() for text in texts]
    if not any(leak.kind == PAYLOAD for leak in found) and sent.is_spread_over(everything):
        found[Leak(PAYLOAD, OTHER_FIELD)] = None
    return sorted(found)


def _split_fields(reply: object) -> Iterator[tuple[str, object]]:
    """Yield the known fields of a reply, and everything else together."""
    if not isinstance(reply, Mapping):
        yield OTHER_FIELD, reply
        return
    yield from ((name, value) for name, value in reply.items() if name in FIELDS)
    yield OTHER_FIELD, {name: value for name, value in reply.items() if name not in FIELDS}


def _find_private_kinds(value: object) -> Iterator[str]:
    texts = [text[:SCANNED_CHARS] for text in _walk_texts(value, keys=True)]
    for text in texts:
        yield from (kind for kind in _get_scan().kinds(text) if kind not in _NOT_PRIVATE)


class SentTexts:
    """The texts of a payload, prepared for searching.

    Numbers, field names and single words do not count: a service may name those legitimately.
    """

    def __init__(self, payload: object) -> None:
        self._payload = payload if isinstance(payload, dict | list) and payload else None
        values = [_normalize(text) for text in _walk_texts(payload, keys=False)]
        forms = dict.fromkeys((*values, *(_normalize(unmasked(text)) for text in values)))
        self._telling = [text for text in forms if _is_telling(text)]
        self._squeezed = "\n".join(map(_squeeze, self._telling))
        keys = (key for inner in _walk(payload) for key in _list_keys(inner))
        self._names = {word for key in keys for word in _split_words(_normalize(key))}
        self._places: dict[str, list[int]] = {}
        for place, word in enumerate(word for text in values for word in _split_words(text)):
            if len(word) >= WORD_CHARS:
                self._places.setdefault(word, []).append(place)

    def is_repeated_in(self, value: object) -> bool:
        """Return whether a whole object, a longer text or several words in a row come back.

        Ignores case, spacing and what stands between words.
        """
        if self._payload is not None and any(inner == self._payload for inner in _walk(value)):
            return True
        replied = list(_walk_texts(value, keys=True))
        if not replied or not self._telling:
            return False
        read = list(dict.fromkeys((*replied, *map(unmasked, replied))))
        said = [_normalize(text) for text in (*read, *_decode_words(read))]
        said += [text[::-1] for text in said]
        together = "\n".join(said)
        if any(piece in together for piece in self._pieces):
            return True
        if any(
            len(text) >= ECHO_WINDOW and text in sent for text in said for sent in self._telling
        ):
            return True
        spelled = "\n".join(map(_keep_words, said))
        return any(phrase in spelled for phrase in self._phrases)

    @cached_property
    def _pieces(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(piece for text in self._telling for piece in _cut_pieces(text)))

    @cached_property
    def _phrases(self) -> tuple[str, ...]:
        """Every few words in a row, with single spaces between them."""
        found = (_keep_words(phrase) for text in self._telling for phrase in _cut_phrases(text))
        return tuple(dict.fromkeys(found))

    def is_spread_over(self, texts: Sequence[str]) -> bool:
        """Whether texts, read one after the other, say what none of them says alone."""
        if not self._telling:
            return False
        read = [unmasked(text) for text in texts]
        joined = [
            "".join(read),
            " ".join(read),
            *_decode_words(["".join(read)]),
            *_decode_spelled(read),
        ]
        for text in joined:
            plain = _squeeze(_normalize(text))
            if self._has_window_of(plain) or self._has_window_of(plain[::-1]):
                return True
        words = [
            word
            for text in read
            for word in _split_words(_normalize(text))
            if word not in self._names
        ]
        return any(
            self._count_in_order(order) >= WORDS_IN_ORDER
            for order in (words, words[::-1], [word[::-1] for word in reversed(words)])
        )

    def _has_window_of(self, squeezed: str) -> bool:
        starts = range(len(squeezed) - SQUEEZED + 1)
        return any(squeezed[start : start + SQUEEZED] in self._squeezed for start in starts)

    def _count_in_order(self, words: Iterable[str]) -> int:
        """Return how many different words stand in the payload in the order of the reply."""
        ends: list[int] = []
        for word in dict.fromkeys(words):
            # Later places first, so that one word counts once.
            for place in reversed(self._places.get(word, ())):
                at = bisect_left(ends, place)
                ends[at : at + 1] = [place]
        return len(ends)


def _is_telling(text: str) -> bool:
    """Return whether a text is long enough not to come back by coincidence."""
    return len(text) >= ECHO_WINDOW or (
        len(text) >= MIN_CHARS and len(_WORD.findall(text)) >= MIN_WORDS
    )


def _cut_pieces(text: str) -> Iterator[str]:
    """Yield what would give an echo of this text away."""
    if len(text) <= ECHO_WINDOW:
        yield text
    for start in range(0, len(text) - ECHO_WINDOW + 1, ECHO_WINDOW):
        yield text[start : start + ECHO_WINDOW]
    yield from _cut_phrases(text)


def _cut_phrases(text: str) -> Iterator[str]:
    """Yield every few words in a row."""
    words = list(_WORD.finditer(text))
    for first, last in zip(words, words[WORDS_IN_A_ROW - 1 :], strict=False):
        if last.end() - first.start() >= MIN_CHARS:
            yield text[first.start() : last.end()]


def _keep_words(text: str) -> str:
    return _BETWEEN_WORDS.sub(" ", text).strip()


def _split_words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(text)


def _squeeze(text: str) -> str:
    return _BETWEEN_WORDS.sub("", text)


def _normalize(text: str) -> str:
    return _SPACES.sub(" ", text).strip().lower()


def _decode_words(texts: Iterable[str]) -> Iterator[str]:
    """Yield what long words say when they are hexadecimal digits or base 64."""
    words = [word for text in texts for word in _ENCODED.findall(text)]
    for word in words[:MAX_DECODED]:
        for decode in (bytes.fromhex, _from_base64):
            try:
                yield decode(word).decode()
            except (ValueError, binascii.Error):
                continue


def _decode_spelled(texts: Sequence[str]) -> Iterator[str]:
    """Yield what texts say when each has some hexadecimal digits, or the codes of characters."""
    runs = [run for text in texts for run in _HEX_RUN.findall(text)]
    digits = "".join(run[len(run) % 2 :] for run in runs)
    if digits:
        yield bytes.fromhex(digits).decode("utf-8", "replace")
    codes = [int(code) for text in texts for code in _CODES.findall(text)]
    if codes:
        yield "".join(chr(code) for code in codes if 32 <= code < 127)


def _from_base64(word: str) -> bytes:
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def _walk_texts(value: object, *, keys: bool) -> Iterator[str]:
    for inner in _walk(value):
        if isinstance(inner, str):
            yield inner
        elif keys:
            yield from _list_keys(inner)


def _list_keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (key for key in value if isinstance(key, str))


def _walk(value: object) -> Iterator[object]:
    """Yield a value and everything inside it, outer values first."""
    yield value
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _walk(inner)
