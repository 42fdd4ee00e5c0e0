"""Read decisions from files: one JSON document, or one per line, each fully checked."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import inspect_source
from gatemark.evidence.strict_json import parse_strictly, refuse_many_containers
from gatemark.release.attribution.decision import NAME, PlannedDecision

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 64
SHOWN_PROBLEMS: Final = 20


def read_decisions(path: str) -> tuple[PlannedDecision, ...]:
    """Return the decisions of a file; an error lists everything wrong with a line."""
    data = read_bounded(path).removeprefix(codecs.BOM_UTF8)
    lines = data.splitlines() if _is_lines(data) else [data]
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}" if len(lines) > 1 else path
        record, problems = _read_record(line)
        if record is None or problems:
            raise BadInputError(
                tuple(f"{place}: {problem}" for problem in problems[:SHOWN_PROBLEMS]),
                unlisted_count=max(0, len(problems) - SHOWN_PROBLEMS),
            )
        found.append(record)
    if not found:
        raise BadInputError(f"{path}: contains no decisions")
    return tuple(found)


def find_problems(decision: PlannedDecision) -> list[str]:
    """Return what is wrong with a decision: plan, versions, or numbers that cannot be sealed."""
    form = schemas().get(NAME).form("decision")
    found = [f"{one.message} at {one.path}" for rule in form.rules for one in rule(decision)]
    try:
        digest(decision)
    except InvalidValueError as error:
        found.append(str(error))
    return found


def read_bounded(path: str) -> bytes:
    """Return the bytes of a file; raise if it is too large."""
    try:
        if inspect_source(path).byte_count > MAX_FILE_BYTES:
            raise BadInputError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    refuse_many_containers(path, data)
    return data


def _read_record(line: bytes) -> tuple[PlannedDecision | None, list[str]]:
    value, problems = parse_strictly(line, max_depth=MAX_DEPTH)
    if problems:
        return None, [f"{one.message} at {one.path}" for one in problems]
    try:
        record = msgspec.convert(value, PlannedDecision)
    except msgspec.ValidationError as error:
        return None, [str(error)]
    return record, find_problems(record)


def _is_lines(data: bytes) -> bool:
    """Return whether the first line is a complete document."""
    first = data.lstrip().split(b"\n", 1)[0]
    try:
        msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
