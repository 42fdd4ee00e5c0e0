"""Streaming whole lines out of a shard, plain or packed, in blocks of bounded size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
import numpy as np
import zstandard

from gatemark.core.errors import BadInputError
from gatemark.evidence.limits import Limits
from gatemark.evidence.source import Shard

BLOCK_BYTES = 32 * 1024
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
    watch: Callable[[bytes], None] | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Every line of a shard exactly once, in order; ``watch`` sees the unpacked bytes pass by."""
    chunks = _unpacked_chunks(shard, limits, block_bytes)
    blocks = _cut_lines(chunks if watch is None else _watched(chunks, watch), limits)
    if shard.start == 0:
        for first in blocks:
            yield Block(first.data.removeprefix(_BOM), overlong=first.overlong)
            break
    yield from blocks


def _watched(chunks: Iterator[bytes], watch: Callable[[bytes], None]) -> Iterator[bytes]:
    for chunk in chunks:
        watch(chunk)
        yield chunk


def _unpacked_chunks(shard: Shard, limits: Limits, block_bytes: int) -> Iterator[bytes]:
    """The shard's bytes after unpacking, with damage and excess turned into errors."""
    source = shard.source
    seen = source.byte_count if source.compression == "none" else 0
    line = 1
    try:
        with open(source.path, "rb") as raw:  # noqa: PTH123
            for chunk in _CHUNKERS[source.compression](raw, shard, block_bytes):
                if source.compression != "none":
                    seen += len(chunk)
                if seen > limits.total_bytes:
                    raise BadInputError(
                        f"{source.name}: holds more than {limits.total_bytes} bytes"
                    )
                yield chunk
                if source.compression != "none":
                    line += int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE))
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise BadInputError(
            f"{source.name}:{line}: {source.compression} data is damaged or truncated ({error})"
        ) from error
    except OSError as error:
        raise BadInputError(f"{source.name}: {error.strerror or error}") from error


def _plain_chunks(raw: BinaryIO, shard: Shard, block_bytes: int) -> Iterator[bytes]:
    raw.seek(shard.start)
    left = shard.size
    while left > 0 and (chunk := raw.read(min(block_bytes, left))):
        left -= len(chunk)
        yield chunk
    if left > 0:
        raise EOFError(f"the file became {left} bytes shorter while it was read")


def _gzip_chunks(raw: BinaryIO, _shard: Shard, block_bytes: int) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=raw) as stream:
        while chunk := stream.read(block_bytes):
            yield chunk


def _zstd_chunks(raw: BinaryIO, _shard: Shard, _block_bytes: int) -> Iterator[bytes]:
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
        raise EOFError("the last frame has no end")


_CHUNKERS = {"none": _plain_chunks, "gzip": _gzip_chunks, "zstd": _zstd_chunks}


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
        data = carry + chunk if carry else chunk
        cut = data.rfind(b"\n") + 1
        if cut:
            yield from _screened(data[:cut], limits)
        carry = data[cut:]
        if len(carry) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
            carry, skipping = b"", True
    if carry:
        yield from _screened(carry + b"\n", limits)


def _screened(data: bytes, limits: Limits) -> Iterator[Block]:
    """Set over-long lines apart; they can only hide in data that is itself that long."""
    if len(data) <= limits.line_bytes:
        yield Block(data)
        return
    for line in data[:-1].split(b"\n"):
        if len(line) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
        else:
            yield Block(line + b"\n")
