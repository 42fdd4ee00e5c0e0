"""The first record of a file, and files that hold one JSON document over many lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gatemark.core.record import Problem
from gatemark.evidence.lines import read_blocks
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.source import Source, inspect_source
from gatemark.evidence.strict_json import parse_strictly, quoted
from gatemark.evidence.whole_file import whole_file


class OpenedFile(NamedTuple):
    """A file to be read line by line, and its first record; empty when that is no object.

    ``why_empty`` tells then what stands there instead, as far as one can tell.
    """

    source: Source
    first: dict[str, Any]
    why_empty: str | None = None


def open_records(source: Source, choices: ReadingChoices, folder: Path) -> OpenedFile:
    """The same file, or its single document in one line where it was spread over several.

    A line break inside of JSON text can only stand between tokens, so a space does as well.
    """
    depth = choices.limits.depth
    data = bytearray()
    refused = "holds no records"
    number = 1
    for block in read_blocks(whole_file(source), choices.limits):
        fresh = block.data.lstrip()
        if not data and not fresh and not block.overlong:
            number += block.data.count(b"\n")
            continue
        if not data and not block.overlong:
            line = fresh.split(b"\n", maxsplit=1)[0]
            number += block.data[: len(block.data) - len(fresh)].count(b"\n")
            value, problems = parse_strictly(line, max_depth=depth)
            is_record = isinstance(value, dict) or not problems
            if is_record or not line.startswith((b"{", b"[")):
                return _first(source, value, problems, number)
            refused = problems[0].message
        data += block.data
        if block.overlong or len(data) > choices.limits.line_bytes:
            limit = choices.limits.line_bytes
            return OpenedFile(source, {}, f"{number}: line is longer than {limit} bytes")
    if not data:
        return OpenedFile(source, {}, refused)
    line = bytes(data).replace(b"\r", b" ").replace(b"\n", b" ")
    value, _ = parse_strictly(line, max_depth=depth)
    if not isinstance(value, dict):
        return OpenedFile(source, {}, f"{number}: {refused}")
    target = folder / f"document-{len(list(folder.iterdir()))}"
    target.write_bytes(line + b"\n")
    return OpenedFile(inspect_source(str(target), name=source.name), value)


def _first(source: Source, value: Any, problems: tuple[Problem, ...], number: int) -> OpenedFile:
    if isinstance(value, dict):
        return OpenedFile(source, value)
    why = problems[0].message if problems else f"got {quoted(value)}, expected object"
    return OpenedFile(source, {}, f"{number}: {why}")
