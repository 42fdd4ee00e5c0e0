"""What an evidence schema is: typed forms, rules across fields, and examples of both kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gatemark.core.errors import UsageError


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
    can show.
    """

    name: str
    type: type[msgspec.Struct]
    marks: frozenset[str]
    identity: str
    good: tuple[Mapping[str, Any], ...]
    bad: tuple[BadExample, ...]
    rules: tuple[Callable[[Any], Sequence[Problem]], ...] = ()


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
