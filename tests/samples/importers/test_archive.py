from __future__ import annotations

import io
import struct
import zipfile

import pytest
from tests.samples.importers.peer_shapes import zipped

from gatemark.core.errors import BadInputError
from gatemark.samples.archive import Archive
from gatemark.samples.importer import ForeignFile, ForeignLimits

CONTENT = {"a.json": b"alpha" * 100, "b.json": b""}


def opened(data: bytes, **limits: int) -> Archive:
    return Archive(ForeignFile(name="x.zip", data=data), ForeignLimits(**limits))


@pytest.mark.parametrize("method", [0, 8, 93])
def test_members_come_back_as_they_went_in(method):
    archive = opened(zipped(CONTENT, method))
    assert {name: archive.read(name) for name in archive.names} == CONTENT


def test_what_the_standard_library_writes_is_read_the_same():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        for name, content in CONTENT.items():
            written.writestr(name, content, zipfile.ZIP_DEFLATED)
    archive = opened(stream.getvalue())
    assert {name: archive.read(name) for name in archive.names} == CONTENT


@pytest.mark.parametrize("method", [8, 93])
def test_a_member_that_unpacks_to_more_than_it_claims_is_refused(method):
    forged = bytearray(zipped({"a.json": b"0" * 50_000_000}, method))
    claim = forged.index(b"PK\x01\x02") + 24
    assert struct.unpack_from("<I", forged, claim) == (50_000_000,)
    struct.pack_into("<I", forged, claim, 1000)
    with pytest.raises(BadInputError, match="does not unpack to the 1000 bytes it claims"):
        opened(bytes(forged)).read("a.json")


@pytest.mark.parametrize("method", [0, 8, 93])
def test_a_member_with_another_checksum_is_refused(method):
    data = zipped({"a.json": b"alpha"}, method)
    forged = bytearray(data)
    where = data.index(b"PK\x01\x02") + 16
    forged[where : where + 4] = b"\x00\x00\x00\x00"
    with pytest.raises(BadInputError, match="checksum"):
        opened(bytes(forged)).read("a.json")


@pytest.mark.parametrize("method", [8, 93])
def test_packed_garbage_is_refused(method):
    data = bytearray(zipped({"a.json": b"alpha" * 50}, method))
    data[36:46] = b"\xff" * 10
    with pytest.raises(BadInputError, match=r"a\.json"):
        opened(bytes(data)).read("a.json")


def test_a_truncated_archive_is_refused():
    data = zipped(CONTENT, 8)
    with pytest.raises(BadInputError, match="not a readable ZIP archive"):
        opened(data[: len(data) // 2])


def test_an_unknown_method_and_an_encrypted_member_are_refused():
    data = zipped({"a.json": b"alpha"}, 0)
    where = data.index(b"PK\x01\x02")
    odd = bytearray(data)
    odd[where + 10] = 12
    with pytest.raises(BadInputError, match="unknown compression method 12"):
        opened(bytes(odd)).read("a.json")
    locked = bytearray(data)
    locked[where + 8] = 1
    with pytest.raises(BadInputError, match="encrypted"):
        opened(bytes(locked)).read("a.json")


def test_an_entry_that_is_not_where_the_directory_says_is_refused():
    data = bytearray(zipped({"a.json": b"alpha"}, 0))
    data[0] = 0
    with pytest.raises(BadInputError, match=r"not where the directory says|not a readable ZIP"):
        opened(bytes(data)).read("a.json")


def test_two_members_of_one_name_are_refused():
    data = zipped({"a.json": b"1", "b.json": b"2"}, 0).replace(b"b.json", b"a.json")
    with pytest.raises(BadInputError, match="same name"):
        opened(data)


def test_the_limits_hold():
    data = zipped(CONTENT, 8)
    with pytest.raises(BadInputError, match="more than 1 members"):
        opened(data, member_count=1)
    with pytest.raises(BadInputError, match="claims 500"):
        opened(data, member_bytes=499).read("a.json")
    archive = opened(data, expanded_bytes=900)
    archive.read("a.json")
    with pytest.raises(BadInputError, match="unpack to at most 900 bytes"):
        archive.read("a.json")
