"""The first record of a file, and files that hold one JSON document over many lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gatemark.flow.admitted import whole_file
from gatemark.flow.reading import ReadingChoices
from gatemark.intake.lines import read_blocks
from gatemark.intake.source import Source, inspect_source
from gatemark.intake.strict_json import parse_strictly


class Opened(NamedTuple):
    """A file to be read line by line, and its first record; empty when that is no object."""

    source: Source
    first: dict[str, Any]


def open_records(source: Source, choices: ReadingChoices, folder: Path) -> Opened:
    """The same file, or its single document in one line where it was spread over several.

    A line break inside of JSON text can only stand between tokens, so a space does as well.
    """
    depth = choices.limits.depth
    data = bytearray()
    for block in read_blocks(whole_file(source), choices.limits):
        fresh = block.data.lstrip()
        if not data and not fresh:
            continue
        if not data:
            line = fresh.split(b"\n", maxsplit=1)[0]
            value, problems = parse_strictly(line, max_depth=depth)
            if not problems or not line.startswith((b"{", b"[")):
                return Opened(source, value if isinstance(value, dict) else {})
        data += block.data
        if block.overlong or len(data) > choices.limits.line_bytes:
            return Opened(source, {})
    line = bytes(data).replace(b"\r", b" ").replace(b"\n", b" ")
    value, _ = parse_strictly(line, max_depth=depth)
    if not isinstance(value, dict):
        return Opened(source, {})
    target = folder / f"document-{len(list(folder.iterdir()))}"
    target.write_bytes(line + b"\n")
    return Opened(inspect_source(str(target), name=source.name), value)
