"""Blobs on disk, each under the digest of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gatemark.core.atomic import replacing, write_whole
from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes, is_digest, same_digest
from gatemark.core.errors import IntegrityError, UsageError

PIECE_BYTES: Final = 1 << 20


class FolderBlobs:
    """A folder of files, each named by its digest; files are only added.

    Files of a private folder can be read by their owner alone.
    """

    def __init__(self, folder: Path, *, is_private: bool = False) -> None:
        self._folder = folder
        self._is_private = is_private

    def put(self, data: bytes) -> str:
        """Store bytes and return their digest; the same bytes are stored once."""
        name = digest_bytes(data)
        target = self._path(name)
        if not target.exists():
            write_whole(target, [data], is_private=self._is_private)
        return name

    def put_file(self, source: Path, expected: str) -> str:
        """Store a copy of a file; refuse it if it no longer has the digest it was judged by."""
        self.put_pieces(
            read_pieces(source), expected, f"{source.name}: changed after it was judged"
        )
        return expected

    def put_pieces(self, pieces: Iterable[bytes], expected: str, trouble: str) -> None:
        """Store bytes piece by piece; raise ``trouble`` if they do not have the expected digest."""
        target = self._path(expected)
        if target.exists():
            return
        seen = hashlib.sha256()
        with replacing(target, is_private=self._is_private) as out:
            for piece in pieces:
                seen.update(piece)
                out.write(piece)
            if not same_digest(DIGEST_PREFIX + seen.hexdigest(), expected):
                raise IntegrityError(trouble)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the digest and size of every blob in order; skip other files."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            name = DIGEST_PREFIX + path.name
            if is_digest(name) and path.parent.name == path.name[:2] and path.is_file():
                yield name, path.stat().st_size

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob, checked against its digest."""
        return joined_blob(name, self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a blob, not checked; refuse a missing blob."""
        target = self._path(name)
        if not target.exists():
            raise IntegrityError(f"blob {name} is missing from the store")
        yield from read_pieces(target)

    def has(self, name: str) -> bool:
        """Whether the store has the blob."""
        return self._path(name).exists()

    def remove(self, name: str, tombstone: int) -> None:  # noqa: ARG002 - the folder cannot ask
        """Delete a blob; its tombstone must exist already."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not is_digest(name):
            raise UsageError(f"{name!r} is not a digest")
        hexadecimal = name.removeprefix(DIGEST_PREFIX)
        return self._folder / hexadecimal[:2] / hexadecimal


def digest_of(pieces: Iterable[bytes]) -> str:
    """Return the digest of bytes that come piece by piece."""
    seen = hashlib.sha256()
    for piece in pieces:
        seen.update(piece)
    return DIGEST_PREFIX + seen.hexdigest()


def joined_blob(name: str, pieces: Iterable[bytes]) -> bytes:
    """Return the bytes of a blob; refuse bytes that do not have the digest in its name."""
    data = b"".join(pieces)
    if not same_digest(digest_bytes(data), name):
        raise IntegrityError(f"blob {name} does not verify: its bytes were changed")
    return data


def read_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    with path.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece
