"""What ``ledger verify`` asks of baselines: they cite results that were sealed before."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import RESULT_SEALED
from gatemark.packs.events import BASELINE_SET, RESULT_BLESSED, BaselineSet, ResultBlessed


class BaselineCheck:
    """A check over the events of baselines and of the results they cite."""

    kinds = frozenset({BASELINE_SET, RESULT_BLESSED, RESULT_SEALED})
    caveats: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._sealed: set[object] = set()

    def step(self, event: Event, payload: Mapping[str, object]) -> list[tuple[int, str]]:
        """Return what is wrong with an event."""
        if event.kind == RESULT_SEALED:
            self._sealed.add(payload.get("result_id"))
            return []
        try:
            said: BaselineSet | ResultBlessed = (
                convert_stored(payload, BaselineSet)
                if event.kind == BASELINE_SET
                else convert_stored(payload, ResultBlessed)
            )
        except msgspec.ValidationError as error:
            return [(event.seq, f"{event.kind}: {error}")]
        if said.result not in self._sealed:
            return [(event.seq, f"{event.kind} cites {said.result}, which was not sealed before")]
        return []

    def finish(self) -> list[tuple[int, str]]:
        """Return nothing: each event is judged when it comes."""
        return []
