"""What an evidence schema is: typed forms, rules across fields, and examples of both kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gatemark.core.errors import InvalidValueError, UsageError


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one record: where, and what."""

    path: str
    message: str


class BadExample(msgspec.Struct, frozen=True):
    """A record that must be refused, and the path at which."""

    title: str
    record: Any
    path: str


class Form(msgspec.Struct, frozen=True):
    """One shape a record of a schema may take.

    ``marks`` are the keys whose presence tells this form from its siblings; ``identity`` is the
    field that names a record; ``rules`` look at a decoded record and list what no single field
    can show. ``unique`` are the fields whose values together come only once in a file, where the
    identity alone may come again; they include the identity.
    """

    name: str
    type: type[msgspec.Struct]
    marks: frozenset[str]
    identity: str
    good: tuple[Mapping[str, Any], ...]
    bad: tuple[BadExample, ...]
    rules: tuple[Callable[[Any], Sequence[Problem]], ...] = ()
    unique: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.unique is not None and self.identity not in self.unique:
            raise InvalidValueError(f"form {self.name}: unique must include {self.identity!r}")

    def key_of(self, record: Any) -> tuple[Any, ...]:
        """The values that no other record of a file may have together."""
        return tuple(getattr(record, field) for field in self.unique or (self.identity,))

    def key_words(self, key: tuple[Any, ...]) -> str:
        """A key for a message; a lone identity is called an id, whatever its field is called."""
        fields = ("id",) if self.unique is None else self.unique
        return ", ".join(f"{field} {value!r}" for field, value in zip(fields, key, strict=True))


class RecordSchema(msgspec.Struct, frozen=True):
    """An evidence schema: its name, what it is for, and its forms.

    Where the first line of a file says what the rest is, ``head`` is the form of that line and
    ``body`` gives, from the decoded first line, the name of the form of all others.
    """

    name: str
    summary: str
    forms: tuple[Form, ...]
    head: str | None = None
    body: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        if (self.head is None) != (self.body is None):
            raise InvalidValueError(f"schema {self.name}: head and body come together")

    def form(self, name: str) -> Form:
        """The form of that name."""
        for form in self.forms:
            if form.name == name:
                return form
        known = ", ".join(form.name for form in self.forms)
        raise UsageError(f"schema {self.name} has no form {name!r} (it has: {known})")

    def form_of(self, record: Mapping[str, Any]) -> Form | None:
        """The form that a record's keys point to; None when they point nowhere."""
        keys = set(record)
        fitting = [form for form in self.forms if form.marks <= keys]
        return max(fitting, key=lambda form: len(form.marks), default=None)
