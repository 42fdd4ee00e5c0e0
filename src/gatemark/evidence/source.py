"""Input files: find them, tell their compression, digest them, notice when they change."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.reading_choices import MAX_FILE_BYTES, Limits

Compression = Literal["none", "gzip", "zstd"]

STDIN = "-"
_MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


class Source(msgspec.Struct, frozen=True):
    """One readable file: its path, its shown name and its compression."""

    path: str
    name: str
    compression: Compression
    byte_count: int


def stat_regular_file(path: str, shown: str, hint: str = "") -> os.stat_result:
    """Return what the system says about a regular file; refuse anything else."""
    try:
        info = os.stat(path)  # noqa: PTH116 - a Path would normalise what the user typed
    except ValueError as error:
        # A file can name another one by a text that no path has: with a null, or half a character.
        raise BadInputError(f"{shown}: no file can have this name: {error}") from error
    if stat.S_ISDIR(info.st_mode):
        raise BadInputError(f"{shown}: is a directory, expected a file")
    if not stat.S_ISREG(info.st_mode):
        # Evidence is read more than once, and a pipe may keep its reader waiting for ever.
        raise BadInputError(f"{shown}: expected a regular file{hint}")
    return info


def inspect_source(path: str, *, name: str | None = None) -> Source:
    """Return a file's size and compression; refuse what is not a regular file."""
    shown = name or path
    try:
        info = stat_regular_file(path, shown, "; '-' reads standard input")
        with open(path, "rb") as stream:  # noqa: PTH123
            head = stream.read(4)
    except OSError as error:
        raise BadInputError(f"{shown}: {error.strerror or error}") from error
    if info.st_size > MAX_FILE_BYTES:
        # Before anything is read: a hole in a file is as long as its maker likes.
        raise BadInputError(f"{shown}: is larger than {MAX_FILE_BYTES} bytes; split it")
    if head[:2] in _WIDE_BOMS:
        raise BadInputError(f"{shown}:1: is UTF-16, expected UTF-8")
    packed: Iterator[Compression] = (kind for magic, kind in _MAGIC if head.startswith(magic))
    return Source(path, shown, next(packed, "none"), info.st_size)


def spool_stdin(folder: Path, limits: Limits) -> Source:
    """Copy standard input to a file, because evidence may have to be read twice."""
    target = folder / "stdin"
    left = limits.total_bytes
    with target.open("wb") as out:
        while chunk := sys.stdin.buffer.read(1 << 20):
            left -= len(chunk)
            if left < 0:
                raise BadInputError("<stdin>: is larger than the size limit")
            out.write(chunk)
    return inspect_source(str(target), name="<stdin>")


def find_sources(paths: Sequence[str], limits: Limits, spool: Path) -> tuple[Source, ...]:
    """Return the files of the names that a user gave; ``-`` is standard input, at most once."""
    if list(paths).count(STDIN) > 1:
        raise BadInputError("standard input can be read only once")
    return tuple(
        spool_stdin(spool, limits) if path == STDIN else inspect_source(path) for path in paths
    )


def digest_source(source: Source) -> EvidenceFile:
    """Return a file with the digest of its bytes on disk."""
    with open(source.path, "rb", buffering=0) as stream:  # noqa: PTH123
        return digested(source, hashlib.file_digest(stream, "sha256").hexdigest())


def digested(source: Source, found: str) -> EvidenceFile:
    """Return a file with the digest of what was read; refuse it if it has another size by now."""
    ((_, _, size, _),) = read_file_marks((source,))
    if size != source.byte_count:
        raise BadInputError(f"{source.name}: changed while it was read")
    return EvidenceFile(name=source.name, digest=DIGEST_PREFIX + found, byte_count=size)


def read_file_marks(sources: Sequence[Source]) -> tuple[tuple[int, int, int, int], ...]:
    """Return the identity of files, which any write changes; compare it after reading."""
    try:
        found = [os.stat(source.path) for source in sources]  # noqa: PTH116
    except OSError as error:
        raise BadInputError(f"{error.filename}: {error.strerror or error}") from error
    return tuple((info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns) for info in found)


@contextmanager
def opened_sources(
    paths: Sequence[str], limits: Limits, *, must_stay: bool = False
) -> Iterator[tuple[Source, ...]]:
    """Find the files that a user gave, while they are read; ``-`` is standard input, at most once.

    With ``must_stay``, files that changed meanwhile are refused: files are read more than once, so
    the digest might not match what was judged.
    """
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        sources = find_sources(paths, limits, Path(folder))
        marks = read_file_marks(sources) if must_stay else ()
        yield sources
        now = read_file_marks(sources) if must_stay else ()
        if marks != now:
            changed = [
                f"{source.name}: changed while it was read"
                for source, before, after in zip(sources, marks, now, strict=True)
                if before != after
            ]
            raise BadInputError(tuple(changed))
