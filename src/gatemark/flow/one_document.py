"""Files that hold one JSON document over many lines, made into one line."""

from __future__ import annotations

from pathlib import Path

from gatemark.flow.admitted import whole_file
from gatemark.flow.reading import ReadingChoices
from gatemark.intake.lines import read_blocks
from gatemark.intake.source import Source, inspect_source
from gatemark.intake.strict_json import parse_strictly


def as_one_line(source: Source, choices: ReadingChoices, folder: Path) -> Source:
    """The same file, or its single document in one line where it was spread over several.

    A line break inside of JSON text can only stand between tokens, so a space does as well.
    """
    data = bytearray()
    for block in read_blocks(whole_file(source), choices.limits):
        if not data:
            first = block.data.lstrip().split(b"\n", maxsplit=1)[0]
            value, problems = parse_strictly(first, max_depth=choices.limits.depth)
            if not problems or not first.startswith((b"{", b"[")):
                return source
        data += block.data
        if block.overlong or len(data) > choices.limits.line_bytes:
            return source
    line = bytes(data).replace(b"\r", b" ").replace(b"\n", b" ")
    value, _ = parse_strictly(line, max_depth=choices.limits.depth)
    if not isinstance(value, dict):
        return source
    target = folder / f"document-{len(list(folder.iterdir()))}"
    target.write_bytes(line + b"\n")
    return inspect_source(str(target), name=source.name)
