"""Verify the chain quickly inside one transaction.

This shows that a copy or an upgrade left the ledger complete. ``gatemark ledger verify`` checks
much more: decisions, keys, checkpoints, the tree, results and blobs.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import IntegrityError
from gatemark.core.progress import Advance
from gatemark.ledger.event import EventRow, check_payload, encode_row
from gatemark.ledger.stores.tables import EVENTS, PAYLOAD_ERASURES, PAYLOADS

PAGE: Final = 2_000
_GENESIS: Final = bytes(32)
_ROWS: Final = (
    sa.select(*EVENTS.c, PAYLOADS.c.data, PAYLOAD_ERASURES.c.tombstone)
    .select_from(
        EVENTS.outerjoin(PAYLOADS, PAYLOADS.c.seq == EVENTS.c.seq).outerjoin(
            PAYLOAD_ERASURES, PAYLOAD_ERASURES.c.seq == EVENTS.c.seq
        )
    )
    .order_by(EVENTS.c.seq)
    .limit(PAGE)
)


def check_chain(connection: sa.Connection, place: str, on_progress: Advance | None = None) -> int:
    """Return the number of events; refuse a chain with a gap, or a changed event or payload."""
    if not sa.inspect(connection).has_table(EVENTS.name):
        # The first layout has results but no events.
        return 0
    size, last = 0, _GENESIS
    while True:
        page = connection.execute(_ROWS.where(EVENTS.c.seq > size)).all()
        for *columns, tombstone in page:
            row = EventRow._make(columns)
            if row.seq != size + 1:
                raise IntegrityError(f"{place}: event {size + 1} is missing")
            if row.prev != last:
                raise IntegrityError(f"{place}: event {row.seq} does not follow event {size}")
            _check_row(row, place, is_erased=tombstone is not None)
            size, last = row.seq, row.digest
        if on_progress is not None:
            on_progress(size)
        if len(page) < PAGE:
            return size


def _check_row(row: EventRow, place: str, *, is_erased: bool) -> None:
    try:
        found = digest_bytes(encode_row(row))
        payload = check_payload(row)
    except IntegrityError as error:
        raise IntegrityError(f"{place}: {error}") from error
    if found != DIGEST_PREFIX + row.digest.hex():
        raise IntegrityError(f"{place}: event {row.seq} does not verify: its content gives {found}")
    if payload is None and not is_erased:
        raise IntegrityError(f"{place}: the payload of event {row.seq} is missing")
