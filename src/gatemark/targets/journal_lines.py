"""Lines of a journal: JSON, each of which ends in a ``check`` over the bytes before it.

The check needs the key of the journal if there is one: only its holders can write a line that is
read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.port import Call, CallError, CallPart, Reply

VERSION: Final = 1
MAX_LINE_BYTES: Final = 256 * 1024 * 1024
_CHECK_BYTES: Final = 8
TAIL_BYTES: Final = len(b',"check":""}') + 2 * _CHECK_BYTES

_encode = msgspec.json.Encoder().encode
# Keys are computed once per sample: the C encoder is ten times faster than RFC 8785 in Python,
# accepts integers of any size, and refuses NaN. They are used in this file only, never sealed.
_encode_key = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
).encode


class JournalEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished call."""

    v: int
    key: str
    id: str
    epoch: int
    attempts: int
    reply: Reply | None = None
    error: CallError | None = None

    def __post_init__(self) -> None:
        if (self.reply is None) == (self.error is None):
            raise InvalidValueError(
                f"journal entry {self.id!r} needs a reply or an error, not both"
            )


def compute_call_key(pins: str, call: Call, reads: frozenset[CallPart]) -> str:
    """Return the digest of everything that can change the reply: pins, epoch, parts read."""
    content: dict[str, Any] = {part: getattr(call, part) for part in reads}
    try:
        text = _encode_key([pins, call.epoch, content])
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(
            f"call {call.id!r}, epoch {call.epoch} must hold plain JSON: {error}"
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()


def encode_line(entry: JournalEntry, key: bytes = b"") -> bytes:
    """Encode the entry as one line with its check."""
    body = _encode(entry)
    return body[:-1] + b',"check":"' + _compute_check(body, key) + b'"}\n'


def decode_line(line: bytes, key: bytes = b"") -> JournalEntry | None:
    """Decode a line (without its newline); return None if it is damaged."""
    body = verify_line(line, key)
    return None if body is None else msgspec.json.decode(body, type=JournalEntry)


def read_journal_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None, int, bool]]:
    """Yield offset, bytes (None if too long), length without newline, and whether it has one."""
    offset = 0
    while piece := file.readline(MAX_LINE_BYTES):
        line: bytes | None = piece
        size = len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(MAX_LINE_BYTES)):
            line = None
            size += len(piece)
        terminated = piece.endswith(b"\n")
        length = size - terminated
        yield (offset, None if line is None else line[:length], length, terminated)
        offset += size


def verify_line(line: bytes, key: bytes) -> bytes | None:
    """Return the bytes that the check covers, or None if they do not match it."""
    body = line[:-TAIL_BYTES] + b"}"
    if line[-TAIL_BYTES:] != b',"check":"' + _compute_check(body, key) + b'"}':
        return None
    return body


def _compute_check(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, key=key).hexdigest().encode()
