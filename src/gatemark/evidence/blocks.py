"""The lines of a shard: unpack its bytes and cut them into blocks of whole lines."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
import numpy as np
import zstandard

from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.shards import Shard

BLOCK_BYTES = 256 * 1024
# One kilobyte of zstd can unpack to about 32 MB at worst; a larger piece would let a small
# hostile file fill the memory before the size limit is looked at.
_ZSTD_PIECE_BYTES = 1024
_BOM = b"\xef\xbb\xbf"
_NEWLINE = ord("\n")


class Block(msgspec.Struct, frozen=True):
    """Some whole lines. An over-long line comes alone, cut short, with ``overlong`` set."""

    data: bytes
    overlong: bool = False


def read_blocks(
    shard: Shard,
    limits: Limits,
    watch: Callable[[bytes], object] | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield every line of a shard once, in order; ``watch`` is called with the unpacked bytes."""
    chunks = _read_chunks(shard, limits, block_bytes)
    blocks = _cut_lines(chunks if watch is None else _show_chunks(chunks, watch), limits)
    if shard.start == 0:
        for first in blocks:
            yield Block(first.data.removeprefix(_BOM), overlong=first.overlong)
            break
    yield from blocks


def _show_chunks(chunks: Iterator[bytes], watch: Callable[[bytes], object]) -> Iterator[bytes]:
    for chunk in chunks:
        watch(chunk)
        yield chunk


def _read_chunks(shard: Shard, limits: Limits, block_bytes: int) -> Iterator[bytes]:
    """Yield the unpacked bytes of a shard; raise errors for damage and excess."""
    source = shard.source
    seen = source.byte_count if source.compression == "none" else 0
    line = 1
    try:
        with open(source.path, "rb") as raw:  # noqa: PTH123
            for chunk in _CHUNKERS[source.compression](raw, shard, block_bytes):
                if source.compression != "none":
                    seen += len(chunk)
                if seen > limits.total_bytes:
                    raise BadInputError(f"{source.name}: is larger than {limits.total_bytes} bytes")
                yield chunk
                if source.compression != "none":
                    line += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE))
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise BadInputError(
            f"{source.name}:{line}: {source.compression} data is damaged or truncated ({error})"
        ) from error
    except OSError as error:
        raise BadInputError(f"{source.name}: {error.strerror or error}") from error


def _read_plain(raw: BinaryIO, shard: Shard, block_bytes: int) -> Iterator[bytes]:
    raw.seek(shard.start)
    left = shard.size
    while left > 0 and (chunk := raw.read(min(block_bytes, left))):
        left -= len(chunk)
        yield chunk
    if left > 0:
        raise EOFError(f"the file became {left} bytes shorter while it was read")


def _read_gzip(raw: BinaryIO, _shard: Shard, block_bytes: int) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=raw) as stream:
        # Whatever can be unpacked is given before damage is told.
        while chunk := stream.read1(block_bytes):
            yield chunk


def _read_zstd(raw: BinaryIO, _shard: Shard, _block_bytes: int) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor().decompressobj()
    inside_frame = False
    while piece := raw.read(_ZSTD_PIECE_BYTES):
        while piece:
            inside_frame = True
            if chunk := frame.decompress(piece):
                yield chunk
            piece = b""
            if frame.eof:
                piece = frame.unused_data
                frame = zstandard.ZstdDecompressor().decompressobj()
                inside_frame = False
    if inside_frame:
        raise EOFError("the last frame is incomplete")


_CHUNKERS = {"none": _read_plain, "gzip": _read_gzip, "zstd": _read_zstd}


def _cut_lines(chunks: Iterator[bytes], limits: Limits) -> Iterator[Block]:
    """Regroup chunks so that every block ends with a newline."""
    carry = b""
    skipping = False
    for fresh in chunks:
        chunk = fresh
        if skipping:
            _, found, chunk = chunk.partition(b"\n")
            if not found:
                continue
            skipping = False
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield from _separate_overlong_lines(b"".join((carry, memoryview(chunk)[:cut])), limits)
            carry = b""
        carry += memoryview(chunk)[cut:]
        if len(carry) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
            carry, skipping = b"", True
    if carry:
        yield from _separate_overlong_lines(carry + b"\n", limits)


def _separate_overlong_lines(data: bytes, limits: Limits) -> Iterator[Block]:
    """Yield over-long lines as blocks of their own."""
    if len(data) <= limits.line_bytes:
        yield Block(data)
        return
    for line in data[:-1].split(b"\n"):
        if len(line) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
        else:
            yield Block(line + b"\n")
