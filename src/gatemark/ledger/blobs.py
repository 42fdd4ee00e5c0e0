"""Read bytes in pieces and check them against their SHA-256 digest."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes, same_digest
from gatemark.core.errors import BadInputError, IntegrityError

PIECE_BYTES: Final = 1 << 20
MAX_DOCUMENT_BYTES: Final = 1 << 28
MAX_BLOB_BYTES: Final = 1 << 34
"""Evidence files, the largest blobs, cannot be larger."""


def digest_of(pieces: Iterable[bytes]) -> str:
    """Return the digest of bytes that arrive in pieces."""
    seen = hashlib.sha256()
    for piece in pieces:
        seen.update(piece)
    return DIGEST_PREFIX + seen.hexdigest()


def join_blob(name: str, pieces: Iterable[bytes]) -> bytes:
    """Return the bytes of a blob; raise IntegrityError if they do not match its name."""
    data = b"".join(pieces)
    if not same_digest(digest_bytes(data), name):
        raise IntegrityError(f"blob {name} does not verify: its bytes were changed")
    return data


def read_document(path: Path) -> bytes:
    """Return the bytes of a document that an export holds; refuse a larger one."""
    data = bytearray()
    for piece in read_pieces(path):
        data += piece
        if len(data) > MAX_DOCUMENT_BYTES:
            raise IntegrityError(f"{path}: is larger than {MAX_DOCUMENT_BYTES} bytes")
    return bytes(data)


def read_start(path: str, most: int) -> bytes:
    """Return the first bytes of a file that a user names."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise BadInputError(f"{path}: expected a regular file")
        with Path(path).open("rb") as stream:
            return stream.read(most)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error


def read_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces; a pipe or a device is refused."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise IntegrityError(f"{path}: expected a regular file")
    if info.st_size > MAX_BLOB_BYTES:
        raise IntegrityError(f"{path}: is larger than {MAX_BLOB_BYTES} bytes")
    with path.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece
