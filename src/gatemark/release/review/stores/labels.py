"""Label sets in a database: every version of every label, and the accepted ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec
import sqlalchemy as sa

from gatemark.core.canonical import plain
from gatemark.core.errors import RefusedError, UnknownNameError
from gatemark.core.stored import read_stored
from gatemark.ledger.database import Database
from gatemark.ledger.port import GONE, Erasure
from gatemark.ledger.stored_rows import readable_rows
from gatemark.release.review.cast_rows import GivenRow
from gatemark.release.review.label_rows import AcceptanceRow, ItemRow, LabelRows, MarkRow
from gatemark.release.review.labelling import Acceptance, LabelItem, LabelMark, LabelPlan
from gatemark.release.review.stores.tables import (
    LABEL_ACCEPTANCES,
    LABEL_ITEMS,
    LABEL_MARKS,
    LABEL_SETS,
    next_version,
    rows_of,
)


class SqlLabels:
    """The label sets of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        plan: LabelPlan,
        items: Sequence[ItemRow],
        *,
        by: str,
        at: datetime,
        tell: Callable[[sa.Connection], object],
    ) -> None:
        """Store a new label set and its ledger event in one transaction."""
        rows = [{"label_set": plan.name, **item._asdict()} for item in items]
        with self._database.writing() as connection:
            known = sa.select(LABEL_SETS.c.name).where(LABEL_SETS.c.name == plan.name)
            if connection.execute(known).first() is not None:
                raise RefusedError(f"there is a label set {plan.name} already")
            connection.execute(
                sa.insert(LABEL_SETS).values(
                    name=plan.name,
                    document=msgspec.json.encode(plain(plan)),
                    created_by=by,
                    created_at=at.isoformat(),
                )
            )
            connection.execute(sa.insert(LABEL_ITEMS), rows)
            tell(connection)

    def get(self, name: str) -> LabelPlan:
        """Return the plan of a set."""
        query = sa.select(LABEL_SETS.c.document).where(LABEL_SETS.c.name == name)
        # Some databases reject some characters in a query.
        document = None
        if name.isprintable():
            with self._database.reading() as connection:
                document = connection.execute(query).scalar()
        if document is None:
            raise UnknownNameError(f"there is no label set {name!r}")
        with readable_rows("label_sets"):
            return read_stored(document, LabelPlan)

    def names(self) -> list[str]:
        """Return the names of all label sets, newest first."""
        query = sa.select(LABEL_SETS.c.name).order_by(
            LABEL_SETS.c.created_at.desc(), LABEL_SETS.c.name
        )
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def ids(self, name: str) -> dict[str, int]:
        """Return the item numbers of a set by id."""
        query = (
            sa.select(LABEL_ITEMS.c.id, LABEL_ITEMS.c.number)
            .where(LABEL_ITEMS.c.label_set == name)
            .order_by(LABEL_ITEMS.c.number)
        )
        with self._database.reading() as connection:
            return {row.id: row.number for row in connection.execute(query)}

    def items(self, name: str, erased: Mapping[int, Erasure]) -> dict[int, LabelItem]:
        """Return all items of a set by number, without those that were erased."""
        query = sa.select(LABEL_ITEMS.c.number, LABEL_ITEMS.c.document).where(
            LABEL_ITEMS.c.label_set == name
        )
        with self._database.reading() as connection, readable_rows("label_items"):
            return {
                row.number: read_stored(row.document, LabelItem)
                for row in connection.execute(query)
                if row.number not in erased
            }

    def item(self, name: str, number: int, erased: Mapping[int, Erasure]) -> LabelItem:
        """Return one item of a set; of an erased one, what is left."""
        if number in erased:
            said = erased[number].said
            return LabelItem(id=str(said.remains.get("id")), input=GONE, output=GONE)
        with readable_rows("label_items"):
            return read_stored(self.document(name, number), LabelItem)

    def document(self, name: str, number: int) -> bytes:
        """Return the stored bytes of one item."""
        query = sa.select(LABEL_ITEMS.c.document).where(
            LABEL_ITEMS.c.label_set == name, LABEL_ITEMS.c.number == number
        )
        with self._database.reading() as connection:
            return bytes(connection.execute(query).scalar_one())

    def stored_names(self) -> list[str]:
        """Return the sorted names of all label sets with a row in any table."""
        query = sa.union(
            sa.select(LABEL_SETS.c.name), sa.select(LABEL_ACCEPTANCES.c.label_set).distinct()
        )
        with self._database.reading() as connection:
            # SQLite stores any type in any column, and a name of another type is reported too.
            return sorted(connection.execute(query).scalars(), key=str)

    def stored_rows(self, name: str) -> LabelRows:
        """Return all rows of a label set, not decoded."""
        mine = LABEL_ITEMS.c.label_set == name
        with self._database.reading() as connection:
            plan = connection.execute(
                sa.select(LABEL_SETS.c.document).where(LABEL_SETS.c.name == name)
            ).scalar()
            return LabelRows(
                name=name,
                plan=plan,
                items=rows_of(connection, LABEL_ITEMS, ItemRow, mine, "number"),
                accepted=_read_acceptance_rows(connection, name),
                marks=_mark_rows(connection, name),
            )

    def given(self, name: str) -> list[GivenRow]:
        """Return every version of every label, as events name them."""
        with self._database.reading() as connection:
            return [row.given(name) for row in _mark_rows(connection, name)]

    def marks(self, name: str) -> list[LabelMark]:
        """Return the newest version of every label."""
        with self._database.reading() as connection:
            rows = _mark_rows(connection, name)
        return list({(row.number, row.reviewer): LabelMark(*row[:5]) for row in rows}.values())

    def history(self, name: str, numbers: Sequence[int]) -> list[tuple[LabelMark, datetime]]:
        """Return every version of the labels of some items, oldest first."""
        with self._database.reading() as connection, readable_rows("label_marks"):
            rows = _mark_rows(connection, name, LABEL_MARKS.c.number.in_(numbers))
            return [(LabelMark(*row[:5]), datetime.fromisoformat(row.at)) for row in rows]

    def mark(
        self,
        name: str,
        mark: LabelMark,
        at: datetime,
        tell: Callable[[sa.Connection, GivenRow], object],
    ) -> int:
        """Store a label and return its version; an unchanged label keeps its version.

        ``tell`` appends the ledger event in the same transaction.
        """
        here = sa.and_(
            LABEL_MARKS.c.label_set == name,
            LABEL_MARKS.c.number == mark.number,
            LABEL_MARKS.c.reviewer == mark.reviewer,
        )
        with self._database.writing() as connection:
            said = {"label": mark.label, "note": mark.note}
            version, is_new = next_version(connection, LABEL_MARKS, here, **said)
            if not is_new:
                return version
            row = MarkRow(
                mark.number, mark.reviewer, version, mark.label, mark.note, at.isoformat()
            )
            connection.execute(sa.insert(LABEL_MARKS).values(label_set=name, **row._asdict()))
            tell(connection, row.given(name))
            return version

    def accepted(self, name: str) -> dict[int, Acceptance]:
        """Return the accepted labels by item."""
        with self._database.reading() as connection, readable_rows("label_acceptances"):
            return _read_accepted(connection, name)

    def accept(
        self,
        name: str,
        fresh: Sequence[Acceptance],
        seen: Mapping[int, Acceptance],
        tell: Callable[[sa.Connection], object],
    ) -> None:
        """Store acceptances and their ledger event, unless others were accepted since ``seen``."""
        with self._database.writing() as connection:
            if _read_accepted(connection, name) != dict(seen):
                raise RefusedError(
                    f"labels of {name} were accepted by another person in the meantime"
                )
            rows = [
                {
                    "label_set": name,
                    **msgspec.structs.asdict(one),
                    "reviewers": msgspec.json.encode(one.reviewers).decode(),
                }
                for one in fresh
            ]
            if rows:
                connection.execute(sa.insert(LABEL_ACCEPTANCES), rows)
            tell(connection)


def _mark_rows(
    connection: sa.Connection, name: str, *also: sa.ColumnElement[bool]
) -> list[MarkRow]:
    mine = sa.and_(LABEL_MARKS.c.label_set == name, *also)
    return rows_of(connection, LABEL_MARKS, MarkRow, mine, "number", "reviewer", "version")


def _read_acceptance_rows(connection: sa.Connection, name: str) -> list[AcceptanceRow]:
    mine = LABEL_ACCEPTANCES.c.label_set == name
    return rows_of(connection, LABEL_ACCEPTANCES, AcceptanceRow, mine, "number", "version")


def _read_accepted(connection: sa.Connection, name: str) -> dict[int, Acceptance]:
    found = {}
    for row in _read_acceptance_rows(connection, name):
        reviewers = msgspec.json.decode(row.reviewers, type=tuple[str, ...])
        found[row.number] = Acceptance(**{**row._asdict(), "reviewers": reviewers})
    return found
