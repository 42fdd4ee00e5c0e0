"""Input files: how to read them, their digests, shards, whole lines, one line of strict JSON."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import stat
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NoReturn

import msgspec
import numpy as np
import zstandard

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.record import KEY_SEPARATOR, Form, Problem
from gatemark.core.text import is_one_line

MAX_FILE_BYTES: Final = 16 * 1024**3


class Limits(msgspec.Struct, frozen=True):
    """Limits of one input. Exceeding one is an error, never a truncation."""

    line_bytes: int = 4 * 1024 * 1024
    total_bytes: int = MAX_FILE_BYTES
    depth: int = 64

    def __post_init__(self) -> None:
        if min(self.line_bytes, self.total_bytes, self.depth) < 1:
            raise InvalidValueError("limits must be at least 1")


OnBadLine = Literal["error", "exclude"]
OnDuplicate = Literal["error", "first", "last"]
OnUnpaired = Literal["error", "exclude"]


class ReadingChoices(msgspec.Struct, frozen=True):
    """How strictly to read: refuse bad lines and duplicates, or exclude and count them."""

    on_bad_line: OnBadLine = "error"
    on_duplicate: OnDuplicate = "error"
    on_unpaired: OnUnpaired = "error"
    check_duplicate_keys: bool = True
    max_errors: int = 20
    limits: Limits = Limits()

    def checks(self) -> dict[str, str]:
        """Return how strictly evidence was read, for its account."""
        return {
            "duplicate_keys": "checked" if self.check_duplicate_keys else "not checked",
            "on_bad_line": self.on_bad_line,
            "on_duplicate": self.on_duplicate,
            "on_unpaired": self.on_unpaired,
        }


def place(name: str, line: int, problem: Problem) -> str:
    """Return one problem as one line of text."""
    where = "" if problem.path == "$" else f" at {problem.path}"
    return f"{name}:{line}: {problem.message}{where}"


def refuse(problems: Sequence[str], choices: ReadingChoices, total: int | None = None) -> None:
    """Stop with these problems; more than ``max_errors`` are counted, not listed."""
    if not problems:
        return
    shown = tuple(problems[: choices.max_errors])
    count = max(len(problems), total or 0)
    raise BadInputError(shown, unlisted_count=count - len(shown))


def repeated_lines(places: Iterable[tuple[str, list[tuple[str, int]]]], form: Form) -> list[str]:
    """Return one message per extra occurrence of a name."""
    messages: list[str] = []
    for name, found in places:
        first_file, first_line = found[0]
        key = (name,) if form.unique is None else tuple(name.split(KEY_SEPARATOR))
        messages.extend(
            f"{file}:{line}: {form.key_words(key)} was seen before at {first_file}:{first_line}"
            for file, line in found[1:]
        )
    return messages


def reading_choices(flags: Mapping[str, Any]) -> ReadingChoices:
    """Return the choices of a command's reading options."""
    return ReadingChoices(
        on_bad_line=flags["on_bad_line"],
        on_duplicate=flags["on_duplicate"],
        on_unpaired=flags.get("on_unpaired", "error"),
        check_duplicate_keys=flags["duplicate_key_check"],
        max_errors=flags["max_errors"],
        limits=Limits(line_bytes=flags["max_line_bytes"]),
    )


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


def _regular(path: str, shown: str, hint: str = "") -> os.stat_result:
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


def read_small_file(path: str, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; refuse a larger one."""
    try:
        is_large = _regular(path, path).st_size > max_bytes
        with open(path, "rb") as stream:  # noqa: PTH123
            # A file can grow while it is read.
            data = b"" if is_large else stream.read(max_bytes + 1)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if is_large or len(data) > max_bytes:
        raise BadInputError(f"{path}: larger than {max_bytes} bytes")
    return data


def inspect_source(path: str, *, name: str | None = None) -> Source:
    """Return a file's size and compression; refuse what is not a regular file."""
    shown = name or path
    try:
        info = _regular(path, shown, "; '-' reads standard input")
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


def split_sources(sources: tuple[Source, ...], parts: int, min_bytes: int) -> tuple[Shard, ...]:
    """Return line-aligned byte ranges, at most ``parts`` per file; compressed files stay whole."""
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


def whole_file(source: Source) -> Shard:
    """Return a file as one shard."""
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    return shard


_CUT_BYTES: Final = 1 << 24
"""How far to look for the end of a line. Parts need not be equal, so none is fine."""


def _line_starts(source: Source, pieces: int) -> list[int]:
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


MAX_PINNED_BYTES: Final = 1024**3


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
    ((_, _, size, _),) = marks_of((source,))
    if size != source.byte_count:
        raise BadInputError(f"{source.name}: changed while it was read")
    return EvidenceFile(name=source.name, digest=DIGEST_PREFIX + found, byte_count=size)


def marks_of(sources: Sequence[Source]) -> tuple[tuple[int, int, int, int], ...]:
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
        marks = marks_of(sources) if must_stay else ()
        yield sources
        now = marks_of(sources) if must_stay else ()
        if marks != now:
            changed = [
                f"{source.name}: changed while it was read"
                for source, before, after in zip(sources, marks, now, strict=True)
                if before != after
            ]
            raise BadInputError(tuple(changed))


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
    chunks = _unpacked_chunks(shard, limits, block_bytes)
    blocks = _cut_lines(chunks if watch is None else _watched(chunks, watch), limits)
    if shard.start == 0:
        for first in blocks:
            yield Block(first.data.removeprefix(_BOM), overlong=first.overlong)
            break
    yield from blocks


def small_blocks(block: Block) -> Iterator[Block]:
    """Yield a large block in parts of the usual size."""
    data, start = block.data, 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + BLOCK_BYTES) + 1
        if end <= start:
            end = data.find(b"\n", start) + 1 or len(data)
        yield Block(data[start:end], overlong=block.overlong)
        start = end


def _watched(chunks: Iterator[bytes], watch: Callable[[bytes], object]) -> Iterator[bytes]:
    for chunk in chunks:
        watch(chunk)
        yield chunk


def _unpacked_chunks(shard: Shard, limits: Limits, block_bytes: int) -> Iterator[bytes]:
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
        # Whatever can be unpacked is given before damage is told.
        while chunk := stream.read1(block_bytes):
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
        raise EOFError("the last frame is incomplete")


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
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield from _screened(b"".join((carry, memoryview(chunk)[:cut])), limits)
            carry = b""
        carry += memoryview(chunk)[cut:]
        if len(carry) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
            carry, skipping = b"", True
    if carry:
        yield from _screened(carry + b"\n", limits)


def _screened(data: bytes, limits: Limits) -> Iterator[Block]:
    """Yield over-long lines as blocks of their own."""
    if len(data) <= limits.line_bytes:
        yield Block(data)
        return
    for line in data[:-1].split(b"\n"):
        if len(line) > limits.line_bytes:
            yield Block(b"\n", overlong=True)
        else:
            yield Block(line + b"\n")


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _BadJSONError(ValueError):
    pass


MAX_CONTAINERS: Final = 1_000_000


def refuse_many_containers(path: str, data: bytes) -> None:
    """Refuse a document whose arrays and objects would take gigabytes once they are read."""
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise BadInputError(f"{path}: has more than {MAX_CONTAINERS:,} arrays and objects")


def parse_strictly(
    line: bytes, *, max_depth: int, show: bool = True
) -> tuple[Any, tuple[Problem, ...]]:
    """Return the value of a line and its problems as JSON; the value is None if unreadable.

    Without ``show`` no key of the line is repeated in a message.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, (Problem("$", f"not UTF-8: byte 0x{line[error.start]:02x} at {error.start}"),)
    repeated: list[str] = []

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            repeated.extend(sorted(name for name, count in counts.items() if count > 1))
        return result

    try:
        value = json.loads(
            text,
            object_pairs_hook=object_of,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        return None, (Problem("$", f"not JSON: {error.msg} at column {error.colno}"),)
    except _BadJSONError as error:
        return None, (Problem("$", f"not JSON: {error}"),)
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return None, (Problem("$", f"not readable: {why} (limit {max_depth} levels)"),)
    if "\\u" in text and _has_lone_surrogate(value):
        return None, (Problem("$", "not JSON: half of a surrogate pair stands alone"),)
    problems = [
        Problem("$", f"{f'key {quoted(name)}' if show else 'a key'} appears more than once")
        for name in repeated
    ]
    if depth(value) > max_depth:
        problems.append(Problem("$", f"nested deeper than {max_depth} levels"))
    return value, tuple(problems)


def _refuse_constant(name: str) -> NoReturn:
    raise _BadJSONError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _BadJSONError(f"{quoted(digits)} is too large for a number")
    return number


def _has_lone_surrogate(value: object) -> bool:
    """Return whether a text or key has a lone surrogate, which UTF-8 cannot encode."""
    return any(
        _SURROGATE.search(text)
        for item, _ in _inside(value)
        for text in (item if isinstance(item, dict) else (item,) if isinstance(item, str) else ())
    )


def depth(value: object) -> int:
    """Return the nesting depth of a value."""
    if isinstance(value, dict) and not any(isinstance(one, dict | list) for one in value.values()):
        return 1
    return max(
        (level for item, level in _inside(value) if isinstance(item, dict | list)), default=0
    )


def _inside(value: object) -> Iterator[tuple[object, int]]:
    """Yield a value and everything in it with its level, without recursion."""
    pending = [(value, 1)]
    while pending:
        item, level = pending.pop()
        yield item, level
        children = (
            item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        )
        pending.extend((child, level + 1) for child in children)


def quoted(value: object, limit: int = 60) -> str:
    """Return a value as JSON, shortened for a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
