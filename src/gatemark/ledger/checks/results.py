"""Compare the events about each sealed result with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from gatemark.core.canonical import digest, same_digest
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import ResultSealed


class SealedAt(NamedTuple):
    """The payload of a ``result_sealed`` event, and the event's number."""

    seq: int
    said: ResultSealed


class SealedResults(dict[str, SealedAt]):
    """Sealed results by id, each with its first event."""

    def learn(self, event: Event, payload: Mapping[str, object]) -> Iterator[str]:
        """Read an event and yield the problems found in it."""
        try:
            said = convert_stored(payload, ResultSealed)
        except msgspec.ValidationError as error:
            yield f"its payload is not that of a {event.kind}: {error}"
            return
        occasion = {"id": said.result_id, "occasion": said.occasion}
        if not same_digest(digest(occasion), said.stamp):
            yield f"the stamp of result {said.result_id} does not cover its occasion"
        first = self.setdefault(said.result_id, SealedAt(event.seq, said))
        if _judgement(first.said) != _judgement(said):
            yield f"describes result {said.result_id} differently than event {first.seq}"


def _judgement(said: ResultSealed) -> ResultSealed:
    """Return the fields that must not change when the same result is sealed again."""
    return msgspec.structs.replace(said, stamp="", occasion={})
