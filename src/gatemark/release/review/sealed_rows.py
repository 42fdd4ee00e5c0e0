"""Compare the rows of a review with its events. No I/O.

The creation event commits to plan, pairs and key; the closing event commits to the votes. Stored
bytes are compared, so that a build verifies rows with fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event import Event
from gatemark.ledger.port import Erasure
from gatemark.ledger.stored_rows import (
    Finding,
    has_types,
    is_moment_of,
    make_finding,
    plain_json,
    stored_bytes,
)
from gatemark.release.review.cast_rows import GivenRow, find_differences
from gatemark.release.review.plan import Answered, ReviewPair
from gatemark.release.review.sealed_key import Sealed, commit_key, draw_token
from gatemark.release.review.unblind import CastVote, digest_ballots, open_choice

VOTE_SCHEMA: Final = "gatemark.review-vote/1"
VOTES: Final = "votes.jsonl"
"""The evidence file of a sealed outcome."""
TITLE: Final = "review "
"""Prefix of the titles of sealed outcomes."""
MOST_LISTED: Final = 5
"""Maximum number of rows of one kind that are reported by name."""


def outcome_title(review: str, candidate: str, baseline: str) -> str:
    """Return the title of a review's sealed outcome."""
    return f"{TITLE}{review}: {candidate} against {baseline}"


class ReviewRow(NamedTuple):
    """A stored review, not decoded; the fields are its columns."""

    name: str
    plan: bytes
    commitment: str
    sealed_key: bytes
    facts: bytes
    created_by: str
    created_at: str


class PairRow(NamedTuple):
    """A stored pair; the fields are its columns."""

    number: int
    is_gold: bool
    document: bytes


class ShowRow(NamedTuple):
    """A stored pair of a reviewer's queue; the fields are its columns."""

    reviewer: str
    ordinal: int
    number: int
    token: str


class VoteRow(NamedTuple):
    """One stored version of a vote; the fields are its columns, and what its event digests."""

    reviewer: str
    ordinal: int
    version: int
    answered: Answered
    reason: str
    at: str

    def given(self, review: str, number: int) -> GivenRow:
        """Return the vote as its event names it; ``number`` is the pair's number."""
        said = {"schema": VOTE_SCHEMA, "review": review, "pair": number, **self._asdict()}
        return GivenRow(self.reviewer, self.ordinal, self.version, digest(said))


class ClosingRow(NamedTuple):
    """The stored closing of a review; the fields are its columns."""

    by: str
    at: str
    note: str


class ReviewRows(NamedTuple):
    """All stored rows of a review."""

    review: ReviewRow
    pairs: Callable[[], Iterable[PairRow]]
    shows: Sequence[ShowRow]
    votes: Sequence[VoteRow]
    closing: ClosingRow | None
    key: bytes | None = b""
    """The decrypted key, or None if the key file is missing."""


class LedgerFact(NamedTuple):
    """An event and its payload."""

    event: Event
    payload: Mapping[str, object]


class ReviewEvents:
    """The events that created and closed one review, and the votes that events name."""

    def __init__(self) -> None:
        self.created: LedgerFact | None = None
        self.unblinded: LedgerFact | None = None
        self.votes: dict[GivenRow, int] = {}
        self.erased: dict[int, Erasure] = {}


def report_missing_review(name: str, recorded: ReviewEvents) -> Finding:
    """Return the finding for a review that is in the ledger but not in the table."""
    seq = None if recorded.created is None else recorded.created.event.seq
    return make_finding(seq, "reviews", f"review {name} is missing")


class ErasedContent:
    """What was erased of all reviews or label sets, and the copies of it that are left."""

    def __init__(self) -> None:
        self.events: dict[str, int] = {}
        """The event that erased the content with a digest."""
        self.copies: list[str] = []

    def problem(self, known: str, made: int, place: str) -> str | None:
        """Return what is wrong with content that the event ``made`` brought; None if nothing is.

        Content from before the erasure was not brought back: it has to be erased there as well.
        """
        erased = self.events.get(known)
        if erased is None:
            return None
        if made < erased:
            self.copies.append(
                f"{place} has the same content as what event {erased} erased; erase it too: "
                f"gatemark ledger erase {place} --reason …"
            )
            return None
        return f"{place} has content that was erased by event {erased}"


def compare_review(
    rows: ReviewRows, recorded: ReviewEvents, erased: ErasedContent
) -> Iterator[Finding]:
    """Yield the differences between a review's rows and its events."""
    name = rows.review.name
    if recorded.created is None:
        yield make_finding(None, "reviews", f"review {name}: it has no event in the ledger")
        return
    seq = recorded.created.event.seq
    for what in _check_review(rows, recorded.created):
        yield make_finding(seq, "reviews", f"review {name}: {what}")
    for what in find_misplaced_erasures(recorded.erased, seq):
        yield make_finding(seq, "review_pairs", f"review {name}: {what}")
    for what in _check_pairs(rows, recorded.created, recorded.erased, erased):
        yield make_finding(seq, "review_pairs", f"review {name}: {what}")
    unreadable = list(find_misfits(rows))
    for table, what in unreadable:
        yield make_finding(seq, table, f"review {name}: {what}")
    if unreadable:
        return
    for what in _check_shows(rows, recorded.created.payload):
        yield make_finding(seq, "review_shows", f"review {name}: {what}")
    ended = seq if recorded.unblinded is None else recorded.unblinded.event.seq
    for what in _check_votes(rows, recorded.unblinded):
        yield make_finding(ended, "review_votes", f"review {name}: {what}")
    for at, what in find_differences(list_given_votes(rows), recorded.votes):
        yield make_finding(at, "review_votes", f"review {name}: vote {what}")
    for what in _check_closing(rows.closing, recorded.unblinded):
        yield make_finding(ended, "review_closings", f"review {name}: {what}")


def find_misfits(rows: ReviewRows) -> Iterator[tuple[str, str]]:
    """Yield rows with content that this build never writes."""
    for show in rows.shows:
        if not has_types(show, str, int, int, str):
            yield "review_shows", f"the row of {show.reviewer!r}, {show.ordinal!r} cannot be read"
    for vote in rows.votes:
        if not has_types(vote, str, int, int, str, str, str):
            yield "review_votes", f"the row of {vote.reviewer!r}, {vote.ordinal!r} cannot be read"


def _check_review(rows: ReviewRows, recorded: LedgerFact) -> Iterator[str]:
    row, said = rows.review, recorded.payload
    if digest(plain_json(row.plan)) != said.get("plan_digest"):
        yield "its rules differ from those recorded when it was made"
    if row.commitment != said.get("commitment"):
        yield "its commitment differs from the recorded one"
    if rows.key is not None and not is_key(rows, said):
        yield "its key differs from the sealed one"
    facts = plain_json(row.facts)
    kept = facts if isinstance(facts, dict) else {}
    for word in ("left_out", "tells"):
        if kept.get(word) != said.get(word):
            yield f"its facts ({word}) differ from those recorded when it was made"
    if row.created_by != recorded.event.actor:
        yield f"was made by {recorded.event.actor}, not by {row.created_by}"
    if not is_moment_of(row.created_at, recorded.event.at):
        yield f"was made at {recorded.event.at.isoformat()}, not at {row.created_at}"


def is_key(rows: ReviewRows, said: Mapping[str, object]) -> bool:
    """Return whether the stored key matches the commitment."""
    sealed = Sealed(
        rows.review.name, str(said.get("plan_digest")), str(said.get("manifest_digest"))
    )
    try:
        return commit_key(sealed, rows.key or b"") == said.get("commitment")
    except InvalidValueError:
        return False


def find_misplaced_erasures(erased: Mapping[int, Erasure], made: int) -> Iterator[str]:
    """Yield erasures that come before what they erase; ``made`` is the event that made it."""
    for number, erasure in erased.items():
        if erasure.event.seq < made:
            yield f"event {erasure.event.seq} erases number {number}, which was not there yet"


def digest_stored_document(
    what: str, number: int, document: str | bytes, erasure: Erasure | None
) -> tuple[str, str | None]:
    """The digest by which the chain knows a document, and what is wrong with an erasure of it."""
    data = stored_bytes(document)
    if erasure is None:
        lost = f"{what} {number} is gone, and no event erased it"
        return digest_bytes(data), None if data else lost
    seq = erasure.event.seq
    back = f"{what} {number} was erased by event {seq}, yet its content is here"
    return erasure.said.digest, back if data else None


def _check_pairs(
    rows: ReviewRows,
    created: LedgerFact,
    erased: Mapping[int, Erasure],
    everywhere: ErasedContent,
) -> Iterator[str]:
    digests = []
    said, made = created.payload, created.event.seq
    for place, row in enumerate(rows.pairs(), start=1):
        if row.number != place:
            yield f"pair {place} is missing"
            return
        erasure = erased.get(place)
        known, problem = digest_stored_document("pair", place, row.document, erasure)
        digests.append(known)
        if problem is not None:
            yield problem
            continue
        if erasure is None:
            back = everywhere.problem(known, made, f"pair:{rows.review.name}/{place}")
            if back is not None:
                yield back
        plain = plain_json(row.document) if erasure is None else erasure.said.remains
        kind = plain.get("kind", "pair") if isinstance(plain, dict) else None
        if bool(row.is_gold) != (kind != "pair"):
            yield f"column is_gold of pair {place} differs from its document"
    for number in sorted(set(erased) - set(range(1, len(digests) + 1))):
        yield f"event {erased[number].event.seq} erases pair {number}, which never was"
    count = sum(int(str(said.get(word, 0))) for word in ("pair_count", "gold_count"))
    if len(digests) != count:
        yield f"has {len(digests)} pairs, was made with {count}"
    elif digest(digests) != said.get("manifest_digest"):
        yield "its pairs differ from those recorded when it was made"


def _check_shows(rows: ReviewRows, said: Mapping[str, object]) -> Iterator[str]:
    """Yield wrong queue rows; tokens are derived from the key, so each proves its pair."""
    key = rows.key if is_key(rows, said) else None
    last: dict[str, int] = {}
    for row in sorted(rows.shows, key=lambda one: (one.reviewer, one.ordinal)):
        if row.ordinal != last.get(row.reviewer, 0) + 1:
            yield f"{row.reviewer}'s queue has a gap before pair {row.ordinal}"
        last[row.reviewer] = row.ordinal
        if key is not None and row.token != draw_token(key, row.reviewer, row.number):
            yield f"pair {row.ordinal} of {row.reviewer}'s queue was not pair {row.number}"


def _check_votes(rows: ReviewRows, unblinded: LedgerFact | None) -> Iterator[str]:
    shown = {(row.reviewer, row.ordinal) for row in rows.shows}
    last: dict[tuple[str, int], int] = {}
    for row in sorted(rows.votes, key=lambda one: one[:3]):
        place = (row.reviewer, row.ordinal)
        if place not in shown:
            yield f"{row.reviewer} voted on a pair {row.ordinal} that was not shown"
        if row.version != last.get(place, 0) + 1:
            yield f"an earlier version of {row.reviewer}'s vote {row.ordinal} is missing"
        last[place] = row.version
    if unblinded is None:
        return
    votes = cast_votes(rows)
    said = unblinded.payload
    if len(votes) != said.get("vote_count"):
        yield f"has {len(votes)} votes, was closed with {said.get('vote_count')}"
    elif digest_ballots(votes) != said.get("ballots_digest"):
        yield "its votes differ from those recorded when it was closed"


def list_given_votes(rows: ReviewRows) -> Iterator[GivenRow]:
    """Yield every version of every vote on a shown pair, as events name them."""
    shown = {(row.reviewer, row.ordinal): row.number for row in rows.shows}
    for row in rows.votes:
        number = shown.get((row.reviewer, row.ordinal))
        if number is not None:
            yield row.given(rows.review.name, number)


def cast_votes(rows: ReviewRows) -> list[CastVote]:
    """Return the newest version of every vote on a shown pair."""
    shown = {(row.reviewer, row.ordinal): row.number for row in rows.shows}
    newest: dict[tuple[str, int], CastVote] = {}
    for row in sorted(rows.votes, key=lambda one: one[:3]):
        place = (row.reviewer, row.ordinal)
        if place in shown:
            newest[place] = CastVote(
                shown[place], row.reviewer, row.ordinal, row.version, row.answered, row.reason
            )
    return list(newest.values())


def _check_closing(row: ClosingRow | None, unblinded: LedgerFact | None) -> Iterator[str]:
    if row is None or unblinded is None:
        if row is not None:
            yield "is closed in the table, open in the ledger"
        elif unblinded is not None:
            yield "is open in the table, closed in the ledger"
        return
    event, said = unblinded
    if row.by != event.actor:
        yield f"was closed by {event.actor}, not by {row.by}"
    if not is_moment_of(row.at, event.at):
        yield f"was closed at {event.at.isoformat()}, not at {row.at}"
    if row.note != (said.get("early") or ""):
        yield "was closed for another reason"


class SealedVote(msgspec.Struct, frozen=True):
    """The fields of a vote in a sealed result that are compared."""

    item: str
    reviewer: str
    choice: str
    first: str


def compare_sealed_votes(
    rows: ReviewRows, pairs: Mapping[int, ReviewPair], arms: tuple[str, str], lines: Sequence[bytes]
) -> Iterator[str]:
    """Yield the votes of a sealed result that differ from the table."""
    key = rows.key or b""
    opened = set()
    for cast in cast_votes(rows):
        pair = pairs.get(cast.number)
        if pair is not None and pair.arms == arms and cast.answered != "skip":
            choice, first = open_choice(key, cast)
            opened.add(SealedVote(pair.item, cast.reviewer, choice, first))
    sealed = (msgspec.json.decode(line, type=SealedVote) for line in lines)
    lost = [one for one in sealed if one not in opened]
    for one in lost[:MOST_LISTED]:
        yield f"{one.reviewer}'s vote on {one.item} differs from the sealed one"
    if len(lost) > MOST_LISTED:
        yield f"{len(lost) - MOST_LISTED} more votes differ from the sealed ones"
