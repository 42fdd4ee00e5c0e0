"""Keeping a sealed result; the same judgement again leaves a trace of its own."""

from __future__ import annotations

import msgspec

from gatemark.core.event import EventDraft
from gatemark.core.governance import RESULT_REPEATED
from gatemark.core.result import OCCASION, Result
from gatemark.flow.house import House
from gatemark.ledger.chain import result_draft


def keep_result(house: House, result: Result) -> int:
    """Put a result into the store and give its number.

    The same answers under the same policy have the same id, and the store keeps their first
    occasion. That they were found again is an event: evidence can be fresh without being new.
    """
    number = house.results.append(result)
    if house.results.get(result.id).stamp != result.stamp:
        told = result_draft(result, None)
        occasion = {name: msgspec.to_builtins(getattr(result, name)) for name in OCCASION}
        payload = {"result_id": result.id, "stamp": result.stamp, "occasion": occasion}
        now = max(result.finished_at, house.clock())
        house.events.append([EventDraft(RESULT_REPEATED, now, result.actor, told.subject, payload)])
    return number
