"""Evidence schemas: typed forms, rules across fields, and good and bad examples.

A file holds records of one form, or, where a schema has a ``tag``, records of several forms that
tell a story together: then ``across`` makes the rules that look at the whole file.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from gatemark.core.errors import InvalidValueError, UsageError

IDENTITY_PATTERN: Final = r"^[^\u0000-\u001f\u007f]*$"


KEY_SEPARATOR = "\x1f"
"""Between the values of a compound key; one-line names cannot hold it."""


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one record: where, and what."""

    path: str
    message: str


Grade = Literal["error", "warning", "note"]


class Remark(msgspec.Struct, frozen=True):
    """A problem of one line that only shows alongside the other lines of its file.

    ``rule`` names what was looked at. An error makes the file invalid; a warning does not, and a
    note says what an older file does not tell.
    """

    line: int
    rule: str
    path: str
    message: str
    grade: Grade = "error"


class FileRules(ABC):
    """Rules across the records of one file. Every file gets a new instance."""

    @abstractmethod
    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterable[Remark]:
        """Check the next records; ``lines`` has the line of each."""

    @abstractmethod
    def lost(self) -> None:
        """Note that lines were refused, so that the gaps they leave are not reported again."""

    @abstractmethod
    def end(self) -> Iterable[Remark]:
        """Return the problems that only show after the last record."""


def by_kind(records: Sequence[Any]) -> dict[type, Sequence[Any]]:
    """Return records by their type, in order. Fast for many records of one type."""
    types = list(map(type, records))
    kinds = set(types)
    if len(kinds) <= 1:
        return dict.fromkeys(kinds, records)
    common = max(kinds, key=types.count)
    found: dict[type, Any] = {common: list(records)}
    others = [place for place, kind in enumerate(types) if kind is not common]
    for place in others:
        found.setdefault(types[place], []).append(records[place])
    for place in reversed(others):
        del found[common][place]
    return found


class BadFile(msgspec.Struct, frozen=True):
    """An example of records that must be refused together: the line and the rule."""

    title: str
    records: tuple[Mapping[str, object], ...]
    line: int
    rule: str


class BadExample(msgspec.Struct, frozen=True):
    """An example of a record that must be refused, and the path of the problem."""

    title: str
    record: object
    path: str


class Form(msgspec.Struct, frozen=True):
    """One shape a record of a schema may take.

    ``marks`` are the keys whose presence tells this form from its siblings; ``identity`` is the
    field that names a record, empty where only its place in the file does; ``rules`` look at a
    decoded record and list what no single field can show. ``unique`` are the fields whose values
    together come only once in a file, where the identity alone may come again; they include the
    identity. ``breaches`` list what a record can say and must not: validation refuses it, and an
    exam that looks for it can count it. ``proof`` shows of many records at once that the rules
    hold, and errs only by saying no: then the rules look at each record. ``shows_values`` is
    false where a refused value may be private and no message may repeat it. ``looks`` says in words
    what a pattern asks for. ``published`` are JSON Schema keywords that state rules and breaches
    in the published schema, for readers without Gatemark.
    """

    name: str
    type: type[msgspec.Struct]
    marks: frozenset[str]
    identity: str
    good: Sequence[Mapping[str, object]]
    bad: Sequence[BadExample]
    rules: tuple[Callable[[Any], Sequence[Problem]], ...] = ()
    unique: tuple[str, ...] | None = None
    breaches: tuple[Callable[[Any], Sequence[Problem]], ...] = ()
    proof: Callable[[Sequence[Any]], bool] | None = None
    shows_values: bool = True
    looks: Mapping[str, str] = {}
    published: Mapping[str, object] = {}

    def __post_init__(self) -> None:
        if self.unique is not None and self.identity not in self.unique:
            raise InvalidValueError(f"form {self.name}: unique must include {self.identity!r}")

    def namer(self) -> Callable[[object], str]:
        """Return the function that gives a record's name within its file."""
        if self.unique is None:
            if not self.identity:
                raise InvalidValueError(f"form {self.name}: its records have no name")
            return operator.attrgetter(self.identity)
        fields = self.unique
        return lambda record: KEY_SEPARATOR.join(str(getattr(record, name)) for name in fields)

    @property
    def strictest(self) -> Form:
        """Return the same form with its breaches among its rules."""
        if not self.breaches:
            return self
        return msgspec.structs.replace(
            self, rules=(*self.rules, *self.breaches), breaches=(), proof=None
        )

    def key_words(self, key: tuple[object, ...]) -> str:
        """Return a key for a message; a single identity is called an id."""
        fields = ("id",) if self.unique is None else self.unique
        return ", ".join(f"{field} {value!r}" for field, value in zip(fields, key, strict=True))


class Dialect(msgspec.Struct, frozen=True):
    """An earlier version of a schema; ``accepts`` recognises its files by their first record."""

    accepts: Callable[[Mapping[str, object]], bool]
    schema: RecordSchema


class RecordSchema(msgspec.Struct, frozen=True):
    """An evidence schema: its name, what it is for, and its forms.

    With a ``tag``, that key of a record names its form, a file may mix the forms, and ``across``
    makes the rules over a whole file. ``file_rules`` are their names, each with what it demands;
    ``bad_files`` are examples for them. ``older`` are earlier versions that are still read.
    Where the first line of a file says what the rest is, ``head`` is the form of that line and
    ``body`` gives, from the decoded first line, the name of the form of all others.
    """

    name: str
    summary: str
    forms: tuple[Form, ...]
    tag: str | None = None
    across: Callable[[], FileRules] | None = None
    file_rules: Mapping[str, str] = {}
    good_files: Sequence[tuple[Mapping[str, object], ...]] = ()
    bad_files: Sequence[BadFile] = ()
    older: tuple[Dialect, ...] = ()
    head: str | None = None
    body: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        if (self.head is None) != (self.body is None):
            raise InvalidValueError(f"schema {self.name}: head and body come together")

    def form(self, name: str) -> Form:
        """Return the form of that name."""
        for form in self.forms:
            if form.name == name:
                return form
        known = ", ".join(form.name for form in self.forms)
        raise UsageError(f"schema {self.name} has no form {name!r} (it has: {known})")

    def form_of(self, record: Mapping[str, object]) -> Form | None:
        """Return the form that matches a record's tag or keys, or None."""
        if self.tag is not None:
            word = record.get(self.tag)
            return next((form for form in self.forms if form.name == word), None)
        keys = set(record)
        fitting = [form for form in self.forms if form.marks <= keys]
        return max(fitting, key=lambda form: len(form.marks), default=None)

    def version_of(self, first: Mapping[str, object]) -> RecordSchema:
        """Return the schema, or the earlier version that a file's first record has."""
        for dialect in self.older:
            if dialect.accepts(first):
                return dialect.schema
        return self
