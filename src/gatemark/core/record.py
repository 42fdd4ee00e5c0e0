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
    identity alone may come again; they include the identity. ``breaches`` list what a record
    can say and must not: validation refuses it, and an exam that looks for it can count it.
    ``screen`` says of a whole batch that surely every rule holds; it errs only by saying no.
    ``shows_values`` is false where a refused value may be private and no message may repeat it.
    """

    name: str
    type: type[msgspec.Struct]
    marks: frozenset[str]
    identity: str
    good: tuple[Mapping[str, Any], ...]
    bad: tuple[BadExample, ...]
    rules: tuple[Callable[[Any], Sequence[Problem]], ...] = ()
    unique: tuple[str, ...] | None = None
    breaches: tuple[Callable[[Any], Sequence[Problem]], ...] = ()
    screen: Callable[[Sequence[Any]], bool] | None = None
    shows_values: bool = True

    def __post_init__(self) -> None:
        if self.unique is not None and self.identity not in self.unique:
            raise InvalidValueError(f"form {self.name}: unique must include {self.identity!r}")

    @property
    def strictest(self) -> Form:
        """The same form with its breaches among its rules."""
        if not self.breaches:
            return self
        return msgspec.structs.replace(
            self, rules=(*self.rules, *self.breaches), breaches=(), screen=None
        )

    def key_of(self, record: Any) -> tuple[Any, ...]:
        """The values that no other record of a file may have together."""
        return tuple(getattr(record, field) for field in self.unique or (self.identity,))

    def key_words(self, key: tuple[Any, ...]) -> str:
        """A key for a message; a lone identity is called an id, whatever its field is called."""
        fields = ("id",) if self.unique is None else self.unique
        return ", ".join(f"{field} {value!r}" for field, value in zip(fields, key, strict=True))


class RecordSchema(msgspec.Struct, frozen=True):
    """An evidence schema: its name, what it is for, and its forms."""

    name: str
    summary: str
    forms: tuple[Form, ...]

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
