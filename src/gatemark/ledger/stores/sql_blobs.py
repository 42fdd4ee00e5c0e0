"""Blobs in the database, stored in pieces: for teams whose store is not a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes, is_digest, same_digest
from gatemark.core.errors import ConflictError, IntegrityError, UsageError
from gatemark.ledger.blobs import PIECE_BYTES, join_blob, read_pieces
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.tables import BLOB_ERASURES, BLOB_PIECES, BLOBS

PAGE: Final = 1_000


def blob_sizes(connection: sa.Connection) -> Iterator[tuple[str, int]]:
    """Yield digest and size of every blob that a transaction sees, in order."""
    last = ""
    while True:
        later = sa.select(BLOBS.c.digest, BLOBS.c.byte_count).where(BLOBS.c.digest > last)
        page = connection.execute(later.order_by(BLOBS.c.digest).limit(PAGE)).all()
        yield from ((row.digest, row.byte_count) for row in page)
        if len(page) < PAGE:
            return
        last = page[-1].digest


def blob_pieces(connection: sa.Connection, name: str) -> Iterator[bytes]:
    """Yield the bytes of a blob as a transaction sees it, in pieces, without checking them."""
    part = 0
    while (piece := _read_piece(connection, name, part)) is not None:
        yield piece
        part += 1


def _read_piece(connection: sa.Connection, name: str, part: int) -> bytes | None:
    query = sa.select(BLOB_PIECES.c.data).where(
        BLOB_PIECES.c.digest == name, BLOB_PIECES.c.part == part
    )
    return connection.execute(query).scalar()


class SqlBlobs:
    """The blobs of a store in a database."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def put(self, data: bytes) -> str:
        name = digest_bytes(data)
        starts = range(0, len(data), PIECE_BYTES)
        pieces = (data[start : start + PIECE_BYTES] for start in starts)
        self._add(name, pieces, "blob: changed while it was stored")
        return name

    def put_file(self, source: Path, expected: str) -> str:
        problem = f"{source.name}: changed after it was judged"
        self._add(expected, read_pieces(source), problem)
        return expected

    def get(self, name: str) -> bytes:
        return join_blob(name, self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        if not self.has(name):
            raise IntegrityError(f"blob {name} is missing from the store")
        part = 0
        while (piece := self._read_piece(name, part)) is not None:
            yield piece
            part += 1

    def has(self, name: str) -> bool:
        if not is_digest(name):
            raise UsageError(f"{name!r} is not a digest")
        query = sa.select(BLOBS.c.digest).where(BLOBS.c.digest == name)
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def remove(self, name: str, tombstone: int) -> None:
        known = sa.select(BLOB_ERASURES.c.digest).where(BLOB_ERASURES.c.digest == name)
        with self._database.adding() as connection:
            if connection.execute(known).first() is None:
                row = {"digest": name, "tombstone": tombstone}
                connection.execute(sa.insert(BLOB_ERASURES).values(row))
            connection.execute(sa.delete(BLOB_PIECES).where(BLOB_PIECES.c.digest == name))
            connection.execute(sa.delete(BLOBS).where(BLOBS.c.digest == name))

    def _read_piece(self, name: str, part: int) -> bytes | None:
        with self._database.reading() as connection:
            return _read_piece(connection, name, part)

    def _add(self, name: str, pieces: Iterable[bytes], problem: str) -> None:
        if self.has(name):
            return
        try:
            with self._database.adding() as connection:
                self.write(connection, name, pieces, problem)
        except ConflictError:
            # Another writer stored the same bytes at the same time, which is fine.
            if not self.has(name):
                raise

    def write(
        self, connection: sa.Connection, name: str, pieces: Iterable[bytes], problem: str
    ) -> None:
        """Store a blob in a caller's transaction; raise ``trouble`` on a wrong digest."""
        seen = hashlib.sha256()
        size = 0
        for part, piece in enumerate(pieces):
            seen.update(piece)
            size += len(piece)
            row = {"digest": name, "part": part, "data": piece}
            connection.execute(sa.insert(BLOB_PIECES).values(row))
        if not same_digest(DIGEST_PREFIX + seen.hexdigest(), name):
            raise IntegrityError(problem)
        connection.execute(sa.insert(BLOBS).values(digest=name, byte_count=size))
