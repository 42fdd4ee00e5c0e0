"""What events say about sealed results, held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from gatemark.core.canonical import digest, same_digest
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.payloads import ResultSealed


class SealedAt(NamedTuple):
    """A sealed result and the event that told of it."""

    seq: int
    said: ResultSealed


class SealedResults(dict[str, SealedAt]):
    """Every sealed result by its id, with the first event that tells of it."""

    def learn(self, event: Event, payload: Mapping[str, Any]) -> Iterator[str]:
        """Take in an event; gives what is wrong with it."""
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
            yield f"tells of result {said.result_id} otherwise than event {first.seq}"


def _judgement(said: ResultSealed) -> ResultSealed:
    """What must be the same whenever a result is sealed again."""
    return msgspec.structs.replace(said, stamp="", occasion={})
