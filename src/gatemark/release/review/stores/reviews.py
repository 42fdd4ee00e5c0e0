"""Reviews in a database: rows are only added, and the newest version of a vote counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import sqlalchemy as sa

from gatemark.core.canonical import digest_bytes, digest_document, plain
from gatemark.core.errors import RefusedError, UnknownNameError
from gatemark.core.stored import read_stored
from gatemark.ledger.database import Database
from gatemark.ledger.port import Erasure
from gatemark.ledger.stored_rows import readable_rows, stored_bytes
from gatemark.release.review.cast_rows import GivenRow
from gatemark.release.review.plan import (
    Answered,
    ReviewClosing,
    ReviewFacts,
    ReviewPair,
    ReviewPlan,
    StoredReview,
    build_erased_pair,
    digest_manifest,
    read_pair,
)
from gatemark.release.review.queue import PairProgress
from gatemark.release.review.sealed_key import Sealed
from gatemark.release.review.sealed_rows import (
    ClosingRow,
    PairRow,
    ReviewRow,
    ReviewRows,
    ShowRow,
    VoteRow,
)
from gatemark.release.review.stores.tables import (
    CLOSINGS,
    PAIRS,
    REVIEWS,
    SHOWS,
    VOTES,
    next_version,
    rows_of,
)
from gatemark.release.review.unblind import BALLOT, CastVote

PAGE: Final = 50
Tell = Callable[[sa.Connection], object]
"""Appends ledger events in the given transaction."""


class SqlReviews:
    """The reviews of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, review: StoredReview, documents: Sequence[bytes], tell: Tell) -> None:
        """Store a new review, its pairs and its ledger event in one transaction."""
        name = review.plan.name
        rows = [
            {
                "review": name,
                "number": number,
                "is_gold": read_pair(document).is_gold,
                "document": document,
            }
            for number, document in enumerate(documents, start=1)
        ]
        with self._database.writing() as connection:
            known = sa.select(REVIEWS.c.name).where(REVIEWS.c.name == name)
            if connection.execute(known).first() is not None:
                raise RefusedError(f"there is a review {name} already; reviews are never replaced")
            connection.execute(
                sa.insert(REVIEWS).values(
                    name=name,
                    plan=msgspec.json.encode(plain(review.plan)),
                    commitment=review.commitment,
                    sealed_key=review.sealed_key,
                    facts=msgspec.json.encode(review.facts),
                    created_by=review.created_by,
                    created_at=review.created_at.isoformat(),
                )
            )
            connection.execute(sa.insert(PAIRS), rows)
            tell(connection)

    def get(self, name: str) -> StoredReview:
        """Return a review."""
        query = (
            sa.select(REVIEWS, CLOSINGS.c.by, CLOSINGS.c.at, CLOSINGS.c.note)
            .select_from(REVIEWS.outerjoin(CLOSINGS, CLOSINGS.c.review == REVIEWS.c.name))
            .where(REVIEWS.c.name == name)
        )
        # Some databases reject some characters in a query.
        row = None
        if name.isprintable():
            with self._database.reading() as connection:
                row = connection.execute(query).first()
        if row is None:
            raise UnknownNameError(f"there is no review {name!r}")
        with readable_rows("reviews"):
            closing = None
            if row.by is not None:
                closing = ReviewClosing(row.by, datetime.fromisoformat(row.at), row.note)
            return StoredReview(
                plan=read_stored(row.plan, ReviewPlan),
                plan_digest=digest_document(row.plan),
                commitment=row.commitment,
                sealed_key=row.sealed_key if isinstance(row.sealed_key, bytes) else b"",
                facts=msgspec.convert(msgspec.json.decode(row.facts), ReviewFacts),
                created_by=row.created_by,
                created_at=datetime.fromisoformat(row.created_at),
                closing=closing,
            )

    def names(self) -> list[str]:
        """Return the names of all reviews, newest first."""
        query = sa.select(REVIEWS.c.name).order_by(REVIEWS.c.created_at.desc(), REVIEWS.c.name)
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def open_names(self) -> list[str]:
        """Return the names of all open reviews, newest first."""
        query = (
            sa.select(REVIEWS.c.name)
            .select_from(REVIEWS.outerjoin(CLOSINGS, CLOSINGS.c.review == REVIEWS.c.name))
            .where(CLOSINGS.c.review.is_(None))
            .order_by(REVIEWS.c.created_at.desc(), REVIEWS.c.name)
        )
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def documents(self, name: str) -> list[bytes]:
        """Return the stored bytes of all pairs, in order; empty for a pair that was erased."""
        query = sa.select(PAIRS.c.document).where(PAIRS.c.review == name).order_by(PAIRS.c.number)
        with self._database.reading() as connection:
            return [stored_bytes(document) for document in connection.execute(query).scalars()]

    def document(self, name: str, number: int) -> bytes | None:
        """Return the stored bytes of one pair; None if there is no such pair."""
        query = sa.select(PAIRS.c.document).where(PAIRS.c.review == name, PAIRS.c.number == number)
        with self._database.reading() as connection:
            return connection.execute(query).scalar()

    def pair(self, name: str, number: int, erased: Mapping[int, Erasure]) -> ReviewPair:
        """Return one pair; of an erased one, what is left."""
        with readable_rows("review_pairs"):
            if number in erased:
                return build_erased_pair(erased[number].said.remains)
            return read_pair(self.document(name, number) or b"")

    def pairs(self, name: str, erased: Mapping[int, Erasure]) -> dict[int, ReviewPair]:
        """Return all pairs by number; of erased ones, what is left."""
        with readable_rows("review_pairs"):
            return {
                number: build_erased_pair(erased[number].said.remains)
                if number in erased
                else read_pair(document)
                for number, document in enumerate(self.documents(name), start=1)
            }

    def stored_names(self) -> list[str]:
        """Return the sorted names of all reviews with a row."""
        query = sa.select(REVIEWS.c.name).order_by(REVIEWS.c.name)
        with self._database.reading() as connection:
            return list(connection.execute(query).scalars())

    def stored_rows(self, name: str) -> ReviewRows:
        """Return all rows of a review, not decoded."""
        with self._database.reading() as connection:
            review = rows_of(connection, REVIEWS, ReviewRow, REVIEWS.c.name == name)
            shows = rows_of(connection, SHOWS, ShowRow, SHOWS.c.review == name)
            votes = rows_of(connection, VOTES, VoteRow, VOTES.c.review == name)
            closing = rows_of(connection, CLOSINGS, ClosingRow, CLOSINGS.c.review == name)
        return ReviewRows(
            review=review[0],
            pairs=lambda: self._read_pair_rows(name),
            shows=shows,
            votes=votes,
            closing=closing[0] if closing else None,
        )

    def _read_pair_rows(self, name: str) -> Iterator[PairRow]:
        """Yield the pairs in chunks: together they may be larger than memory."""
        after = 0
        columns = (PAIRS.c[column] for column in PairRow._fields)
        query = sa.select(*columns).where(PAIRS.c.review == name).order_by(PAIRS.c.number)
        while True:
            with self._database.reading() as connection:
                page = connection.execute(query.where(PAIRS.c.number > after).limit(PAGE)).all()
            yield from (PairRow(*row) for row in page)
            if len(page) < PAGE:
                return
            after = page[-1].number

    def sealed(self, review: StoredReview, erased: Mapping[int, Erasure]) -> Sealed:
        """Return what the commitment of a review must cover, from the stored rows."""
        name = review.plan.name
        digests = [
            erased[number].said.digest
            if number in erased and not document
            else digest_bytes(document)
            for number, document in enumerate(self.documents(name), start=1)
        ]
        return Sealed(name, review.plan_digest, digest_manifest(digests))

    def shows(self, name: str, reviewer: str) -> list[ShowRow]:
        """Return the pairs that a reviewer was shown, in order."""
        with self._database.reading() as connection:
            return _read_shows(connection, name, reviewer)

    def votes(self, name: str) -> list[CastVote]:
        """Return the newest version of every vote."""
        with self._database.reading() as connection:
            return _read_newest(connection, name)

    def last_vote(self, name: str, show: ShowRow) -> tuple[Answered, str] | None:
        """Return a reviewer's latest answer on one pair, and the reason."""
        query = (
            sa.select(VOTES.c.answered, VOTES.c.reason)
            .where(
                VOTES.c.review == name,
                VOTES.c.reviewer == show.reviewer,
                VOTES.c.ordinal == show.ordinal,
            )
            .order_by(VOTES.c.version.desc())
            .limit(1)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else (row.answered, row.reason)

    def standings(self, name: str) -> list[PairProgress]:
        """Return the progress of every pair."""
        with self._database.reading() as connection:
            return _read_progress(connection, name, _read_newest(connection, name))

    def show(
        self,
        name: str,
        reviewer: str,
        pick: Callable[[list[PairProgress], list[CastVote], list[ShowRow]], tuple[int, str] | None],
        at: datetime,
        erased: Collection[int],
    ) -> ShowRow | None:
        """Add one more pair to a reviewer's queue; ``pick`` returns its number and token."""
        with self._database.writing() as connection:
            _refuse_closed(connection, name)
            seen = _read_shows(connection, name, reviewer)
            votes = _read_newest(connection, name)
            answered = {vote.ordinal for vote in votes if vote.reviewer == reviewer}
            for known in seen:
                if known.ordinal not in answered and known.number not in erased:
                    return known
            picked = pick(_read_progress(connection, name, votes), votes, seen)
            if picked is None:
                return None
            shown = ShowRow(reviewer, len(seen) + 1, *picked)
            connection.execute(
                sa.insert(SHOWS).values(review=name, at=at.isoformat(), **shown._asdict())
            )
            return shown

    def vote(
        self,
        name: str,
        show: ShowRow,
        answered: Answered,
        *,
        reason: str,
        at: datetime,
        tell: Callable[[sa.Connection, GivenRow], object],
    ) -> int:
        """Store a vote and return its version; an unchanged vote keeps its version.

        ``tell`` appends the ledger event in the same transaction.
        """
        here = sa.and_(
            VOTES.c.review == name,
            VOTES.c.reviewer == show.reviewer,
            VOTES.c.ordinal == show.ordinal,
        )
        with self._database.writing() as connection:
            _refuse_closed(connection, name)
            said = {"answered": answered, "reason": reason}
            version, is_new = next_version(connection, VOTES, here, **said)
            if not is_new:
                return version
            row = VoteRow(show.reviewer, show.ordinal, version, answered, reason, at.isoformat())
            connection.execute(sa.insert(VOTES).values(review=name, **row._asdict()))
            tell(connection, row.given(name, show.number))
            return version

    def close(
        self,
        name: str,
        closing: ReviewClosing,
        tell: Callable[[sa.Connection, list[CastVote]], object],
    ) -> None:
        """Close a review; ``tell`` appends its key and votes to the ledger in the transaction."""
        with self._database.writing() as connection:
            _refuse_closed(connection, name)
            connection.execute(
                sa.insert(CLOSINGS).values(
                    review=name, by=closing.by, at=closing.at.isoformat(), note=closing.note
                )
            )
            tell(connection, _read_newest(connection, name))


def _read_shows(connection: sa.Connection, name: str, reviewer: str) -> list[ShowRow]:
    mine = sa.and_(SHOWS.c.review == name, SHOWS.c.reviewer == reviewer)
    return rows_of(connection, SHOWS, ShowRow, mine, "ordinal")


def _refuse_closed(connection: sa.Connection, name: str) -> None:
    query = sa.select(CLOSINGS.c.at).where(CLOSINGS.c.review == name)
    if connection.execute(query).first() is not None:
        raise RefusedError(f"review {name} is closed")


def _read_newest(connection: sa.Connection, name: str) -> list[CastVote]:
    query = (
        sa.select(*((SHOWS if field == "number" else VOTES).c[field] for field in BALLOT))
        .join_from(
            VOTES,
            SHOWS,
            sa.and_(
                SHOWS.c.review == VOTES.c.review,
                SHOWS.c.reviewer == VOTES.c.reviewer,
                SHOWS.c.ordinal == VOTES.c.ordinal,
            ),
        )
        .where(VOTES.c.review == name)
        .order_by(VOTES.c.reviewer, VOTES.c.ordinal, VOTES.c.version)
    )
    rows = connection.execute(query).all()
    with readable_rows("review_votes"):
        votes = [msgspec.convert(msgspec.structs.asdict(CastVote(*row)), CastVote) for row in rows]
    newest = {(vote.reviewer, vote.ordinal): vote for vote in votes}
    return list(newest.values())


def _read_progress(
    connection: sa.Connection, name: str, votes: Sequence[CastVote]
) -> list[PairProgress]:
    shown = (
        sa.select(SHOWS.c.number, sa.func.count().label("count"))
        .where(SHOWS.c.review == name)
        .group_by(SHOWS.c.number)
        .subquery()
    )
    query = (
        sa.select(PAIRS.c.number, PAIRS.c.is_gold, sa.func.coalesce(shown.c["count"], 0))
        .select_from(PAIRS.outerjoin(shown, shown.c.number == PAIRS.c.number))
        .where(PAIRS.c.review == name)
        .order_by(PAIRS.c.number)
    )
    voted = Counter(vote.number for vote in votes if vote.answered != "skip")
    return [
        PairProgress(row[0], bool(row[1]), int(row[2]), voted[row[0]])
        for row in connection.execute(query)
    ]
