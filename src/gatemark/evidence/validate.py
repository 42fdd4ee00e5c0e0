"""Check evidence files by a schema of ours or by a JSON Schema file: every line, every problem."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonschema_rs
import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.record import Problem, RecordSchema
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.diagnose import document_problems
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.shape import Kinds, Shape
from gatemark.evidence.shards import whole_file
from gatemark.evidence.small_file import read_small_file
from gatemark.evidence.source import Source, find_sources
from gatemark.evidence.strict_json import parse_strictly
from gatemark.evidence.whole_file import (
    OpenedFile,
    TaggedReading,
    UniqueNames,
    open_records,
    read_tagged,
    remark_words,
)

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 128
_ENDS: Final = (".schema.json", ".json")
_OUR_PREFIX: Final = "urn:gatemark:"


class DocumentShape(Shape):
    """Every line is a value that a JSON Schema document allows."""

    def __init__(self, validator: Any) -> None:
        super().__init__(msgspec.json.Decoder(), reads_many=False)
        self._validator = validator

    def kinds(self, batch: Sequence[object]) -> Kinds:
        return {object: batch}

    def keeps_rules(self, kinds: Kinds) -> bool:
        return all(map(self._validator.is_valid, kinds[object]))

    def problems(self, line: bytes, max_depth: int) -> tuple[Problem, ...]:
        value, problems = parse_strictly(line, max_depth=max_depth)
        if value is None and problems:
            return problems
        return (*problems, *document_problems(self._validator, value))


class SchemaFile(msgspec.Struct, frozen=True):
    """A JSON Schema file: the shape of lines, and our schema of the same name, if any."""

    name: str
    shape: DocumentShape
    known: RecordSchema | None


def is_schema_path(text: str) -> bool:
    """Return whether a schema was given as a file, not by name."""
    return text.endswith(".json") or Path(text).is_file()


def read_schema_file(path: str) -> SchemaFile:
    """Return the validator of a JSON Schema file; references to other files are refused."""
    data = read_small_file(path, MAX_BYTES)
    document, problems = parse_strictly(data, max_depth=MAX_DEPTH)
    if problems:
        raise BadInputError(tuple(f"{path}: {problem.message}" for problem in problems))
    try:
        validator = jsonschema_rs.validator_for(document, retriever=_refuse)
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise BadInputError(f"{path}: not a usable JSON Schema: {first}") from error
    return SchemaFile(name=path, shape=DocumentShape(validator), known=_find_known(path, document))


def _refuse(address: str) -> NoReturn:
    raise ValueError(f"{address} is outside the file")


def _find_known(path: str, document: object) -> RecordSchema | None:
    """Return our schema with the same id, title or file name, or None."""
    members = document if isinstance(document, dict) else {}
    names = [
        str(members.get("$id", "")).removeprefix(_OUR_PREFIX),
        str(members.get("$id", "")).rpartition("/")[2],
        str(members.get("title", "")),
        Path(path).name,
    ]
    for name in names:
        for end in ("", *_ENDS):
            plain = name.removesuffix(end)
            if plain in schemas():
                return schemas().get(plain)
    return None


class FileCheck(msgspec.Struct, frozen=True):
    """What validation found in one file.

    ``remarks`` are warnings and notes; they do not make a file invalid. ``unlisted``
    counts problems beyond those that are listed.
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
    """Check each file by a schema's name, by a schema file, or by its own records."""
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
    schema = _choose_schema(opened, schema_name).version_of(first)
    if schema.head is not None:
        return _check_headed(source, schema, choices)
    across = None if schema.across is None else schema.across()
    if schema.tag is not None:
        reading = read_tagged(source, schema, across, choices)
        kinds = ", ".join(f"{count} {kind}" for kind, count in reading.kinds.items())
        return _file_check(source, schema.name, kinds or "none", reading)
    form = (schema.form_of(first) or schema.forms[0]).strictest
    reading = read_tagged(source, form, across or UniqueNames(form), choices)
    return _file_check(source, schema.name, form.name, reading)


def _check_headed(source: Source, schema: RecordSchema, choices: ReadingChoices) -> FileCheck:
    reader = RecordReader(schema, choices)
    rules: UniqueNames | None = None
    repeated: list[str] = []
    for batch in reader.records(read_blocks(whole_file(source), choices.limits)):
        if rules is None and reader.form is not None:
            rules = UniqueNames(reader.form)
        if rules is not None:
            remarks = rules.see(reader.batch_lines, batch)
            repeated += [remark_words(source.name, remark) for remark in remarks]
    problems = reader.problems(source.name)
    if reader.received == 0:
        problems.append(f"{source.name}: contains no records")
    elif reader.received == 1 and not problems:
        problems.append(f"{source.name}: holds nothing after its first line")
    return FileCheck(
        file=source.name,
        schema=schema.name,
        form=reader.form.name if reader.form else schema.name,
        received=reader.received,
        accepted=reader.accepted,
        rejected=reader.rejected,
        problems=(*problems, *repeated[: choices.max_errors]),
        unlisted=max(0, reader.rejected - len(reader.refusals))
        + max(0, len(repeated) - choices.max_errors),
    )


def _check_by_document(
    opened: OpenedFile, brought: SchemaFile, choices: ReadingChoices
) -> FileCheck:
    """Check by a JSON Schema file and, if it is one of our schemas, by our rules as well."""
    source = opened.source
    reading = read_tagged(source, brought.shape, None, choices)
    found = _file_check(source, brought.name, "document", reading)
    if brought.known is None:
        return found
    ours = _check_by_name(opened, brought.known.name, choices)
    known = set(found.problems)
    more = tuple(problem for problem in ours.problems if problem not in known)
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


def _choose_schema(opened: OpenedFile, schema_name: str | None) -> RecordSchema:
    """Return the schema named by the user, by the first record, or by its keys."""
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
