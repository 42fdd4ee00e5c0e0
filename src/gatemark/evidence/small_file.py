"""Files that are read as a whole: bytes, text, and a list of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.core.text import is_one_line
from gatemark.evidence.source import inspect_source, stat_regular_file


def read_small_file(path: str, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; refuse a larger one."""
    try:
        is_large = stat_regular_file(path, path).st_size > max_bytes
        with open(path, "rb") as stream:  # noqa: PTH123
            # A file can grow while it is read.
            data = b"" if is_large else stream.read(max_bytes + 1)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_large or len(data) > max_bytes:
        raise BadInputError(f"{path}: larger than {max_bytes} bytes")
    return data


MAX_PINNED_BYTES: Final = 1024**3


def read_text_file(path: str, max_bytes: int) -> str:
    """Return the text of a file; refuse a large or binary one."""
    if inspect_source(path).byte_count > max_bytes:
        raise BadInputError(f"{path}: is larger than {max_bytes} bytes")
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error


def read_expected_ids(path: str) -> frozenset[str]:
    """Return the pinned ids of a file, one per line."""
    first_lines: dict[str, int] = {}
    # Only line ends part ids: others, such as U+2028, may stand inside of one.
    for number, line in enumerate(read_text_file(path, MAX_PINNED_BYTES).split("\n"), start=1):
        name = line.strip(" \t\r")
        if not name:
            continue
        if not is_one_line(name):
            raise BadInputError(f"{path}:{number}: id {name!r} has a control character")
        first = first_lines.setdefault(name, number)
        if first != number:
            raise BadInputError(f"{path}:{number}: repeats id {name!r} of line {first}")
    if not first_lines:
        raise BadInputError(f"{path}: contains no ids")
    return frozenset(first_lines)
