"""Read the events of a ledger in order, for ``gatemark ledger log``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import Event


def read_log(
    context: LedgerContext, *, after: int, kind: str | None, subject: str | None, limit: int
) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
    """Yield events in order, at most ``limit``."""
    found = context.existing_store().events.events(after=after, kind=kind, subject=subject)
    for _, one in zip(range(limit), found, strict=False):
        yield one
