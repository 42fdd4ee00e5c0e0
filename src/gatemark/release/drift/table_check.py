"""Compare the drift tables with the ledger: points, levels, episodes and acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from gatemark.ledger.checks.report import Check
from gatemark.ledger.event import Event, check_row
from gatemark.ledger.event_kinds import DRIFT_SIGNAL, POINTS_PUSHED
from gatemark.ledger.stored_rows import Finding
from gatemark.release.drift.batches import PushedBatch, check_batches
from gatemark.release.drift.episode_check import (
    LedgerEpisodes,
    check_recorded,
    check_succession,
    read_cited_numbers,
)
from gatemark.release.drift.events import DriftRecorded, PointsPushed
from gatemark.release.drift.open_stores import episodes_of, points_of
from gatemark.workspace import Workspace

CITED_AT_ONCE: Final = 500


class DriftTables:
    """Collects the events about drift, then compares the tables with them."""

    caveats: Final = ()
    unjudged: Final = ()

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._episodes = LedgerEpisodes()
        self._recorded: tuple[int, DriftRecorded] | None = None
        self._first_recorded: int | None = None
        self._found: list[Finding] = []

    def learn(self, event: Event, payload: Mapping[str, object]) -> None:
        """Add one event."""
        if event.kind == DRIFT_SIGNAL:
            self._episodes.learn(event, payload)
            return
        try:
            said = msgspec.convert(payload, DriftRecorded)
        except msgspec.ValidationError as error:
            what = f"event {event.seq}: its payload is not that of a {event.kind}: {error}"
            self._found.append((event.seq, what))
            return
        self._first_recorded = self._first_recorded or event.seq
        if self._recorded is not None:
            self._found.extend(check_succession(self._recorded, event.seq, said))
        self._recorded = (event.seq, said)

    def comparisons(self) -> Sequence[tuple[Check, Callable[[], Iterator[Finding]]]]:
        """Return the checks of points, then of levels, episodes and acts."""
        return (("points", self.points), ("drift", self.watching))

    def points(self) -> Iterator[Finding]:
        """Yield a finding for each batch of points that differs from its event."""
        with points_of(self._workspace).batches() as batches:
            yield from check_batches(batches, self._read_pushes())

    def _read_pushes(self) -> Iterator[PushedBatch]:
        for event, payload in self._workspace.events.events(kind=POINTS_PUSHED):
            said = PointsPushed(0, "", event.at, 0, ())
            with suppress(msgspec.ValidationError):
                # An unreadable event counts as empty, so that all of its rows are reported.
                said = msgspec.convert(payload, PointsPushed)
            yield PushedBatch(event.seq, said.rows, said.digest, said.assets)

    def watching(self) -> Iterator[Finding]:
        """Yield the levels, episodes and acts that differ from their events."""
        stored = episodes_of(self._workspace)
        yield from self._found
        edited = list(check_recorded(stored.state(), self._recorded))
        yield from edited
        is_ahead = self._recorded is not None and not edited
        yield from self._episodes.compared(stored.episode_rows(), is_ahead=is_ahead)
        acts = list(stored.act_rows())
        numbers = {number for row in acts for number in read_cited_numbers(row) or ()}
        cited = self._find_cited(sorted(numbers))
        yield from self._episodes.compare_acts(acts, cited, self._first_recorded)

    def _find_cited(self, numbers: Sequence[int]) -> dict[int, tuple[Event, Mapping[str, object]]]:
        """Return the events with these numbers that exist."""
        cited: dict[int, tuple[Event, Mapping[str, object]]] = {}
        for start in range(0, len(numbers), CITED_AT_ONCE):
            rows = self._workspace.events.rows_at(numbers[start : start + CITED_AT_ONCE])
            for seq, row in rows.items():
                event, payload = check_row(row)
                cited[seq] = (event, payload or {})
        return cited
