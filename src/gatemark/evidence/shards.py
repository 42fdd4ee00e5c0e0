"""Parts of an input file: byte ranges of whole lines, which can be read apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import msgspec

from gatemark.evidence.source import Source


class Shard(msgspec.Struct, frozen=True):
    """The bytes [start, end) of a source: whole lines, or the whole of a packed file."""

    index: int
    source: Source
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes of the file in this shard."""
        return self.end - self.start


def split_sources(sources: tuple[Source, ...], parts: int, min_bytes: int) -> tuple[Shard, ...]:
    """Return line-aligned byte ranges, at most ``parts`` per file; compressed files stay whole."""
    shards: list[Shard] = []
    for source in sources:
        pieces = 1
        if source.compression == "none":
            pieces = max(1, min(parts, source.byte_count // min_bytes))
        cuts = [0, *_find_line_starts(source, pieces), source.byte_count]
        for start, end in pairwise(cuts):
            if start < end or len(cuts) == 2:
                shards.append(Shard(index=len(shards), source=source, start=start, end=end))
    return tuple(shards)


def whole_file(source: Source) -> Shard:
    """Return a file as one shard."""
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    return shard


_CUT_BYTES: Final = 1 << 24
"""How far to look for the end of a line. Parts need not be equal, so none is fine."""


def _find_line_starts(source: Source, pieces: int) -> list[int]:
    """Return the first line start near each even division of a file; none inside a huge line."""
    starts: list[int] = []
    if pieces == 1:
        return starts
    with open(source.path, "rb") as stream:  # noqa: PTH123
        for piece in range(1, pieces):
            place = source.byte_count * piece // pieces
            stream.seek(place)
            while stream.tell() < place + _CUT_BYTES and (chunk := stream.read(1 << 16)):
                newline = chunk.find(b"\n")
                if newline >= 0:
                    starts.append(stream.tell() - len(chunk) + newline + 1)
                    break
    return sorted(set(starts) - {source.byte_count})
