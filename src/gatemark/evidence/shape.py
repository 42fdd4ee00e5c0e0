"""The expected shape of a file's lines: one form, or the several forms of a tagged schema.

A shape also proves fast that no object repeats a key: where a type requires each key and allows no
other, its records have a known number of keys, and counting those of a block is enough. Types with
open or repeated parts have no such number.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from types import UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
import msgspec.inspect
import numpy as np

from gatemark.core.record import Form, Problem, RecordSchema, by_kind
from gatemark.core.text import is_one_line
from gatemark.evidence.diagnose import diagnose
from gatemark.evidence.strict_json import parse_strictly, quoted

_PLAIN = (str, int, float, bool, type(None), msgspec.UnsetType)
_TRANSPARENT = (Union, UnionType, tuple, list)
_QUOTE, _COLON, _SPACE = ord('"'), ord(":"), ord(" ")
_STARTS_VALUE = (":", " ")


class Whole(NamedTuple):
    """A type that requires every key, and the number of keys in a record."""

    type: type[msgspec.Struct]
    key_count: int


@cache
def whole_type(record_type: type[msgspec.Struct]) -> Whole | None:
    """Return the same type with all keys required, or None if keys cannot be counted."""
    if not record_type.__struct_config__.forbid_unknown_fields:
        return None
    fields: list[tuple[str, object]] = []
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
    """Return an upper bound of the number of keys in valid lines of JSON, or None if unclear.

    No key may end with a colon or a space. Each key ends with a quote before a colon, unless
    space before a colon parts a key from its own. A quote after a colon or a space starts a
    string; a string that holds both a quote and a colon counts too many, never too few.
    """
    found = np.frombuffer(data, dtype=np.uint8)
    colons = np.flatnonzero(found[2:] == _COLON)
    before, last = found[colons + 1], found[colons]
    if np.count_nonzero(before <= _SPACE):
        return None
    ends = (before == _QUOTE) & (last != _COLON) & (last != _SPACE)
    return int(np.count_nonzero(ends))


class KeyTotals:
    """How many different keys stand in the lines of records of several tagged types.

    A decoded record tells its keys where each one that may be left out is unset then. Types
    without such keys have a fixed number; others are counted one by one while they are few.
    """

    def __init__(self, record_types: Iterable[type[msgspec.Struct]]) -> None:
        kinds = tuple(record_types)
        # Among several types a line must say its tag; a lone type does not ask for it.
        self._told = frozenset(filter(_has_fixed_keys, kinds)) if len(kinds) > 1 else frozenset()
        self._fixed = {kind: count for kind in self._told if (count := _count_fixed_keys(kind))}

    def of(self, kinds: Mapping[type, Sequence[object]]) -> int | None:
        """Count the keys of some records, or return None if unclear."""
        total = 0
        record_count = sum(map(len, kinds.values()))
        for kind, records in kinds.items():
            fixed = self._fixed.get(kind)
            if fixed is not None:
                total += fixed * len(records)
            elif kind in self._told and len(records) * _RARE <= record_count:
                total += sum(map(_count_keys, records))
            else:
                return None
        return total


_RARE: Final = 8
"""One in this many records, at most, is counted key by key."""


def _has_fixed_keys(record_type: type[msgspec.Struct], *, inside: bool = False) -> bool:
    """Return whether lines have exactly the keys of the fields that are set."""
    config = record_type.__struct_config__
    if not config.forbid_unknown_fields or (inside and config.tag is not None):
        return False
    for field in msgspec.structs.fields(record_type):
        if not field.required and field.default is not msgspec.UNSET:
            return False
        if field.encode_name.endswith(_STARTS_VALUE):
            return False
        if not all(_has_fixed_keys(part, inside=True) for part in _find_structs(field.type)):
            return False
    return True


def _find_structs(wanted: object) -> list[type[msgspec.Struct]]:
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return [wanted]
    return [found for part in get_args(wanted) for found in _find_structs(part)]


def _count_fixed_keys(record_type: type[msgspec.Struct]) -> int | None:
    """Return the number of keys, with the tag, of a type without optional keys or objects."""
    fields = msgspec.structs.fields(record_type)
    if any(not field.required or _has_keys_of_its_own(field.type) for field in fields):
        return None
    return len(fields) + 1


def _count_keys(value: object) -> int:
    """Count the keys of a decoded value and of everything inside it."""
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, name) for name in value.__struct_fields__]
        present = [one for one in inner if one is not msgspec.UNSET]
        return len(present) + (value.__struct_config__.tag is not None) + _count_inner_keys(present)
    if isinstance(value, dict):
        return len(value) + _count_inner_keys(value.values())
    return _count_inner_keys(value) if isinstance(value, list | tuple) else 0


def _count_inner_keys(values: Iterable[object]) -> int:
    return sum([_count_keys(one) for one in values if type(one) not in _PLAIN])


def _has_keys_of_its_own(wanted: object) -> bool:
    """Return whether a type can contain objects with an unknown number of keys."""
    origin = get_origin(wanted)
    if origin is Literal:
        return False
    if origin is Annotated:
        return _has_keys_of_its_own(get_args(wanted)[0])
    if origin in _TRANSPARENT:
        return any(_has_keys_of_its_own(part) for part in get_args(wanted) if part is not ...)
    return wanted not in _PLAIN


Kinds = Mapping[type, Sequence[Any]]
"""Some records by their type."""


class Shape(ABC):
    """Decodes lines fast, says whether decoded records keep their rules, and why a line fails.

    ``decode`` returns the record of a line and raises msgspec's errors. ``decoder`` reads many
    lines at once; it is None if only ``decode`` works.
    """

    def __init__(self, decoder: msgspec.json.Decoder[Any], *, reads_many: bool = True) -> None:
        self.decode: Callable[[bytes], object] = decoder.decode
        self.decoder: msgspec.json.Decoder[object] | None = decoder if reads_many else None

    @abstractmethod
    def kinds(self, batch: Sequence[object]) -> Kinds:
        """Return records in the form that the two methods below take."""

    def key_total(self, kinds: Kinds) -> int | None:
        """Return the number of keys in the lines of some records; None if unknown."""
        del kinds
        return None

    @abstractmethod
    def keeps_rules(self, kinds: Kinds) -> bool:
        """Return whether every record keeps the rules that types cannot express."""

    @abstractmethod
    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        """Return every problem of a line; none if it is valid."""


class OneForm(Shape):
    """Every line is a record of the same form."""

    def __init__(self, form: Form) -> None:
        super().__init__(msgspec.json.Decoder(form.type))
        self._form = form
        self._look = _Look(form)

    def kinds(self, batch: Sequence[object]) -> Kinds:
        return {self._form.type: batch}

    def keeps_rules(self, kinds: Kinds) -> bool:
        return self._look.all_good(kinds[self._form.type])

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        return diagnose(line, self._form, max_depth=max_depth)


class TaggedForms(Shape):
    """Every line says by a tag which of a schema's forms it is."""

    def __init__(self, schema: RecordSchema) -> None:
        super().__init__(
            msgspec.json.Decoder(
                Union[tuple(form.type for form in schema.forms)]  # noqa: UP007 - made at run time
            )
        )
        self._schema = schema
        self._looks = {form.type: _Look(form) for form in schema.forms}
        self._keys = KeyTotals(form.type for form in schema.forms)

    def kinds(self, batch: Sequence[object]) -> Kinds:
        return by_kind(batch)

    def key_total(self, kinds: Kinds) -> int | None:
        return self._keys.of(kinds)

    def keeps_rules(self, kinds: Kinds) -> bool:
        return all(self._looks[kind].all_good(records) for kind, records in kinds.items())

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        value, problems = parse_strictly(line, max_depth=max_depth)
        if value is None and problems:
            return problems
        if not isinstance(value, dict):
            return (*problems, Problem("$", f"got {quoted(value)}, expected object"))
        form = self._schema.form_of(value)
        return diagnose(line, form, max_depth=max_depth) if form else self._report_untagged(value)

    def _report_untagged(self, value: dict[str, object]) -> tuple[Problem, ...]:
        tag = self._schema.tag
        if tag not in value:
            return (Problem("$", f"key {quoted(tag)} is missing"),)
        allowed = ", ".join(quoted(form.name) for form in self._schema.forms)
        return (Problem(f"$.{tag}", f"got {quoted(value[tag])}, allowed: {allowed}"),)


class _Look:
    """Checks records of one form: all at once where possible, else one by one."""

    def __init__(self, form: Form) -> None:
        self._name_of = operator.attrgetter(form.identity) if form.identity else None
        self._rules = form.rules
        self._proof = form.proof

    def all_good(self, records: Sequence[object]) -> bool:
        """Return whether every record keeps the rules."""
        if not self._are_names_good(records):
            return False
        if not self._rules or (self._proof is not None and self._proof(records)):
            return True
        return all(map(self._is_good, records))

    def _are_names_good(self, records: Sequence[object]) -> bool:
        """Return whether every name is one line; most files repeat names."""
        if self._name_of is None or not records:
            return True
        names = list(map(self._name_of, records))
        repeats = names.count(names[0])
        # Where names come again, few differ.
        shown = names[0] if repeats == len(names) else "".join(set(names) if repeats > 1 else names)
        return shown.isprintable() or all(map(is_one_line, names))

    def _is_good(self, record: object) -> bool:
        for rule in self._rules:  # noqa: SIM110 - a generator costs more than the rules
            if rule(record):
                return False
        return True


_tagged: dict[tuple[type[Any], ...], TaggedForms] = {}


def shape_of(expected: Form | RecordSchema) -> Shape:
    """Return the shape of a file's lines; cached for tagged schemas."""
    if isinstance(expected, Form):
        return OneForm(expected)
    if expected.tag is None:
        (form,) = expected.forms
        return OneForm(form)
    key = tuple(form.type for form in expected.forms)
    if key not in _tagged:
        _tagged[key] = TaggedForms(expected)
    return _tagged[key]


def may_nest(expected: Form | RecordSchema | Shape) -> bool:
    """Return whether records may contain values of any depth."""
    if isinstance(expected, Form):
        return _is_open(expected.type)
    if isinstance(expected, RecordSchema):
        return any(_is_open(form.type) for form in expected.forms)
    return True


@cache
def _is_open(record_type: type[msgspec.Struct]) -> bool:
    return _can_hold_anything(msgspec.inspect.type_info(record_type), ())


def _can_hold_anything(one: object, around: tuple[object, ...]) -> bool:
    """Return whether a type may contain anything, or itself."""
    if isinstance(one, msgspec.inspect.AnyType | msgspec.inspect.RawType):
        return True
    inner = [getattr(one, name, None) for name in ("type", "item_type", "value_type")]
    inner.extend(getattr(one, "types", None) or getattr(one, "item_types", None) or ())
    if isinstance(one, msgspec.inspect.StructType):
        if one.cls in around:
            return True
        around = (*around, one.cls)
        inner.extend(field.type for field in one.fields)
    return any(
        _can_hold_anything(each, around) for each in inner if isinstance(each, msgspec.inspect.Type)
    )
