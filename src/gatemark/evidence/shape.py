"""What the lines of a file are expected to be: all of one form, or of a schema's several forms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, Union

import msgspec
import msgspec.inspect

from gatemark.core.record import Form, Problem, RecordSchema, by_kind, is_one_line
from gatemark.evidence.diagnose import diagnose, record_problems
from gatemark.evidence.strict_json import parse_strictly, quoted
from gatemark.evidence.whole_keys import KeyTotals

Kinds = Mapping[type, Sequence[Any]]
"""Some records by their type."""


class Shape(Protocol):
    """Decodes lines fast, says whether decoded records keep their rules, and why a line fails."""

    @property
    def decoder(self) -> msgspec.json.Decoder[Any] | None:
        """What reads many lines in one go; None where only ``decode`` can read one."""

    @property
    def decode(self) -> Callable[[bytes], Any]:
        """A record from a line, or msgspec's error."""

    def kinds(self, batch: Sequence[Any]) -> Kinds:
        """Some records as the two questions below take them."""

    def key_total(self, kinds: Kinds) -> int | None:
        """How many different keys the lines of some records have; None where they do not tell."""

    def keeps_rules(self, kinds: Kinds) -> bool:
        """Whether every record keeps what its types cannot hold."""

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        """Everything that is wrong with a line; nothing when it is good."""


class OneForm:
    """Every line is a record of the same form."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._name = operator.attrgetter(form.identity) if form.identity else None
        self.decoder: msgspec.json.Decoder[Any] | None = msgspec.json.Decoder(form.type)
        self.decode: Callable[[bytes], Any] = self.decoder.decode

    def kinds(self, batch: Sequence[Any]) -> Kinds:
        return {self._form.type: batch}

    def key_total(self, _kinds: Kinds) -> int | None:
        return None

    def keeps_rules(self, kinds: Kinds) -> bool:
        (batch,) = kinds.values()
        if self._name is not None:
            printable = all(map(str.isprintable, map(self._name, batch)))
            if not printable and not all(map(is_one_line, map(self._name, batch))):
                return False
        form = self._form
        if not form.rules or (form.proof is not None and form.proof(batch)):
            return True
        return not any(record_problems(record, form) for record in batch)

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        return diagnose(line, self._form, max_depth=max_depth)


class TaggedForms:
    """Every line says by a tag which of a schema's forms it is."""

    def __init__(self, schema: RecordSchema) -> None:
        self._schema = schema
        self.decoder: msgspec.json.Decoder[Any] | None = msgspec.json.Decoder(
            Union[tuple(form.type for form in schema.forms)]  # noqa: UP007 - made at run time
        )
        self.decode: Callable[[bytes], Any] = self.decoder.decode
        self._looks = {form.type: _Look(form) for form in schema.forms}
        self._keys = KeyTotals(form.type for form in schema.forms)

    def kinds(self, batch: Sequence[Any]) -> Kinds:
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
        return diagnose(line, form, max_depth=max_depth) if form else self._untagged(value)

    def _untagged(self, value: dict[str, Any]) -> tuple[Problem, ...]:
        tag = self._schema.tag
        if tag not in value:
            return (Problem("$", f"key {quoted(tag)} is missing"),)
        allowed = ", ".join(quoted(form.name) for form in self._schema.forms)
        return (Problem(f"$.{tag}", f"got {quoted(value[tag])}, allowed: {allowed}"),)


class _Look:
    """How records of one form are judged: all at once where that is proof, else each of them."""

    def __init__(self, form: Form) -> None:
        self._name_of = operator.attrgetter(form.identity) if form.identity else None
        self._rules = form.rules
        self._proof = form.proof

    def all_good(self, records: Sequence[Any]) -> bool:
        """Whether every record keeps the rules."""
        if self._proof is not None and self._names_hold(records) and self._proof(records):
            return True
        return all(map(self._is_good, records))

    def _names_hold(self, records: Sequence[Any]) -> bool:
        """Whether every name is one line; in most files it is the same one again and again."""
        if self._name_of is None:
            return True
        names = list(map(self._name_of, records))
        all_same = names.count(names[0]) == len(names)
        return (names[0] if all_same else "".join(names)).isprintable()

    def _is_good(self, record: Any) -> bool:
        if self._name_of is not None:
            name = self._name_of(record)
            if not name.isprintable() and not is_one_line(name):
                return False
        for rule in self._rules:  # noqa: SIM110 - a generator costs more than the rules
            if rule(record):
                return False
        return True


_tagged: dict[tuple[type[Any], ...], TaggedForms] = {}


def shape_of(expected: Form | RecordSchema) -> Shape:
    """The shape of a file's lines; that of a tagged schema is made once."""
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
    """Whether records may hold values of any depth, because some part of them is open."""
    if isinstance(expected, Form):
        return _is_open(expected.type)
    if isinstance(expected, RecordSchema):
        return any(_is_open(form.type) for form in expected.forms)
    return True


@cache
def _is_open(record_type: type[msgspec.Struct]) -> bool:
    return _opens(msgspec.inspect.type_info(record_type), ())


def _opens(one: Any, around: tuple[Any, ...]) -> bool:
    """Whether a type may hold anything, or itself."""
    if isinstance(one, msgspec.inspect.AnyType | msgspec.inspect.RawType):
        return True
    inner = [getattr(one, name, None) for name in ("type", "item_type", "value_type")]
    inner.extend(getattr(one, "types", None) or getattr(one, "item_types", None) or ())
    if isinstance(one, msgspec.inspect.StructType):
        if one.cls in around:
            return True
        around = (*around, one.cls)
        inner.extend(field.type for field in one.fields)
    return any(_opens(each, around) for each in inner if isinstance(each, msgspec.inspect.Type))
