"""ZIP archives of other tools, which are not trusted: members are read within limits."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Final

import zstandard

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import ForeignFile, ForeignLimits

_DIRECTORY_ENTRY: Final = b"PK\x01\x02"
ZIP: Final = b"PK\x03\x04"
"""How an archive begins, and each member in it."""
_LOCAL_SIZE: Final = 30
_ENCRYPTED: Final = 0x1
_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_WINDOW_BYTES: Final = 1 << 27


class Archive:
    """A ZIP archive whose members are decompressed one by one.

    The standard library reads the directory. The members are decompressed here, because it has no
    zstd before Python 3.14 and no limit on the decompressed size.
    """

    def __init__(self, file: ForeignFile, limits: ForeignLimits) -> None:
        self._file = file
        self._limits = limits
        self._expanded_bytes = 0
        # Counting signatures first prevents a forged directory from filling memory.
        if file.data.count(_DIRECTORY_ENTRY) > limits.member_count:
            raise BadInputError(f"{file.name}: contains more than {limits.member_count} members")
        try:
            with zipfile.ZipFile(io.BytesIO(file.data)) as directory:
                members = directory.infolist()
        except (
            zipfile.BadZipFile,
            struct.error,
            NotImplementedError,
            OSError,
            OverflowError,
            ValueError,
        ) as error:
            raise BadInputError(f"{file.name}: not a readable ZIP archive: {error}") from error
        self._members = {member.filename: member for member in members}
        if len(self._members) != len(members):
            raise BadInputError(f"{file.name}: two members have the same name")

    @property
    def names(self) -> tuple[str, ...]:
        """The members, in directory order."""
        return tuple(self._members)

    def read(self, name: str) -> bytes:
        """Return the content of one member, after checking its length and checksum."""
        member = self._members[name]
        place = f"{self._file.name}: {name}"
        if member.flag_bits & _ENCRYPTED:
            raise BadInputError(f"{place}: is encrypted")
        if member.file_size > self._limits.member_bytes:
            raise BadInputError(
                f"{place}: must unpack to at most {self._limits.member_bytes} bytes, "
                f"claims {member.file_size}"
            )
        self._expanded_bytes += member.file_size
        if self._expanded_bytes > self._limits.expanded_bytes:
            raise BadInputError(
                f"{self._file.name}: must unpack to at most {self._limits.expanded_bytes} bytes"
            )
        content = _unpack(self._read_packed(member, place), member, place)
        if len(content) != member.file_size:
            raise BadInputError(
                f"{place}: does not unpack to the {member.file_size} bytes it claims"
            )
        if zlib.crc32(content) != member.CRC:
            raise BadInputError(f"{place}: the checksum does not match")
        return content

    def _read_packed(self, member: zipfile.ZipInfo, place: str) -> memoryview:
        data = memoryview(self._file.data)
        start = member.header_offset
        if not 0 <= start <= len(data) - _LOCAL_SIZE or bytes(data[start : start + 4]) != ZIP:
            raise BadInputError(f"{place}: its entry is not where the directory says")
        name_bytes, extra_bytes = struct.unpack("<HH", data[start + 26 : start + _LOCAL_SIZE])
        begin = start + _LOCAL_SIZE + name_bytes + extra_bytes
        packed = data[begin : begin + member.compress_size]
        if len(packed) != member.compress_size:
            raise BadInputError(f"{place}: the archive ends before the member does")
        return packed


def _unpack(packed: memoryview, member: zipfile.ZipInfo, place: str) -> bytes:
    bound = member.file_size + 1
    try:
        if member.compress_type == _STORED:
            return bytes(packed[:bound])
        if member.compress_type == _DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, bound)
        if member.compress_type == _ZSTD:
            reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(
                packed, read_across_frames=True
            )
            return reader.read(bound)
    except (zlib.error, zstandard.ZstdError, MemoryError) as error:
        raise BadInputError(f"{place}: cannot be unpacked: {error}") from error
    raise BadInputError(
        f"{place}: unknown compression method {member.compress_type} "
        f"(known: {_STORED} stored, {_DEFLATED} deflate, {_ZSTD} zstd)"
    )
