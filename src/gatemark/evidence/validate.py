"""Checking evidence files against their schemas, every line, every problem."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.record import FileRules, Form, RecordSchema, Remark
from gatemark.evidence.files import find_sources
from gatemark.evidence.header_reader import HeadedReader
from gatemark.evidence.lines import read_blocks
from gatemark.evidence.plugins import schemas
from gatemark.evidence.reading_options import ReadingChoices, place
from gatemark.evidence.schema_file import SchemaFile, is_schema_path, read_schema_file
from gatemark.evidence.single_json import OpenedFile, open_records
from gatemark.evidence.source import Source
from gatemark.evidence.tagged_union_reader import TaggedReading, read_tagged, remark_words
from gatemark.evidence.whole_file import whole_file


class FileCheck(msgspec.Struct, frozen=True):
    """What validation found in one file.

    ``remarks`` are warnings, and notes on what an older file does not tell; they do not make a
    file invalid. ``unlisted`` counts problems beyond those that are listed.
    """

    file: str
    schema: str
    form: str
    received: int
    accepted: int
    rejected: int
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    unlisted: int = 0


def validate_files(
    paths: Sequence[str],
    schema_name: str | None,
    choices: ReadingChoices,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[FileCheck]:
    """Check files one after the other, by the schema of that name, that file, or their records."""
    brought = None
    if schema_name is not None and schema_name not in schemas() and is_schema_path(schema_name):
        brought = read_schema_file(schema_name)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for found in find_sources(paths, choices.limits, Path(folder)):
            opened = open_records(found, choices, Path(folder))
            if brought is not None:
                yield _check_by_document(opened, brought, choices)
            else:
                yield _check_by_name(opened, schema_name, choices)
            if on_progress is not None:
                on_progress(found.byte_count, found.byte_count)


def _check_by_name(
    opened: OpenedFile, schema_name: str | None, choices: ReadingChoices
) -> FileCheck:
    source, first, _ = opened
    schema = _chosen_schema(opened, schema_name).version_of(first)
    if schema.head is not None:
        return _check_headed(source, schema, choices)
    if schema.tag is not None:
        return _check_story(source, schema, choices)
    form = (schema.form_of(first) or schema.forms[0]).strictest
    rules = _Once(form) if schema.across is None else schema.across()
    reading = read_tagged(source, form, rules, choices)
    return _file_check(source, schema.name, form.name, reading)


def _check_story(source: Source, schema: RecordSchema, choices: ReadingChoices) -> FileCheck:
    rules = schema.across() if schema.across is not None else None
    reading = read_tagged(source, schema, rules, choices)
    kinds = ", ".join(f"{count} {kind}" for kind, count in reading.kinds.items())
    return _file_check(source, schema.name, kinds or "none", reading)


def _check_headed(source: Source, schema: RecordSchema, choices: ReadingChoices) -> FileCheck:
    reader = HeadedReader(schema, choices)
    seen: dict[tuple[object, ...], int] = {}
    repeated: list[str] = []
    for batch in reader.records(read_blocks(whole_file(source), choices.limits)):
        form = reader.form
        for line, record in zip(reader.batch_lines, batch, strict=True):
            first = seen.setdefault(form.key_of(record), line)
            if first != line:
                words = form.key_words(form.key_of(record))
                repeated.append(f"{source.name}:{line}: {words} was seen before on line {first}")
    problems = [
        place(source.name, refusal.line, problem)
        for refusal in reader.refusals
        for problem in refusal.problems
    ]
    if reader.received == 0:
        problems.append(f"{source.name}: holds no records")
    elif reader.received == 1 and not problems:
        problems.append(f"{source.name}: holds nothing after its first line")
    return FileCheck(
        file=source.name,
        schema=schema.name,
        form=reader.form.name,
        received=reader.received,
        accepted=reader.accepted,
        rejected=reader.rejected,
        problems=(*problems, *repeated),
    )


def _check_by_document(
    opened: OpenedFile, brought: SchemaFile, choices: ReadingChoices
) -> FileCheck:
    """By the document that a user brought and, where it is one of ours, by our rules as well."""
    source = opened.source
    reading = read_tagged(source, brought.shape, None, choices)
    found = _file_check(source, brought.name, "document", reading)
    if brought.known is None:
        return found
    ours = _check_by_name(opened, brought.known.name, choices)
    told = set(found.problems)
    more = tuple(problem for problem in ours.problems if problem not in told)
    rejected = max(found.rejected, ours.rejected)
    return msgspec.structs.replace(
        found,
        form=ours.form,
        rejected=rejected,
        accepted=found.received - rejected,
        problems=found.problems + more,
        remarks=ours.remarks,
        unlisted=max(found.unlisted, ours.unlisted),
    )


def _file_check(source: Source, schema: str, form: str, reading: TaggedReading) -> FileCheck:
    return FileCheck(
        file=source.name,
        schema=schema,
        form=form,
        received=reading.received,
        accepted=reading.accepted,
        rejected=reading.rejected,
        problems=reading.problems,
        remarks=tuple(remark_words(source.name, remark) for remark in reading.remarks),
        unlisted=reading.unlisted,
    )


class _Once(FileRules):
    """No two records of a file have the same name."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._lines: dict[tuple[object, ...], int] = {}

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        form = self._form
        for line, record in zip(lines, records, strict=True):
            key = form.key_of(record)
            first = self._lines.setdefault(key, line)
            if first != line:
                words = f"{form.key_words(key)} was seen before on line {first}"
                yield Remark(line, "", "$", words)

    def lost(self) -> None:
        """A refused line has no name."""

    def end(self) -> Iterator[Remark]:
        yield from ()


def _chosen_schema(opened: OpenedFile, schema_name: str | None) -> RecordSchema:
    """The schema named by the user, by the first record, or by that record's keys."""
    if schema_name is not None:
        return schemas().get(schema_name)
    source, first, why_empty = opened
    if why_empty is not None:
        between = ":" if why_empty[0].isdigit() else ": "
        raise BadInputError(f"{source.name}{between}{why_empty}")
    for key in ("schema", "schema_name"):
        declared = first.get(key)
        if isinstance(declared, str) and declared in schemas():
            return schemas().get(declared)
    fitting = [schema for schema in schemas() if schema.form_of(first) is not None]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(schemas().names())
    found = "fits several schemas" if fitting else "fits no schema"
    raise BadInputError(
        f"{source.name}:1: the first record {found}; name one with --schema ({known})"
    )
