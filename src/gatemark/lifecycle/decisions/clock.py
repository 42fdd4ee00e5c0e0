"""The clock of a decision: read once, and never allowed to run backwards unseen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from gatemark.core.errors import InvalidValueError, RefusedError
from gatemark.lifecycle.model.state import LifecycleState


class DecisionMoment(msgspec.Struct, frozen=True):
    """When a decision is taken, and how far the clock was behind the ledger."""

    now: datetime
    behind_ms: int = 0


def settle_clock(state: LifecycleState, now: datetime, *, must_act: bool) -> DecisionMoment:
    """The moment of a decision: the clock's, or the last event's where the clock is behind it.

    A clock that is far behind could bring an expired approval back to life, so that nothing may
    step up by it. What takes authority away (``must_act``) goes on, and tells how far behind.
    """
    if now.utcoffset() != timedelta(0):
        raise InvalidValueError(f"now must be UTC, got {now.isoformat()}")
    known = [at for at in (state.governance.last_at, state.asset.last_at) if at is not None]
    last = max(known, default=datetime.min.replace(tzinfo=UTC))
    if now >= last:
        return DecisionMoment(now)
    behind = last - now
    allowed = timedelta(seconds=state.governance.policy.clock_skew_seconds)
    if behind > allowed and not must_act:
        raise RefusedError(
            f"the clock says {now:%Y-%m-%d %H:%M:%SZ}, but the last event is from "
            f"{last:%Y-%m-%d %H:%M:%SZ}; set the clock right first "
            "(if it was ahead then: gatemark ledger clock-back)"
        )
    return DecisionMoment(last, behind_ms=int(behind / timedelta(milliseconds=1)))
