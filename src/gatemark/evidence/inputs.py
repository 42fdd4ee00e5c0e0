"""Decide which records are about the same input: the unit that every exam counts.

A record that comes again, under an id that only looks different, or under another id with the same
content, says nothing that the first one did not. Ids are compared by what the eye sees of them,
contents by a digest of what was asked, never of what was answered.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import xxhash

from gatemark.evidence.blocks import Block
from gatemark.evidence.look_alikes import LATIN_LOOKS

if TYPE_CHECKING:
    from gatemark.core.measurement import EvidenceFile

_BLANK: Final[dict[int, int | str]] = {
    0x2800: " ",
    0x3164: " ",
    **dict.fromkeys((0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0xFFA0), ""),
    # Mongolian variation selectors.
    **dict.fromkeys((0x180B, 0x180C, 0x180D, 0x180F), ""),
    # Variation selectors choose between pictures of the sign before them.
    **dict.fromkeys((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)), ""),
}
"""Signs that show nothing, though their category is that of letters, marks or symbols."""
INPUTS_VERSION: Final = 1
"""Changes with what counts as one input, so that facts kept from before are not used."""
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Me"))
"""Categories of signs that show nothing, or only a frame around the sign before them."""


def _remove_unseen(text: str) -> str:
    return "".join(
        sign for sign in text if sign.isspace() or unicodedata.category(sign) not in _UNSEEN
    )


def visible_form(text: str) -> str:
    """Return what the eye sees of a text: one form of each letter, nothing without a width."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text).translate(_BLANK).translate(LATIN_LOOKS)
        text = unicodedata.normalize("NFKC", _remove_unseen(apart))
    elif not text.isprintable():
        text = _remove_unseen(text)
    return " ".join(text.split())


def normalize_id(name: str) -> str:
    """Return the form in which two ids of one input are equal: what the eye sees, in small letters.

    An id that shows nothing stays itself.
    """
    return _fold(name) or name


def _fold(text: str) -> str:
    if text.isascii() and text.isprintable() and " " not in text:
        return text.lower()
    # Small letters may look like others: the sign below a Greek vowel becomes an iota.
    return visible_form(visible_form(text).casefold())


_BETWEEN: Final = ","


def normalize_ids(names: Sequence[str]) -> Sequence[str]:
    """Return the same of many ids. Usual ones, all small letters in ASCII, cost next to nothing.

    They are looked at all at once; ``make bench`` (``agreement``) shows what that saves.
    """
    joined = _BETWEEN.join(names)
    if not (joined.isascii() and joined.isprintable() and " " not in joined):
        return list(map(normalize_id, names))
    return names if joined == joined.lower() else list(map(str.lower, names))


_SAID: Final = (("role", "user"), ("type", "text"))
"""Fields of a message that say no more than that it is what was asked."""


_EXACT: Final = 2**53
"""Below this, a whole number is the same with and without a decimal point."""


def digest_content(content: object) -> int | None:
    """Return a number for what an input asks, the same on every machine; None if it is unknown.

    Texts are equal if they look the same in small letters, whatever holds them: a list or an object
    with one entry, or the message of a user, is that entry. Fields that are null say nothing.
    """
    if content is None:
        return None
    return xxhash.xxh3_64_intdigest(msgspec.json.encode(_unwrap(content)))


def _unwrap(value: object) -> object:
    """Return texts in the form that the eye sees, without their final dot, and what holds them."""
    if isinstance(value, str):
        return _fold(value).rstrip(". ")
    if isinstance(value, Mapping):
        fields = sorted(
            ([_fold(str(name)), _unwrap(item)] for name, item in _list_known(value.items())),
            key=msgspec.json.encode,
        )
        return fields[0][1] if len(fields) == 1 else fields
    if isinstance(value, list | tuple):
        items = [_unwrap(item) for item in value if item is not None]
        return items[0] if len(items) == 1 else items
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def _list_known(fields: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    return (field for field in fields if field[1] is not None and field not in _SAID)


def digest_inputs(inputs: Sequence[tuple[object, Mapping[str, object]]]) -> list[int | None]:
    """Return a number for each input with the fields beside it, such as the answer it expects.

    A field makes another input only where all inputs of the same words have it, so that a copy is
    a copy whether a field is left out or added.
    """
    asked = [digest_content(words) for words, _ in inputs]
    shared: dict[int | None, set[str]] = {}
    for words, (_, fields) in zip(asked, inputs, strict=True):
        known = {name for name, value in fields.items() if value is not None}
        shared[words] = shared.get(words, known) & known
    return [
        words
        if words is None or not shared[words]
        else digest_content([words, [[name, fields[name]] for name in sorted(shared[words])]])
        for words, (_, fields) in zip(asked, inputs, strict=True)
    ]


class SameInput(NamedTuple):
    """A record about the same input as an earlier one, in words such as ``id 'q2'``.

    ``where`` is the earlier one. ``how`` says what they share: the id, an id that looks the same,
    or the content.
    """

    how: Literal["repeated", "look-alike", "copied"]
    name: str
    first_name: str
    where: str

    @classmethod
    def named(cls, name: str, first_name: str, where: str) -> SameInput:
        """Return a record whose id is that of the first, or looks like it."""
        return cls("repeated" if name == first_name else "look-alike", name, first_name, where)

    def describe(self) -> str:
        """Return a message for the place of the later record."""
        if self.how == "repeated":
            return f"{self.name} was seen before {self.where}"
        if self.how == "copied":
            return f"{self.name} has the same input as {self.first_name} {self.where}"
        return (
            f"{_escape(self.name)} looks like {_escape(self.first_name)} {self.where}; write one "
            "input in one way, or name two inputs more differently"
        )


def _escape(words: str) -> str:
    r"""Return words in which every letter can be told from those that look like it."""
    return words.encode("ascii", "backslashreplace").decode()


class SeenInputs:
    """The inputs seen so far; finds those that come again."""

    def __init__(self, what: str = "id") -> None:
        self._what = what
        self._by_id: dict[str, tuple[str, str]] = {}
        self._by_content: dict[int, tuple[str, str]] = {}

    def see(self, name: str, where: str, content: int | None = None) -> SameInput | None:
        """Add an input that stands ``at FILE:LINE``; return what it shares with an earlier one."""
        own = (name, where)
        first = self._by_id.setdefault(normalize_id(name), own)
        if first is not own:
            return SameInput.named(self._name_input(name), self._name_input(first[0]), first[1])
        first = own if content is None else self._by_content.setdefault(content, own)
        if first is own:
            return None
        return SameInput("copied", self._name_input(name), self._name_input(first[0]), first[1])

    def _name_input(self, name: str) -> str:
        return f"{self._what} {name!r}"


def join_keys(keys: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return for every place the first one that it is linked with by keys that they share."""
    parent = list(range(len(keys)))
    owner: dict[Hashable, int] = {}

    def find_first(place: int) -> int:
        while parent[place] != place:
            parent[place] = place = parent[parent[place]]
        return place

    for place, own in enumerate(keys):
        for key in own:
            one, other = find_first(owner.setdefault(key, place)), find_first(place)
            parent[max(one, other)] = min(one, other)
    return [find_first(place) for place in range(len(keys))]


def group_inputs(inputs: Iterable[tuple[str, int | None]]) -> dict[str, str]:
    """Map every id to the first id of its input, by what ids look like and by content."""
    listed = list(dict.fromkeys(inputs))
    keys: list[tuple[Hashable, ...]] = [
        (normalize_id(name),) if content is None else (normalize_id(name), content)
        for name, content in listed
    ]
    return {
        name: listed[first][0] for (name, _), first in zip(listed, join_keys(keys), strict=True)
    }


def join_clusters(groups: Iterable[Iterable[str]]) -> dict[str, str]:
    """Map every name of a cluster to one name, where the clusters of an input are one cluster."""
    held = [tuple(dict.fromkeys(group)) for group in groups]
    firsts = join_keys([[normalize_id(name) for name in group] for group in held])
    joined: dict[int, str] = {}
    for group, first in zip(held, firsts, strict=True):
        for name in group:
            joined[first] = min(joined.get(first, name), name)
    return {
        name: joined[first] for group, first in zip(held, firsts, strict=True) for name in group
    }


class LinesDigest:
    """A digest of lines, whatever they are packed in; blanks around them do not count."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()

    def read(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks of a file, and take their lines into the digest."""
        for block in blocks:
            for line in filter(None, map(bytes.strip, block.data.splitlines())):
                self._hash.update(line + b"\n")
            yield block

    @property
    def value(self) -> int:
        """The digest of what was read."""
        return self._hash.intdigest()


def find_copied_files(
    files: Sequence[EvidenceFile], contents: Sequence[int] = ()
) -> Iterator[tuple[EvidenceFile, EvidenceFile]]:
    """Yield every two files of the same bytes: a copy is not a second source.

    With ``contents``, from the ``LinesDigest`` of each file, also those of the same lines.
    """
    for (at, one), (place, other) in combinations(enumerate(files), 2):
        if one.digest == other.digest or (contents and contents[at] == contents[place]):
            yield one, other
