"""Input files: what they are, and how they divide into shards."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.limits import Limits

Compression = Literal["none", "gzip", "zstd"]

STDIN = "-"
_MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")


class Source(msgspec.Struct, frozen=True):
    """One readable file: where it is, what to call it, how it is packed."""

    path: str
    name: str
    compression: Compression
    byte_count: int


class Shard(msgspec.Struct, frozen=True):
    """The bytes [start, end) of a source: whole lines, or the whole of a packed file."""

    index: int
    source: Source
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes of the file this shard covers."""
        return self.end - self.start


def inspect_source(path: str, *, name: str | None = None) -> Source:
    """Look at a file before reading it; refuse what is not one."""
    shown = name or path
    try:
        info = os.stat(path)  # noqa: PTH116 - a Path would normalise what the user typed
        if stat.S_ISDIR(info.st_mode):
            raise BadInputError(f"{shown}: is a directory, expected a file")
        if not stat.S_ISREG(info.st_mode):
            # Evidence is read more than once, and a pipe may keep its reader waiting for ever.
            raise BadInputError(f"{shown}: is no regular file; '-' reads standard input")
        with open(path, "rb") as stream:  # noqa: PTH123
            head = stream.read(4)
    except OSError as error:
        raise BadInputError(f"{shown}: {error.strerror or error}") from error
    if head[:2] in _WIDE_BOMS:
        raise BadInputError(f"{shown}:1: is UTF-16, expected UTF-8")
    compression: Compression = "none"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            compression = kind
    return Source(path=path, name=shown, compression=compression, byte_count=info.st_size)


def spool_stdin(folder: Path, limits: Limits, stream: BinaryIO | None = None) -> Source:
    """Copy standard input to a file, because evidence may have to be read twice."""
    target = folder / "stdin"
    incoming = stream or sys.stdin.buffer
    with target.open("wb") as out:
        shutil.copyfileobj(_Bounded(incoming, limits.total_bytes), out, 1 << 20)
    return inspect_source(str(target), name="<stdin>")


class _Bounded:
    """A reader that stops with an error once too much has passed through it."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise BadInputError("<stdin>: is larger than the size limit")
        return data


def split_sources(sources: tuple[Source, ...], parts: int, min_bytes: int) -> tuple[Shard, ...]:
    """Line-aligned byte ranges, at most ``parts`` per source; packed files stay whole."""
    shards: list[Shard] = []
    for source in sources:
        pieces = 1
        if source.compression == "none":
            pieces = max(1, min(parts, source.byte_count // min_bytes))
        cuts = [0, *_line_starts(source, pieces), source.byte_count]
        for start, end in pairwise(cuts):
            if start < end or len(cuts) == 2:
                shards.append(Shard(index=len(shards), source=source, start=start, end=end))
    return tuple(shards)


def _line_starts(source: Source, pieces: int) -> list[int]:
    """The first line start at or after each even division of a file, in rising order."""
    starts: list[int] = []
    if pieces == 1:
        return starts
    with open(source.path, "rb") as stream:  # noqa: PTH123
        for piece in range(1, pieces):
            stream.seek(source.byte_count * piece // pieces)
            while chunk := stream.read(1 << 16):
                newline = chunk.find(b"\n")
                if newline >= 0:
                    starts.append(stream.tell() - len(chunk) + newline + 1)
                    break
    return sorted(set(starts) - {source.byte_count})
