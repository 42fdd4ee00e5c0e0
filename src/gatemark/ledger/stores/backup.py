"""Write a complete store to one file and read it back, the same for every database.

``about.json`` comes first, with the layout and its tables. Then come the rows of every table in
parts, then the blobs under their digests. ``manifest.json`` comes last, with the SHA-256 of every
part and the numbers of rows and blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import BinaryIO, Final, NamedTuple

import msgspec
import sqlalchemy as sa

from gatemark import __version__
from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import IntegrityError, NewerFormatError, RefusedError
from gatemark.core.progress import Advance
from gatemark.ledger.stores.archive import ArchiveReader, ArchiveWriter, Member
from gatemark.ledger.stores.chain_check import check_chain
from gatemark.ledger.stores.database import (
    existing_layout,
    layout_of,
    migrate,
    require_known,
)
from gatemark.ledger.stores.folder import FolderBlobs, StorePlace
from gatemark.ledger.stores.table_rows import (
    MAX_PART_BYTES,
    TableShape,
    continue_numbers,
    insert_part,
    read_parts,
    reflect_tables,
    shapes_of,
)

FORMAT: Final = "gatemark.backup/1"
_FORMAT_FAMILY: Final = "gatemark.backup/"
ABOUT: Final = "about.json"
MANIFEST: Final = "manifest.json"
MAX_ABOUT_BYTES: Final = 1 << 20
MAX_MANIFEST_BYTES: Final = 64 << 20


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Layout, tables and origin of a backup."""

    format: str
    gatemark: str
    made_at: datetime
    database: str
    layout: str
    tables: tuple[TableShape, ...]


class PartDigest(msgspec.Struct, frozen=True):
    """The SHA-256 of one part of a table."""

    name: str
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The expected content of a complete backup."""

    parts: tuple[PartDigest, ...]
    rows: dict[str, int]
    blobs: int
    blob_bytes: int


class BackupPart(NamedTuple):
    """Some rows of a table."""

    table: str
    data: bytes


class BlobFile(NamedTuple):
    """A blob; its bytes can be read once."""

    digest: str
    member: Member


def write_backup(
    place: StorePlace,
    connection: sa.Connection,
    stream: BinaryIO,
    made_at: datetime,
    on_progress: Advance | None = None,
) -> BackupManifest:
    """Write everything that a transaction sees; refuse a store whose ledger does not verify."""
    name = place.database.place
    layout = existing_layout(connection, name)
    require_known(name, layout)
    check_chain(connection, name, on_progress)
    shapes = shapes_of(layout)
    about = About(
        format=FORMAT,
        gatemark=__version__,
        made_at=made_at,
        database=place.database.dialect,
        layout=layout,
        tables=shapes,
    )
    archive = ArchiveWriter(stream, int(made_at.timestamp()))
    parts = [PartDigest(ABOUT, archive.add(ABOUT, msgspec.json.encode(about)))]
    rows = {}
    tables = reflect_tables(connection, shapes, name)
    for shape in shapes:
        rows[shape.name] = 0
        found = read_parts(connection, tables[shape.name], shape, name)
        for number, (count, data) in enumerate(found, start=1):
            member = f"tables/{shape.name}/{number:06}.msgpack"
            parts.append(PartDigest(member, archive.add(member, data)))
            rows[shape.name] += count
    blobs, blob_bytes = _add_blobs(place, connection, archive)
    manifest = BackupManifest(parts=tuple(parts), rows=rows, blobs=blobs, blob_bytes=blob_bytes)
    archive.add(MANIFEST, msgspec.json.encode(manifest))
    archive.finish()
    return manifest


def _add_blobs(
    place: StorePlace, connection: sa.Connection, archive: ArchiveWriter
) -> tuple[int, int]:
    count = total = 0
    for digest, size in place.blob_sizes(connection):
        hexadecimal = digest.removeprefix(DIGEST_PREFIX)
        pieces = place.blob_pieces(connection, digest)
        found = archive.add_pieces(f"blobs/{hexadecimal[:2]}/{hexadecimal}", size, pieces)
        if found != hexadecimal:
            raise IntegrityError(
                f"{place.database.place}: blob {digest} does not verify: its bytes were changed"
            )
        count += 1
        total += size
    return count, total


class BackupReader:
    """Reads a backup in the order it was written; trust nothing before the end is reached."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.name = name
        self._archive = ArchiveReader(stream, name)
        self._members = self._archive.members()
        self._parts: list[PartDigest] = []
        self.about = self._read_about()
        self.shapes = {shape.name: shape for shape in self.about.tables}
        self._manifest: BackupManifest | None = None

    def contents(self) -> Iterator[BackupPart | BlobFile]:
        """Yield all rows and blobs; raise an error at the end if they do not match the manifest."""
        manifest: BackupManifest | None = None
        blobs = blob_bytes = 0
        for member in self._members:
            kind, *rest = member.name.split("/")
            if member.name == MANIFEST:
                manifest = self._read_manifest(member)
            elif manifest is not None:
                self._archive.refuse(f"{member.name} follows the manifest")
            elif kind == "tables" and rest[0] in self.shapes:
                data = member.read(MAX_PART_BYTES)
                self._parts.append(PartDigest(member.name, member.digest()))
                yield BackupPart(rest[0], data)
            elif kind == "blobs":
                yield BlobFile(DIGEST_PREFIX + rest[1], member)
                if member.digest() != rest[1]:
                    self._archive.refuse(f"blob {rest[1]} was changed")
                blobs += 1
                blob_bytes += member.size
            else:
                self._archive.refuse(f"it has an unexpected member {member.name!r}")
        if manifest is None:
            self._archive.refuse("it has no manifest")
        if (blobs, blob_bytes) != (manifest.blobs, manifest.blob_bytes):
            self._archive.refuse("its blobs do not match its manifest")
        if tuple(self._parts) != manifest.parts:
            self._archive.refuse("its rows do not match its manifest")
        self._manifest = manifest

    def check(self) -> None:
        """Read everything and discard it, to verify the backup."""
        for _ in self.contents():
            pass

    def finish(self, counts: dict[str, int]) -> BackupManifest:
        """Return the manifest once all contents were read; refuse differing row counts."""
        if self._manifest is None or counts != self._manifest.rows:
            self._archive.refuse("its row counts do not match its manifest")
        return self._manifest

    def _read_about(self) -> About:
        first = next(self._members, None)
        if first is None or first.name != ABOUT:
            self._archive.refuse(f"it does not start with {ABOUT}")
        data = first.read(MAX_ABOUT_BYTES)
        self._parts.append(PartDigest(ABOUT, first.digest()))
        try:
            # A later format may have other fields, so its name is read first.
            named = msgspec.json.decode(data, type=_Named).format
            if named != FORMAT and named.startswith(_FORMAT_FAMILY):
                raise NewerFormatError(
                    f"{self.name}: has format {named}, which this build ({__version__}, "
                    f"{FORMAT}) does not know: install a newer Gatemark"
                )
            about = msgspec.json.decode(data, type=About)
        except (msgspec.MsgspecError, UnicodeError) as error:
            self._archive.refuse(f"{ABOUT}: {error}")
        if about.format != FORMAT:
            self._archive.refuse(f"its format is {about.format!r}")
        require_known(self.name, about.layout)
        if about.tables != shapes_of(about.layout):
            self._archive.refuse(f"its tables are not those of layout {about.layout}")
        return about

    def _read_manifest(self, member: Member) -> BackupManifest:
        try:
            return msgspec.json.decode(member.read(MAX_MANIFEST_BYTES), type=BackupManifest)
        except (msgspec.MsgspecError, UnicodeError) as error:
            self._archive.refuse(f"{MANIFEST}: {error}")


class _Named(msgspec.Struct):
    format: str


def restore_backup(
    backup: BackupReader, place: StorePlace, on_progress: Callable[[int], None] | None = None
) -> BackupManifest:
    """Restore a backup to a place that has no store.

    The store gets the layout that it had. Nothing is committed before the whole backup was read and
    the chain was verified. Blobs in a folder are written as they are read: if the backup is refused
    later, they stay there under their digests.
    """
    with place.database.writing() as connection:
        if layout_of(connection) is not None:
            raise RefusedError(
                f"{place.database.place}: holds a store already; name another place with --store"
            )
        migrate(connection, None, to=backup.about.layout)
        manifest = _fill(backup, place, connection)
        check_chain(connection, backup.name, on_progress)
    return manifest


def _fill(backup: BackupReader, place: StorePlace, connection: sa.Connection) -> BackupManifest:
    tables = reflect_tables(connection, backup.about.tables, place.database.place)
    counts = dict.fromkeys(tables, 0)
    seen: set[str] = set()
    for one in backup.contents():
        if isinstance(one, BlobFile):
            if one.digest in seen:
                raise IntegrityError(f"{backup.name}: has blob {one.digest} twice")
            seen.add(one.digest)
            _keep_blob(one, place, connection)
        else:
            shape = backup.shapes[one.table]
            counts[one.table] += insert_part(
                connection, tables[one.table], shape, one.data, backup.name
            )
    manifest = backup.finish(counts)
    for table in tables.values():
        continue_numbers(connection, table)
    return manifest


def _keep_blob(one: BlobFile, place: StorePlace, connection: sa.Connection) -> None:
    problem = f"{one.member.name}: its bytes have another digest than its name says"
    if isinstance(place.blobs, FolderBlobs):
        place.blobs.put_pieces(one.member.pieces(), one.digest, problem)
    else:
        place.blobs.write(connection, one.digest, one.member.pieces(), problem)
