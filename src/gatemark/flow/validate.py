"""Checking evidence files against their schemas, every line, every problem."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.record import Form, RecordSchema
from gatemark.flow.admitted import first_record, whole_file
from gatemark.flow.evidence import find_sources
from gatemark.flow.plugins import schemas
from gatemark.flow.reading import ReadingChoices, place
from gatemark.intake.admit import Admission
from gatemark.intake.lines import read_blocks
from gatemark.intake.source import Source


class FileCheck(msgspec.Struct, frozen=True):
    """What validation found in one file."""

    file: str
    schema: str
    form: str
    received: int
    accepted: int
    rejected: int
    problems: tuple[str, ...]


def validate_files(
    paths: Sequence[str],
    schema_name: str | None,
    choices: ReadingChoices,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[FileCheck]:
    """Check files one after the other."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for source in find_sources(paths, choices.limits, Path(folder)):
            schema, form = _chosen_form(source, schema_name, choices)
            yield _check(source, schema, form, choices)
            if on_progress is not None:
                on_progress(source.byte_count, source.byte_count)


def _check(source: Source, schema: RecordSchema, form: Form, choices: ReadingChoices) -> FileCheck:
    reader = Admission(
        form.strictest, choices.limits, check_duplicate_keys=True, max_refusals=choices.max_errors
    )
    seen: dict[tuple[object, ...], int] = {}
    repeated: list[str] = []
    for batch in reader.records(read_blocks(whole_file(source), choices.limits)):
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
    problems.extend(repeated)
    return FileCheck(
        file=source.name,
        schema=schema.name,
        form=form.name,
        received=reader.received,
        accepted=reader.accepted,
        rejected=reader.rejected,
        problems=tuple(problems),
    )


def _chosen_form(
    source: Source, schema_name: str | None, choices: ReadingChoices
) -> tuple[RecordSchema, Form]:
    """The schema named by the user or by the first record, and the form of that record."""
    first = first_record(source, choices)
    candidates = [schemas().get(schema_name)] if schema_name else list(schemas())
    declared = first.get("schema")
    if schema_name is None and isinstance(declared, str) and declared in schemas():
        candidates = [schemas().get(declared)]
    fitting = [
        (schema, form) for schema in candidates if (form := schema.form_of(first)) is not None
    ]
    if len(fitting) == 1:
        return fitting[0]
    if schema_name or len(candidates) == 1:
        return candidates[0], candidates[0].forms[0]
    known = ", ".join(schemas().names())
    found = "fits several schemas" if fitting else "fits no schema"
    raise BadInputError(
        f"{source.name}:1: the first record {found}; name one with --schema ({known})"
    )
