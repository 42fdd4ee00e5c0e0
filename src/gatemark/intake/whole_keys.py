"""Types in which every key is there: their records have a known number of keys.

Where each key is required once and no other is allowed, counting the keys of a block proves that
none is repeated. Types with open or repeated parts have no such number.
"""

from __future__ import annotations

import operator
from functools import cache, reduce
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
import numpy as np

_PLAIN = (str, int, float, bool, type(None), msgspec.UnsetType)
_TRANSPARENT = (Union, UnionType, tuple, list)
_QUOTE, _COLON, _SPACE = ord('"'), ord(":"), ord(" ")


class Whole(NamedTuple):
    """A type that requires every key, and how many keys a record of it has."""

    type: type[msgspec.Struct]
    key_count: int


@cache
def whole_type(record_type: type[msgspec.Struct]) -> Whole | None:
    """The same type with every optional key required, or None where keys cannot be counted."""
    if not record_type.__struct_config__.forbid_unknown_fields:
        return None
    fields: list[tuple[str, Any]] = []
    key_count = 0
    for field in msgspec.structs.fields(record_type):
        key_count += 1
        wanted = field.type
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            inner = whole_type(wanted)
            if inner is None:
                return None
            wanted = inner.type
            key_count += inner.key_count
        elif _has_keys_of_its_own(wanted):
            return None
        elif field.default is msgspec.UNSET:
            wanted = reduce(
                operator.or_, (p for p in get_args(wanted) if p is not msgspec.UnsetType)
            )
        elif not field.required:
            return None
        fields.append((field.name, wanted))
    config = record_type.__struct_config__
    made = msgspec.defstruct(
        record_type.__name__,
        fields,
        bases=(record_type,),
        frozen=config.frozen,
        gc=config.gc,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return Whole(made, key_count)


def key_count(data: bytes) -> int | None:
    """At least the number of keys that some valid lines of JSON hold, or None if that is unclear.

    Each key ends with a quote before a colon. A backslash could hide a quote inside a string, and
    space before a colon could part a key from its own; only a string that starts with a colon
    is counted too many.
    """
    if b"\\" in data:
        return None
    found = np.frombuffer(data, dtype=np.uint8)
    colons, before = found[1:] == _COLON, found[:-1]
    if np.count_nonzero(colons & (before <= _SPACE)):
        return None
    return int(np.count_nonzero(colons & (before == _QUOTE)))


def _has_keys_of_its_own(wanted: Any) -> bool:
    """Whether a type can hold objects, whose keys come in unknown numbers."""
    origin = get_origin(wanted)
    if origin is Literal:
        return False
    if origin is Annotated:
        return _has_keys_of_its_own(get_args(wanted)[0])
    if origin in _TRANSPARENT:
        return any(_has_keys_of_its_own(part) for part in get_args(wanted) if part is not ...)
    return wanted not in _PLAIN
