"""Stored documents: the names of their formats, and reading what any build sealed.

A format is named ``FAMILY/VERSION``. Within a version only optional fields are added; anything
else is a new version with a reader for the old one. A document that names a version this build
does not know is not broken: this build cannot judge it.

A sealed document may have members that this build does not know: a newer build added them. They
are no reason to refuse it. The stored bytes stay as they are; only the typed value that is read
out of them lacks those members. What people hand in is read strictly instead: there, an unknown
key is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Final, TypeVar

import msgspec

FORMAT: Final = "format"
"""The member of a document or payload that names its format."""
_NAME: Final = re.compile(r"(gatemark(?:\.[a-z][a-z0-9_-]*)+)/([1-9][0-9]{0,3})\Z")


def parse_format(name: object) -> tuple[str, int] | None:
    """Return family and version of a format's name; None if it does not have that form."""
    match = _NAME.match(name) if isinstance(name, str) else None
    return None if match is None else (match[1], int(match[2]))


def is_newer(name: str, known: str) -> bool:
    """Return whether a name is a later version of a format that this build knows."""
    there, here = parse_format(name), parse_format(known)
    return there is not None and here is not None and there[0] == here[0] and there[1] > here[1]


def newer_format(name: str) -> str:
    """Return the message about a format that this build does not know."""
    return f"has format {name}, which this build does not know: install a newer Gatemark"


T = TypeVar("T")
MOST_UNKNOWN: Final = 1_000
_UNKNOWN: Final = re.compile(
    r"Object contains unknown field `(.*?)`(?: - at `(\$.*)`)?\Z", re.DOTALL
)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+|\.\.\.)\]")


def read_stored(data: bytes, type_: type[T]) -> T:
    """Return the value in a stored document, without members that this build does not know.

    Raise msgspec.MsgspecError for everything else that does not fit.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        if not _UNKNOWN.match(str(error)):
            raise
    return convert_stored(msgspec.json.decode(data), type_)


def convert_stored(value: object, type_: type[T]) -> T:
    """Return a stored value as a type, without members that this build does not know."""
    copied = False
    for _ in range(MOST_UNKNOWN):
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            unknown = _UNKNOWN.match(str(error))
            if unknown is None:
                raise
        if not copied:
            value, copied = deepcopy(value), True
        name, path = unknown.group(1), unknown.group(2) or "$"
        found = [place for place in _find_places(value, path) if name in place]
        if not found:
            break
        for place in found:
            del place[name]
    return msgspec.convert(value, type_)


def _find_places(value: object, path: str) -> Iterator[dict[str, object]]:
    """The objects that a path of msgspec's messages leads to; ``[...]`` stands for every value.

    Elements of a list stand for each other, so that one round is enough for a long list.
    """
    places: list[object] = [value]
    for name, index in _STEP.findall(path):
        if name:
            places = [place[name] for place in places if isinstance(place, dict) and name in place]
        elif index == "...":
            places = [inner for place in places for inner in _list_inner(place)]
        else:
            places = [alike for place in places for alike in _list_alike(place, int(index))]
    yield from (place for place in places if isinstance(place, dict))


def _list_alike(place: object, index: int) -> list[object]:
    """Return an element of a list, and all others with the same tag."""
    if not isinstance(place, list):
        return []
    tags = [one.get("type") if isinstance(one, dict) else None for one in place]
    return [one for one, tag in zip(place, tags, strict=True) if tag == tags[index]]


def _list_inner(place: object) -> list[object]:
    if isinstance(place, dict):
        return list(place.values())
    return place if isinstance(place, list) else []
