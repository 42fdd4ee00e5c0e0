"""The file of a backup: a tar archive, compressed with zstd, that ends with its own SHA-256.

The digest is in a frame that zstd and tar skip, so other tools can unpack the file. It covers every
byte before it: a truncated or damaged file is refused before anything is unpacked. Members are read
in order, and only plain files with expected names are accepted; nothing is ever written under a
name from the file.
"""

from __future__ import annotations

import hashlib
import re
import struct
import tarfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NoReturn, cast

import zstandard

from gatemark.core.errors import IntegrityError

PIECE_BYTES: Final = 1 << 20
MAX_WINDOW_BYTES: Final = 1 << 27
MAX_MEMBER_BYTES: Final = 1 << 40
_BLOCK: Final = 512
_NAME: Final = re.compile(
    r"about\.json|manifest\.json|tables/[a-z_]{1,63}/\d{6}\.msgpack"
    r"|blobs/([0-9a-f]{2})/\1[0-9a-f]{62}"
)
# A skippable frame (RFC 8878, section 3.1.2): magic number, size, content.
_FRAME: Final = struct.pack("<II", 0x184D2A50, 32)
TRAILER_BYTES: Final = len(_FRAME) + 32


class ArchiveWriter:
    """Writes members to a new archive; without ``finish`` the file is not valid."""

    def __init__(self, stream: BinaryIO, made_s: int) -> None:
        self._stream = stream
        self._written = hashlib.sha256()
        # The checksum is for those who unpack with other tools; the SHA-256 is stronger.
        self._packer = zstandard.ZstdCompressor(level=6, write_checksum=True).compressobj()
        self._made_s = made_s

    def add(self, name: str, data: bytes) -> str:
        """Add a member and return the SHA-256 of its bytes in hexadecimal."""
        return self.add_pieces(name, len(data), (data,))

    def add_pieces(self, name: str, size: int, pieces: Iterable[bytes]) -> str:
        """Add a member that arrives in pieces; raise an error if its size is not ``size``."""
        header = tarfile.TarInfo(name)
        header.size, header.mode, header.mtime = size, 0o600, self._made_s
        self._pack(header.tobuf(tarfile.GNU_FORMAT, "ascii", "strict"))
        seen, count = hashlib.sha256(), 0
        for piece in pieces:
            count += len(piece)
            if count > size:
                break
            seen.update(piece)
            self._pack(piece)
        if count != size:
            raise IntegrityError(f"{name} has another size than recorded ({size} bytes)")
        self._pack(bytes(-size % _BLOCK))
        return seen.hexdigest()

    def finish(self) -> None:
        """End the archive."""
        self._pack(bytes(2 * _BLOCK))
        self._write(self._packer.flush())
        self._stream.write(_FRAME + self._written.digest())

    def _pack(self, data: bytes) -> None:
        self._write(self._packer.compress(data))

    def _write(self, packed: bytes) -> None:
        self._written.update(packed)
        self._stream.write(packed)


class Member:
    """A file in an archive. Read its bytes once, before asking for the next member."""

    def __init__(self, reader: ArchiveReader, name: str, size: int) -> None:
        self._reader = reader
        self.name = name
        self.size = size
        self._left = size
        self._seen = hashlib.sha256()

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes that were not read yet."""
        while self._left:
            piece = self._reader.read_exactly(min(self._left, PIECE_BYTES))
            self._left -= len(piece)
            self._seen.update(piece)
            yield piece

    def read(self, limit: int) -> bytes:
        """Return all bytes; refuse a member that is larger than the limit."""
        if self.size > limit:
            self._reader.refuse(f"{self.name} has {self.size} bytes, at most {limit} are allowed")
        return b"".join(self.pieces())

    def digest(self) -> str:
        """Read the remaining bytes and return the SHA-256 of all bytes in hexadecimal."""
        for _ in self.pieces():
            pass
        return self._seen.hexdigest()


class ArchiveReader:
    """Reads an archive member by member; ``place`` names the file in messages."""

    def __init__(self, stream: BinaryIO, place: str) -> None:
        self._place = place
        source = cast("BinaryIO", _Beginning(stream, self._read_size(stream)))
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._unpacked = unpacker.stream_reader(source, read_across_frames=True)

    def members(self) -> Iterator[Member]:
        """Yield every member in order; refuse an archive with missing or extra data at its end."""
        while (header := self.read_exactly(_BLOCK)) != bytes(_BLOCK):
            member = self._read_member(header)
            yield member
            member.digest()
            self.read_exactly(-member.size % _BLOCK)
        if self.read_exactly(_BLOCK) != bytes(_BLOCK) or self._unpack(1):
            self.refuse("there is data after its end")

    def read_exactly(self, size: int) -> bytes:
        """Return the next ``size`` bytes of the tar archive."""
        parts = []
        while size and (part := self._unpack(size)):
            parts.append(part)
            size -= len(part)
        if size:
            self.refuse("it ends too early")
        return b"".join(parts)

    def refuse(self, reason: str) -> NoReturn:
        """Return the error for a file that cannot be trusted."""
        raise IntegrityError(f"{self._place}: is damaged, or is not a backup of a store: {reason}")

    def _unpack(self, size: int) -> bytes:
        try:
            return self._unpacked.read(size)
        except (zstandard.ZstdError, MemoryError) as error:
            self.refuse(str(error))

    def _read_member(self, header: bytes) -> Member:
        try:
            found = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            self.refuse(f"a member cannot be read: {error}")
        if found.type != tarfile.REGTYPE or not _NAME.fullmatch(found.name):
            self.refuse(f"it has an unexpected member {found.name!r}")
        if not 0 <= found.size <= MAX_MEMBER_BYTES:
            self.refuse(f"{found.name} has {found.size} bytes")
        return Member(self, found.name, found.size)

    def _read_size(self, stream: BinaryIO) -> int:
        """Return the number of bytes before the digest; refuse a file that does not match it."""
        size = stream.seek(0, 2) - TRAILER_BYTES
        if size < 0:
            self.refuse("it is too short")
        stream.seek(size)
        if stream.read(len(_FRAME)) != _FRAME:
            # Reported before all of it is read, which takes long for a file that is not a backup.
            self.refuse("its content does not match the SHA-256 at its end")
        stream.seek(0)
        seen, left = hashlib.sha256(), size
        while left and (piece := stream.read(min(left, PIECE_BYTES))):
            seen.update(piece)
            left -= len(piece)
        if stream.read(TRAILER_BYTES) != _FRAME + seen.digest():
            self.refuse("its content does not match the SHA-256 at its end")
        stream.seek(0)
        return size


class _Beginning:
    """The first bytes of a stream, with the methods that the decompressor needs."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
