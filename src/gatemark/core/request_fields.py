"""The fields that a request offers to people, read from its struct.

A field with a description is offered at every door: as an option of the command, in the body of the
HTTP route and in the form of the page. Fields without one are filled in behind the doors. Limits
stand in the same annotation, and a value outside them is refused with the same sentence everywhere.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping, Sized
from datetime import UTC, datetime
from functools import cache
from inspect import get_annotations
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import msgspec
from msgspec import NODEFAULT, Meta

from gatemark.core.errors import BadInputError, InvalidValueError

S = TypeVar("S", bound=msgspec.Struct)
_MOST_SHOWN: Final = 80
_MAPS: Final = (dict, Mapping)
_MANY: Final = (tuple, *_MAPS)


class RequestField(msgspec.Struct, frozen=True, kw_only=True):
    """One field: its type without ``None``, its limits, its default and its words.

    ``words`` are the texts that may be chosen, with their values. ``looks`` says what a text must
    look like, for the message. ``flags`` are the names of the option, if they differ. A list or a
    map has ``entry`` for what it holds, and a map ``key`` for the names of its entries.
    """

    name: str
    kind: object
    is_optional: bool
    default: object
    description: str
    low: float | None = None
    high: float | None = None
    is_low_open: bool = False
    is_high_open: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min_count: int | None = None
    max_count: int | None = None
    pattern: str | None = None
    looks: str | None = None
    words: Mapping[str, object] = {}
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    entry: RequestField | None = None
    key: RequestField | None = None
    is_local: bool = False
    """Whether it names files of the person who asks, which only the command line can read."""
    is_exact: bool = False
    """Whether a form gives it back as the page has it: spaces at its ends belong to it."""

    @property
    def is_required(self) -> bool:
        """Whether the field has no default."""
        return self.default is NODEFAULT

    @property
    def is_list(self) -> bool:
        """Whether the field takes several entries."""
        return get_origin(self.kind) is tuple

    @property
    def is_map(self) -> bool:
        """Whether the field takes several entries by name."""
        return get_origin(self.kind) in _MAPS

    def read(self, value: object) -> object:
        """Return a value that the field may hold; raise InvalidValueError with the reason."""
        if (value is None and self.is_optional) or self.kind is object:
            return value
        if self.is_list:
            return self._read_list(value)
        if self.is_map:
            return self._read_map(value)
        if self.words:
            return self._read_word(value)
        if self.kind is bool:
            if not isinstance(value, bool):
                raise InvalidValueError(f"{_quote(value)} is not true or false.")
            return value
        if self.kind in (int, float):
            return self._read_number(value)
        if self.kind is datetime:
            return value if isinstance(value, datetime) else parse_moment(value)
        return self._read_text(value)

    def _read_list(self, value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidValueError(f"{_quote(value)} is not a list.")
        self._check_count(value)
        assert self.entry is not None  # noqa: S101 - of a list
        return tuple(map(self.entry.read, value))

    def _read_map(self, value: object) -> dict[object, object]:
        if not isinstance(value, dict):
            raise InvalidValueError(f"{_quote(value)} is not an object.")
        self._check_count(value)
        assert self.key is not None and self.entry is not None  # noqa: S101, PT018 - of a map
        return {self.key.read(name): self.entry.read(one) for name, one in value.items()}

    def _check_count(self, value: Sized) -> None:
        if self.min_count is not None and len(value) < self.min_count:
            raise InvalidValueError(
                f"must have at least {self.min_count} entries, got {len(value)}"
            )
        if self.max_count is not None and len(value) > self.max_count:
            raise InvalidValueError(f"must have at most {self.max_count} entries, got {len(value)}")

    def _read_word(self, value: object) -> object:
        if not isinstance(value, str) or value not in self.words:
            choices = ", ".join(map(repr, self.words))
            raise InvalidValueError(f"{_quote(value)} is not one of {choices}.")
        return self.words[value]

    def _read_number(self, value: object) -> object:
        what = "finite number" if self.kind is float else "whole number"
        known = (int, float) if self.kind is float else int
        if isinstance(value, bool) or not isinstance(value, known) or not math.isfinite(value):
            raise InvalidValueError(f"{_quote(value)} is not a {what}.")
        number: float = float(value) if self.kind is float else value
        low, high = self.low, self.high
        is_low = low is not None and (number <= low if self.is_low_open else number < low)
        is_high = high is not None and (number >= high if self.is_high_open else number > high)
        if is_low or is_high:
            raise InvalidValueError(f"{number} is not in the range {self._range}.")
        return number

    @property
    def _range(self) -> str:
        left = "" if self.low is None else f"{self.low}{'<' if self.is_low_open else '<='}"
        right = "" if self.high is None else f"{'<' if self.is_high_open else '<='}{self.high}"
        if not left:
            return f"x{right}"
        return f"{left}x{right}" if right else f"x{'>' if self.is_low_open else '>='}{self.low}"

    def _read_text(self, value: object) -> str:
        if not isinstance(value, str):
            raise InvalidValueError(f"{_quote(value)} is not a text.")
        if self.max_length is not None and len(value) > self.max_length:
            raise InvalidValueError(
                f"must have at most {self.max_length} characters, got {len(value)}"
            )
        if self.min_length is not None and len(value) < self.min_length:
            raise InvalidValueError(f"must have at least {self.min_length} characters")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise InvalidValueError(
                f"{_quote(value)} must be {self.looks or f'a text like {self.pattern}'}"
            )
        return value


def _quote(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"


def parse_moment(value: object) -> datetime:
    """Return a time in UTC; raise for one without a time zone."""
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise InvalidValueError(
            f"expected a time such as 2026-03-01T00:00:00Z, got {_quote(value)}."
        ) from error
    if found.tzinfo is None:
        raise InvalidValueError(f"{_quote(value)} needs a time zone, such as Z for UTC.")
    return found.astimezone(UTC)


@cache
def request_fields(struct: type[msgspec.Struct]) -> tuple[RequestField, ...]:
    """Return the fields that a struct offers: its own first, then those that it shares."""
    hints = hints_of(struct, include_extras=True)
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    names = [name for part in struct.__mro__ for name in get_annotations(part)]
    found = []
    for name in dict.fromkeys(name for name in names if name in fields):
        notes = unwrap_hint(hints[name])
        if notes.description is not None:
            field = fields[name]
            made = NODEFAULT if field.default_factory is NODEFAULT else field.default_factory()
            found.append(
                _describe(name, notes, made if field.default is NODEFAULT else field.default)
            )
    return tuple(found)


def find_field(struct: type[msgspec.Struct], name: str) -> RequestField | None:
    """Return a field that a struct offers, or None."""
    return next((field for field in request_fields(struct) if field.name == name), None)


def require_field(struct: type[msgspec.Struct], name: str) -> RequestField:
    """Return a field that a struct offers, which the caller knows by name."""
    return next(field for field in request_fields(struct) if field.name == name)


def _describe(name: str, notes: Hint, default: object = NODEFAULT) -> RequestField:
    kind, extra, limits = notes.kind, notes.extra, notes.limits
    words: Mapping[str, object] = extra.get("words") or {}
    if get_origin(kind) is Literal and not words:
        words = {str(word): word for word in get_args(kind)}
    of = get_origin(kind)
    parts = [
        _describe("", unwrap_hint(one))
        for one in (get_args(kind) if of in _MANY else ())
        if one is not ...
    ]
    ends = ("min_length", "max_length") if of not in _MANY else ("min_count", "max_count")
    return RequestField(
        name=name,
        kind=kind,
        is_optional=notes.is_optional,
        default=default,
        description=notes.description or "",
        low=limits.get("gt", limits.get("ge")),
        high=limits.get("lt", limits.get("le")),
        is_low_open="gt" in limits,
        is_high_open="lt" in limits,
        pattern=limits.get("pattern"),
        looks=extra.get("looks"),
        words=words,
        flags=tuple(extra.get("flags") or ()),
        metavar=extra.get("metavar"),
        entry=parts[-1] if of in _MANY else None,
        key=parts[0] if of in _MAPS else None,
        is_local=bool(extra.get("is_local")),
        is_exact=bool(extra.get("is_exact")),
        **dict(zip(ends, (limits.get("min_length"), limits.get("max_length")), strict=True)),
    )


class Hint(msgspec.Struct, frozen=True):
    """A type without ``None`` and annotations, and what all its annotations say together."""

    kind: Any
    is_optional: bool
    limits: dict[str, Any]
    description: str | None
    extra: dict[str, Any]


_LIMITS: Final = ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern")


def unwrap_hint(hint: object) -> Hint:
    """Return what a type hint says; of two annotations, the outer one counts."""
    metas: list[Meta] = []
    is_optional = False
    while True:
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            metas = [*(note for note in notes if isinstance(note, Meta)), *metas]
            continue
        if get_origin(hint) in (Union, types.UnionType):
            rest = [one for one in get_args(hint) if one is not type(None)]
            if len(rest) == 1:
                hint, is_optional = rest[0], True
                continue
        break
    limits: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    description = None
    for meta in metas:
        limits |= {name: value for name in _LIMITS if (value := getattr(meta, name)) is not None}
        extra |= meta.extra or {}
        description = meta.description or description
    return Hint(hint, is_optional, limits, description, extra)


def read_request(
    struct: type[S],
    given: Mapping[str, object],
    known: Mapping[str, object] = MappingProxyType({}),
    *,
    place: Callable[[str], str] = str,
) -> S:
    """Return a request with the given fields; ``known`` are fields that the door knows itself.

    Raise BadInputError with every problem; ``place`` says where the door has a field.
    """
    fields = {field.name: field for field in request_fields(struct) if field.name not in known}
    problems = [
        f"{place(name)}: unknown field (known: {', '.join(fields)})"
        for name in given
        if name not in fields
    ]
    values: dict[str, object] = {}
    for name, field in fields.items():
        if name not in given:
            if field.is_required:
                problems.append(f"{place(name)}: is missing")
            continue
        try:
            values[name] = field.read(given[name])
        except InvalidValueError as error:
            problems.append(f"{place(name)}: {error}")
    if problems:
        raise BadInputError(tuple(problems))
    return struct(**{**values, **known})
