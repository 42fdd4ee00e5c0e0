"""Types in which every key is there: their records have a known number of keys.

Where each key is required once and no other is allowed, counting the keys of a block proves that
none is repeated. Types with open or repeated parts have no such number.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
import numpy as np

_PLAIN = (str, int, float, bool, type(None), msgspec.UnsetType)
_TRANSPARENT = (Union, UnionType, tuple, list)
_QUOTE, _COLON, _SPACE = ord('"'), ord(":"), ord(" ")
_STARTS_VALUE = (":", " ")


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
        if field.encode_name.endswith(_STARTS_VALUE):
            return None
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

    No key may end with a colon or a space. Each key ends with a quote before a colon, unless
    space before a colon parts a key from its own. A quote after a colon or a space starts a
    string; a string that holds both a quote and a colon counts too many, never too few.
    """
    found = np.frombuffer(data, dtype=np.uint8)
    colons, before, last = found[2:] == _COLON, found[1:-1], found[:-2]
    if np.count_nonzero(colons & (before <= _SPACE)):
        return None
    ends = colons & (before == _QUOTE) & (last != _COLON) & (last != _SPACE)
    return int(np.count_nonzero(ends))


class KeyTotals:
    """How many different keys stand in the lines of records of several tagged types.

    A decoded record tells its keys where each one that may be left out is unset then. Types
    without such keys have a fixed number; others are counted one by one while they are few.
    """

    def __init__(self, record_types: Iterable[type[msgspec.Struct]]) -> None:
        kinds = tuple(record_types)
        # Among several types a line must say its tag; a lone type does not ask for it.
        self._told = frozenset(filter(_tells_keys, kinds)) if len(kinds) > 1 else frozenset()
        self._fixed = {kind: count for kind in self._told if (count := _fixed_count(kind))}

    def of(self, kinds: Mapping[type, Sequence[Any]]) -> int | None:
        """The keys of some records, each counted once per object; None where that is unclear."""
        total = 0
        record_count = sum(map(len, kinds.values()))
        for kind, records in kinds.items():
            fixed = self._fixed.get(kind)
            if fixed is not None:
                total += fixed * len(records)
            elif kind in self._told and len(records) * _RARE <= record_count:
                total += sum(map(_keys_in, records))
            else:
                return None
        return total


_RARE: Final = 8
"""One in this many records, at most, is counted key by key."""


def _tells_keys(record_type: type[msgspec.Struct], *, inside: bool = False) -> bool:
    """Whether lines have the keys of a type and no others, but for those of unset fields."""
    config = record_type.__struct_config__
    if not config.forbid_unknown_fields or (inside and config.tag is not None):
        return False
    for field in msgspec.structs.fields(record_type):
        if not field.required and field.default is not msgspec.UNSET:
            return False
        if field.encode_name.endswith(_STARTS_VALUE):
            return False
        if not all(_tells_keys(part, inside=True) for part in _structs_in(field.type)):
            return False
    return True


def _structs_in(wanted: Any) -> list[type[msgspec.Struct]]:
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return [wanted]
    return [found for part in get_args(wanted) for found in _structs_in(part)]


def _fixed_count(record_type: type[msgspec.Struct]) -> int | None:
    """The number of keys of a type without optional keys and without objects inside, and a tag."""
    fields = msgspec.structs.fields(record_type)
    if any(not field.required or _has_keys_of_its_own(field.type) for field in fields):
        return None
    return len(fields) + 1


def _keys_in(value: Any) -> int:
    """The keys of a decoded value and of everything inside it."""
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
        told = [one for one in inner if one is not msgspec.UNSET]
        return len(told) + (value.__struct_config__.tag is not None) + _keys_inside(told)
    if isinstance(value, dict):
        return len(value) + _keys_inside(value.values())
    return _keys_inside(value) if isinstance(value, list | tuple) else 0


def _keys_inside(values: Iterable[Any]) -> int:
    return sum([_keys_in(one) for one in values if type(one) not in _PLAIN])


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
