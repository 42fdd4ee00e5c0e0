"""Whether tables beside the ledger hold what its events tell of: what lists and pages show.

Results have columns beside their sealed documents; drift points, episodes, reviews and labels are
rows that events tell of. An export has none of these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from gatemark.drift.stores.tables import ACTS, EPISODES, MEMORIES, POINTS, REVISIONS
from gatemark.ledger.checks.report import Check
from gatemark.ledger.checks.scan import FurtherLook
from gatemark.ledger.checks.verify import LedgerCheck
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import (
    DRIFT_RECORDED,
    DRIFT_SIGNAL,
    LABELS_ACCEPTED,
    POINTS_PUSHED,
    REVIEW_CREATED,
    REVIEW_UNBLINDED,
)
from gatemark.ledger.listed import column_differences
from gatemark.ledger.stored_rows import Finding, finding
from gatemark.review.stores.tables import LABEL_ACCEPTANCES, LABEL_SETS, REVIEWS
from gatemark.workspace import Workspace

if TYPE_CHECKING:
    from gatemark.drift.table_check import DriftTables
    from gatemark.review.table_check import ReviewTables

ATTEMPTS: Final = 3
UNHELD: Final = "the ledger could not be read whole: its tables were not compared with it"
DRIFT_KINDS: Final = frozenset({DRIFT_SIGNAL, DRIFT_RECORDED})
REVIEW_KINDS: Final = frozenset({REVIEW_CREATED, REVIEW_UNBLINDED, LABELS_ACCEPTED})
DRIFT_ROWS: Final = (POINTS, REVISIONS, MEMORIES, EPISODES, ACTS)
REVIEW_ROWS: Final = (REVIEWS, LABEL_SETS, LABEL_ACCEPTANCES)


class TableCheck:
    """Learns from events while a check walks along them, and then looks at the tables."""

    kinds: Final = DRIFT_KINDS | REVIEW_KINDS
    caveats: Final = ()
    unjudged: Final = ()

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._is_whole = False
        self._last = 0

    # Both load numerics, which a ledger without drift and reviews is checked without.

    @cached_property
    def _drift(self) -> DriftTables:
        from gatemark.drift.table_check import DriftTables  # noqa: PLC0415

        return DriftTables(self._workspace)

    @cached_property
    def _review(self) -> ReviewTables:
        from gatemark.review.table_check import ReviewTables  # noqa: PLC0415

        return ReviewTables(self._workspace)

    def step(self, event: Event, payload: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
        """Remember what an event tells; what is wrong with rows is found at the end."""
        tables = self._drift if event.kind in DRIFT_KINDS else self._review
        tables.learn(event, payload)
        self._last = event.seq
        return ()

    def finish(self) -> Sequence[tuple[int, str]]:
        """Every event was there, so that tables can be held against them."""
        self._is_whole = True
        return ()

    def report(self, check: LedgerCheck) -> None:
        """Look at the tables, and add what is found to a check that has walked."""
        for seq, message in self._results(check):
            check.troubles.add(seq, "result", message)
        if not self._is_whole:
            check.add_caveat(UNHELD)
            return
        looks: list[tuple[Check, Callable[[], Iterable[Finding]]]] = []
        with_caveats: list[DriftTables | ReviewTables] = []
        if "_drift" in self.__dict__ or self._has_pushes() or self._has_rows(DRIFT_ROWS):
            looks += [("points", self._drift.points), ("drift", self._drift.watching)]
            with_caveats.append(self._drift)
        if "_review" in self.__dict__ or self._has_rows(REVIEW_ROWS):
            looks += [("review", self._review.reviews), ("labels", self._review.labels)]
            with_caveats.append(self._review)
        for name, look in looks:
            for seq, message in self._lasting(look):
                check.troubles.add(seq, name, message)
        for tables in with_caveats:
            for caveat in tables.caveats:
                check.add_caveat(caveat)

    def _has_pushes(self) -> bool:
        with self._workspace.store.database.reading() as connection:
            return self._workspace.store.events.has_kind(connection, POINTS_PUSHED)

    def _has_rows(self, tables: Sequence[sa.Table]) -> bool:
        with self._workspace.store.database.reading() as connection:
            queries = (sa.select(sa.literal(1)).select_from(table).limit(1) for table in tables)
            return any(connection.execute(query).first() is not None for query in queries)

    def _lasting(self, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
        """What a look finds, and finds again if somebody wrote meanwhile.

        Rows and their events are written together, but not read together. A row that came after
        the events were read is no trouble; a row that was edited still is, when they are known.
        """
        found = list(look())
        for _ in range(ATTEMPTS):
            if not found or not self._catch_up():
                break
            again = set(look())
            found = [one for one in found if one in again]
        return found

    def _catch_up(self) -> bool:
        """Learn from events that were written since; whether there are any."""
        after = self._last
        kinds = self.kinds | {POINTS_PUSHED}
        events = [
            one for kind in kinds for one in self._workspace.events.events(after=after, kind=kind)
        ]
        for event, payload in sorted(events, key=lambda one: one[0].seq):
            if event.kind in self.kinds:
                self.step(event, payload or {})
            self._last = max(self._last, event.seq)
        return bool(events)

    def _results(self, check: LedgerCheck) -> Iterator[Finding]:
        """Columns that say otherwise than documents, and results out of the order of sealing."""
        last = 0
        for row in self._workspace.store.results.listed():
            seq = check.seq_of_result(row.id)
            for what in column_differences(row):
                yield finding(seq, "results", f"result {row.id}: {what}")
            if seq is not None and seq < last:
                what = f"result {row.id}: column seq puts it behind results that were sealed later"
                yield finding(seq, "results", what)
            last = max(last, seq or 0)


class FurtherLooks:
    """Several further looks as one: each sees the kinds of events that it wants."""

    def __init__(self, *looks: FurtherLook) -> None:
        self._looks = looks

    @property
    def kinds(self) -> frozenset[str]:
        """Every kind that one of them wants."""
        return frozenset().union(*(look.kinds for look in self._looks))

    @property
    def caveats(self) -> tuple[str, ...]:
        """What any of them could not look at."""
        return tuple(caveat for look in self._looks for caveat in look.caveats)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """What any of them leaves to a newer build."""
        return tuple(one for look in self._looks for one in look.unjudged)

    def step(self, event: Event, payload: Mapping[str, Any]) -> list[tuple[int, str]]:
        """What is wrong, as far as this event tells."""
        wanting = (look for look in self._looks if event.kind in look.kinds)
        return [found for look in wanting for found in look.step(event, payload)]

    def finish(self) -> list[tuple[int, str]]:
        """What is wrong, now that there are no more events."""
        return [found for look in self._looks for found in look.finish()]
