"""Compare the tables behind lists and pages with the events of the ledger.

Results have columns and a sealed document; drift points, episodes, reviews and labels are rows that
events cover. An export has none of these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import sqlalchemy as sa

from gatemark.ledger.checks.ledger_check import LedgerCheck
from gatemark.ledger.checks.report import Check
from gatemark.ledger.event import Event
from gatemark.ledger.stored_rows import Finding, column_differences, make_finding
from gatemark.ledger.stores.sql import SqlStore

UNHELD: Final = "the ledger could not be read completely, so its tables were not compared with it"


class RowCheck(Protocol):
    """Reads the events of a feature, then compares the feature's rows with them."""

    @property
    def caveats(self) -> Iterable[str]:
        """Notes on rows that no event covers; complete after the comparison."""

    @property
    def unjudged(self) -> Iterable[str]:
        """What a person has to settle; complete after the comparison."""

    def learn(self, event: Event, payload: Mapping[str, object]) -> None:
        """Read one event."""

    def comparisons(self) -> Sequence[tuple[Check, Callable[[], Iterable[Finding]]]]:
        """The comparisons; each yields rows that differ from their events."""


class FeatureRows(NamedTuple):
    """The tables of a feature whose rows are covered by events.

    ``kinds`` are the events to read. ``looked_up`` are kinds that the comparison fetches itself.
    ``open`` is called only if there are such events or rows, because it imports numeric libraries.
    """

    kinds: frozenset[str]
    looked_up: frozenset[str]
    tables: Sequence[sa.Table]
    open: Callable[[], RowCheck]


class TableCheck:
    """Reads events during the scan and compares the tables at the end."""

    caveats: Final = ()
    unjudged: Final = ()

    def __init__(self, store: SqlStore, features: Sequence[FeatureRows]) -> None:
        self._store = store
        self._features = features
        self._opened: dict[int, RowCheck] = {}
        self._is_whole = False

    @cached_property
    def kinds(self) -> frozenset[str]:
        return frozenset().union(*(feature.kinds for feature in self._features))

    def step(self, event: Event, payload: Mapping[str, object]) -> Sequence[tuple[int, str]]:
        """Read an event. Yields nothing, because rows are compared at the end."""
        for number, feature in enumerate(self._features):
            if event.kind in feature.kinds:
                self._open(number).learn(event, payload)
        return ()

    def _open(self, number: int) -> RowCheck:
        if number not in self._opened:
            self._opened[number] = self._features[number].open()
        return self._opened[number]

    def finish(self) -> Sequence[tuple[int, str]]:
        """Note that every event was read, so that the tables can be compared."""
        self._is_whole = True
        return ()

    def report(self, check: LedgerCheck) -> None:
        """Compare the tables and add the findings to ``check``."""
        for seq, message in self._compare_results(check):
            check.issues.add(seq, "result", message)
        if not self._is_whole:
            check.add_caveat(UNHELD)
            return
        rows = [
            self._open(number)
            for number, feature in enumerate(self._features)
            if number in self._opened or self._has_any(feature)
        ]
        for one in rows:
            for name, compare in one.comparisons():
                for seq, message in compare():
                    check.issues.add(seq, name, message)
        for one in rows:
            for caveat in one.caveats:
                check.add_caveat(caveat)
            check.unjudged.extend(one.unjudged)

    def _has_any(self, feature: FeatureRows) -> bool:
        """Whether there are rows, or events that the comparison fetches itself."""
        with self._store.database.reading() as connection:
            if any(self._store.events.has_kind(connection, kind) for kind in feature.looked_up):
                return True
            one = sa.select(sa.literal(1))
            queries = (one.select_from(table).limit(1) for table in feature.tables)
            return any(connection.execute(query).first() is not None for query in queries)

    def _compare_results(self, check: LedgerCheck) -> Iterator[Finding]:
        """Yield columns that differ from their documents, and results that are out of order."""
        last = 0
        for row in self._store.results.listed():
            seq = check.seq_of_result(row.id)
            left = None if row.document else check.read_erased(row.id)
            if left is not None:
                row = row._replace(document=left.document)  # noqa: PLW2901
            for what in column_differences(row):
                yield make_finding(seq, "results", f"result {row.id}: {what}")
            if seq is not None and seq < last:
                what = f"result {row.id}: column seq lists it after results that were sealed later"
                yield make_finding(seq, "results", what)
            last = max(last, seq or 0)
