"""Let times continue from now, after a clock that ran ahead."""

from __future__ import annotations

from gatemark.core.errors import UsageError
from gatemark.evidence.inputs import visible_form
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.event_kinds import CLOCK_SET_BACK


def resync_clock(context: LedgerContext, reason: str) -> Event:
    """Record that event times continue from now, after a clock that ran ahead."""
    if not visible_form(reason):
        raise UsageError("setting the clock back needs a reason")
    draft = EventDraft(CLOCK_SET_BACK, context.clock(), context.actor, None, {"reason": reason})
    (event,) = context.existing_store().events.append((draft,))
    return event
