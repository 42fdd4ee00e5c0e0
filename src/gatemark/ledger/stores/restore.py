"""Making a store from a backup, in one transaction."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from gatemark.core.errors import IntegrityError, RefusedError
from gatemark.ledger.blobs import FolderBlobs
from gatemark.ledger.stores.backup import BackupManifest, BackupReader, BlobFile
from gatemark.ledger.stores.chain_check import check_chain
from gatemark.ledger.stores.place import StorePlace
from gatemark.ledger.stores.table_rows import continue_numbers, insert_part, tables_in
from gatemark.ledger.stores.upgrade import FIRST, layout_of, migrate


def restore_backup(
    backup: BackupReader, place: StorePlace, on_progress: Callable[[int], None] | None = None
) -> BackupManifest:
    """Fill a place that holds no store with what a backup holds.

    The store gets the layout that it had. Nothing is committed before the whole backup was read
    and the chain was checked. Blobs that go into a folder are written as they come: where the
    rest is refused they are left there, under their own digests.
    """
    with place.database.writing() as connection:
        if layout_of(connection) is not None:
            raise RefusedError(
                f"{place.database.place}: holds a store already; name another place with --store"
            )
        if backup.about.layout == FIRST and not isinstance(place.blobs, FolderBlobs):
            raise RefusedError(
                f"{backup.name}: has layout {FIRST}, which keeps blobs in a folder only: "
                "restore it into a folder, upgrade it there and back it up again"
            )
        migrate(connection, None, to=backup.about.layout)
        manifest = _fill(backup, place, connection)
        check_chain(connection, backup.name, on_progress)
    return manifest


def _fill(backup: BackupReader, place: StorePlace, connection: sa.Connection) -> BackupManifest:
    tables = tables_in(connection, backup.about.tables, place.database.place)
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
    manifest = backup.finished(counts)
    for table in tables.values():
        continue_numbers(connection, table)
    return manifest


def _keep_blob(one: BlobFile, place: StorePlace, connection: sa.Connection) -> None:
    trouble = f"{one.member.name}: its bytes have another digest than its name says"
    if isinstance(place.blobs, FolderBlobs):
        place.blobs.put_pieces(one.member.pieces(), one.digest, trouble)
    else:
        place.blobs.write(connection, one.digest, one.member.pieces(), trouble)
