"""The events of packs: results that people accept or name as baselines."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import RESULT_SEALED, EventKind, declare


class BaselineSet(msgspec.Struct, frozen=True):
    """Payload of ``baseline_set``: a name for a result that candidates are compared with."""

    name: str
    result: str
    pack: str
    asset: str
    note: str = ""


class BaselineAccepted(msgspec.Struct, frozen=True):
    """Payload of ``baseline_accepted``: why a person accepts a result as a baseline."""

    result: str
    verdict: str
    reason: str


BASELINE_SET = declare(
    EventKind(
        name="baseline_set",
        when="a sealed result gets a name as a baseline",
        payload=BaselineSet,
    )
).name
BASELINE_ACCEPTED = declare(
    EventKind(
        name="baseline_accepted",
        when="a person accepts a sealed result as a baseline, with a reason",
        payload=BaselineAccepted,
    )
).name


class BaselineCheck:
    """Verifies baseline events against the results they cite."""

    kinds = frozenset({BASELINE_SET, BASELINE_ACCEPTED, RESULT_SEALED})
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
            said: BaselineSet | BaselineAccepted = (
                convert_stored(payload, BaselineSet)
                if event.kind == BASELINE_SET
                else convert_stored(payload, BaselineAccepted)
            )
        except msgspec.ValidationError as error:
            return [(event.seq, f"{event.kind}: {error}")]
        if said.result not in self._sealed:
            return [(event.seq, f"{event.kind} cites {said.result}, which was not sealed before")]
        return []

    def finish(self) -> list[tuple[int, str]]:
        """Return nothing: each event is checked when it is read."""
        return []
