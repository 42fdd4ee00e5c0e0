"""Frozen data sets: rows under unique ids, named by their content."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import msgspec

from gatemark.core.canonical import digest, digest_document, original_fields, plain
from gatemark.core.errors import InvalidValueError


@original_fields("id input target cluster confidence tags extra")
class Row(msgspec.Struct, frozen=True):
    """One item: input, expected output, tags and cluster."""

    id: str
    input: Any
    target: Any = None
    cluster: str | None = None
    confidence: float | None = None
    tags: dict[str, str] = {}
    extra: dict[str, Any] = {}


@original_fields("n seed stratify")
class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A seeded draw from a data set, even over the values of a tag when one is named."""

    n: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    seed: int = 0
    stratify: str | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The rows of a data set. The digest does not depend on their order."""

    name: str
    digest: str
    rows: tuple[Row, ...]

    @property
    def reference(self) -> str:
        """The reference that a result cites."""
        return f"{self.name}@{self.digest}"

    @property
    def ids(self) -> frozenset[str]:
        """The pinned ids."""
        return frozenset(row.id for row in self.rows)


def freeze(name: str, rows: tuple[Row, ...]) -> Snapshot:
    """Return a snapshot of rows, sorted by id; refuse repeated ids and empty sets."""
    if not rows:
        raise InvalidValueError(f"data set {name} is empty")
    ordered = tuple(sorted(rows, key=lambda row: row.id))
    for earlier, later in pairwise(ordered):
        if earlier.id == later.id:
            raise InvalidValueError(f"data set {name} has id {earlier.id!r} twice")
    return Snapshot(name=name, digest=digest([digest(row) for row in ordered]), rows=ordered)


def write_rows(snapshot: Snapshot) -> bytes:
    """Return the rows of a snapshot as stored: JSON Lines, with numbers as they were read."""
    return b"".join(msgspec.json.encode(plain(row)) + b"\n" for row in snapshot.rows)


def stored_snapshot(name: str, lines: bytes) -> Snapshot:
    """The snapshot in stored lines, its digest taken over the lines and not over today's types.

    Raise msgspec.MsgspecError for lines that are no rows.
    """
    found = [(msgspec.json.decode(line, type=Row), line) for line in lines.splitlines()]
    found.sort(key=lambda one: one[0].id)
    digests = [digest_document(line) for _, line in found]
    return Snapshot(name=name, digest=digest(digests), rows=tuple(row for row, _ in found))
