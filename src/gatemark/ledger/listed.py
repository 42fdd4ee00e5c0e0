"""Whether the columns beside a sealed result say the same as its document.

Lists are made from documents. The columns are for people who look into the database, and nobody
who does may read another verdict there than the one that was sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from gatemark.ledger.stored_rows import moment_in


class ListedRow(NamedTuple):
    """A stored result: its columns as they stand in the database, and its document."""

    id: str
    title: Any
    verdict: Any
    finished_at: Any
    document: bytes


class _Shown(msgspec.Struct, frozen=True):
    """What the columns repeat of a document; a document has more."""

    title: str
    verdict: str
    finished_at: datetime


def column_differences(row: ListedRow) -> Iterator[str]:
    """What a column says otherwise than the document.

    A document that cannot be read is the seal's business, and says nothing about columns.
    """
    try:
        sealed = msgspec.json.decode(row.document, type=_Shown)
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        return
    pairs = (
        ("title", row.title, sealed.title),
        ("verdict", row.verdict, sealed.verdict),
        ("finished_at", moment_in(row.finished_at), sealed.finished_at),
    )
    for column, kept, told in pairs:
        if kept != told:
            shown = getattr(row, column)
            yield f"column {column} says {shown!r}, the sealed document {str(told)!r}"
