"""Getting evidence ready: finding the files, naming their bytes, pinning what must be there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.record import is_one_line
from gatemark.evidence.limits import Limits
from gatemark.evidence.source import STDIN, Source, inspect_source, spool_stdin

MAX_PINNED_BYTES: Final = 1024**3


def find_sources(paths: Sequence[str], limits: Limits, spool: Path) -> tuple[Source, ...]:
    """The files behind the names a user gave; ``-`` is standard input, at most once."""
    if list(paths).count(STDIN) > 1:
        raise BadInputError("standard input can be read only once")
    return tuple(
        spool_stdin(spool, limits) if path == STDIN else inspect_source(path) for path in paths
    )


def digest_source(source: Source) -> EvidenceFile:
    """Name a file by its bytes as they lie on disk."""
    with open(source.path, "rb", buffering=0) as stream:  # noqa: PTH123
        found = hashlib.file_digest(stream, "sha256").hexdigest()
        size = os.fstat(stream.fileno()).st_size
    if size != source.byte_count:
        raise BadInputError(f"{source.name}: changed while it was read")
    return EvidenceFile(name=source.name, digest=DIGEST_PREFIX + found, byte_count=size)


def marks_of(sources: Sequence[Source]) -> tuple[tuple[int, ...], ...]:
    """What any write to the files would change; to be compared after they were read."""
    try:
        found = [os.stat(source.path) for source in sources]  # noqa: PTH116
    except OSError as error:
        raise BadInputError(f"{error.filename}: {error.strerror or error}") from error
    return tuple((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns) for info in found)


def refuse_changed(sources: Sequence[Source], marks: tuple[tuple[int, ...], ...]) -> None:
    """Refuse files that somebody wrote to while they were read.

    They are read more than once: what was digested would not be what was judged.
    """
    changed = [
        f"{source.name}: changed while it was read"
        for source, before, now in zip(sources, marks, marks_of(sources), strict=True)
        if before != now
    ]
    if changed:
        raise BadInputError(tuple(changed))


def read_expected_ids(path: str) -> frozenset[str]:
    """The pinned ids of a list, one per line."""
    source = inspect_source(path)
    if source.byte_count > MAX_PINNED_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_PINNED_BYTES} bytes")
    try:
        text = Path(source.path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    first_lines: dict[str, int] = {}
    # Only line ends part ids: others, such as U+2028, may stand inside of one.
    for number, line in enumerate(text.split("\n"), start=1):
        name = line.strip(" \t\r")
        if not name:
            continue
        if not is_one_line(name):
            raise BadInputError(f"{path}:{number}: id {name!r} has a control character")
        first = first_lines.setdefault(name, number)
        if first != number:
            raise BadInputError(f"{path}:{number}: pins {name!r} again, first on line {first}")
    if not first_lines:
        raise BadInputError(f"{path}: pins no ids")
    return frozenset(first_lines)
