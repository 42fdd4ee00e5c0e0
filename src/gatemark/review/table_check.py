"""Compare the tables of reviews and labels with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.errors import IntegrityError, NewerFormatError, UsageError
from gatemark.ledger.checks.report import Check
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import (
    CONTENT_ERASED,
    LABEL_GIVEN,
    LABELS_ACCEPTED,
    LABELS_CREATED,
    REVIEW_CREATED,
    VOTE_CAST,
)
from gatemark.ledger.port import Erasure, read_erasure
from gatemark.ledger.stored_rows import Finding, finding, plain_json
from gatemark.review.cast_rows import GivenRow, given_by
from gatemark.review.label_rows import AcceptedSet, chained_findings, label_findings
from gatemark.review.open_stores import label_sets_of, reviews_of
from gatemark.review.plan import PairKind, ReviewPair, left_of_pair
from gatemark.review.sealed_key import opened_key
from gatemark.review.sealed_rows import (
    TITLE,
    VOTES,
    ErasedContent,
    LedgerFact,
    ReviewEvents,
    ReviewRows,
    misfits,
    missing_review,
    outcome_title,
    review_findings,
    sealed_vote_findings,
)
from gatemark.workspace import Workspace

MOST_NAMED: Final = 5
SHORT: Final = 19


class LabelEvents:
    """The events that created one label set, and the labels they name."""

    def __init__(self) -> None:
        self.created: tuple[Event, Mapping[str, object]] | None = None
        self.given: dict[GivenRow, int] = {}
        self.accepted: list[LedgerFact] = []
        self.erased: dict[int, Erasure] = {}


class ReviewTables:
    """Collects the events about reviews and labels, then compares the tables with them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._reviews: dict[str, ReviewEvents] = {}
        self._labels: dict[str, LabelEvents] = {}
        self._open: list[str] = []
        self._unsealed: list[str] = []
        self._unopened: list[str] = []
        self._erased = ErasedContent()
        self._erasures: list[str] = []

    def learn(self, event: Event, payload: Mapping[str, object]) -> None:
        """Add one event."""
        name = (event.subject or "").partition(":")[2]
        if event.kind == CONTENT_ERASED:
            self._learn_erasure(read_erasure(event, payload))
            return
        if event.kind in (LABELS_ACCEPTED, LABELS_CREATED, LABEL_GIVEN):
            labels = self._labels.setdefault(name, LabelEvents())
            if event.kind == LABELS_ACCEPTED:
                labels.accepted.append(LedgerFact(event, payload))
            elif event.kind == LABELS_CREATED:
                labels.created = (event, payload)
            else:
                labels.given[given_by(payload)] = event.seq
            return
        events = self._reviews.setdefault(name, ReviewEvents())
        if event.kind == REVIEW_CREATED:
            events.created = LedgerFact(event, payload)
        elif event.kind == VOTE_CAST:
            events.votes[given_by(payload)] = event.seq
        else:
            events.unblinded = LedgerFact(event, payload)

    def _learn_erasure(self, erasure: Erasure) -> None:
        said = erasure.said
        if said.what == "pair":
            erased = self._reviews.setdefault(said.name, ReviewEvents()).erased
        elif said.what == "item":
            erased = self._labels.setdefault(said.name, LabelEvents()).erased
        else:
            return
        erased.setdefault(said.number, erasure)
        place = "review" if said.what == "pair" else "label set"
        self._erased.events.setdefault(said.digest, erasure.event.seq)
        self._erasures.append(f"{place} {said.name}: {said.what} {said.number} was {erasure.words}")

    @property
    def unjudged(self) -> Sequence[str]:
        """Return the copies of erased content that are left; call it after the comparisons."""
        return self._erased.copies

    @property
    def caveats(self) -> Iterator[str]:
        """Yield what was erased and what no event covers yet; call it after the comparisons."""
        yield from self._erasures
        if len(self._open) == 1:
            yield f"review {self._open[0]} is open: its votes are sealed when it closes"
        elif self._open:
            names = _named(self._open)
            yield f"reviews {names} are open: their votes are sealed when they close"
        if self._unopened:
            names, file = _named(self._unopened), self._workspace.review_key_file
            yield f"open reviews {names}: {file} is not here, so their keys were not checked"
        if self._unsealed:
            sets = "label set" if len(self._unsealed) == 1 else "label sets"
            yield f"{sets} {_named(self._unsealed)}: labels that are not accepted are not sealed"

    def comparisons(self) -> Sequence[tuple[Check, Callable[[], Iterator[Finding]]]]:
        """Return the checks of reviews, then of label sets."""
        return (("review", self.reviews), ("labels", self.labels))

    def reviews(self) -> Iterator[Finding]:
        """Yield a finding for each row of a review that differs from its events."""
        stored = reviews_of(self._workspace)
        is_any_closed = any(one.unblinded is not None for one in self._reviews.values())
        sealed = self._workspace.store.results.ids_by_title(TITLE) if is_any_closed else {}
        missing = dict(self._reviews)
        self._open = []
        self._unopened = []
        for name in stored.stored_names():
            events = missing.pop(name, ReviewEvents())
            rows = self._opened(stored.stored_rows(name), events)
            found = list(review_findings(rows, events, self._erased))
            yield from found
            if events.unblinded is None:
                if not events.is_chained:
                    self._open.append(name)
            elif all(_is_about_votes(what) for _, what in found) and not any(misfits(rows)):
                yield from self._sealed_votes(rows, events, sealed)
        for name, events in missing.items():
            yield missing_review(name, events)

    def _opened(self, rows: ReviewRows, events: ReviewEvents) -> ReviewRows:
        """Return the rows with their key, from the ledger if the key file is missing."""
        row, key_file = rows.review, self._workspace.review_key_file
        try:
            return rows._replace(key=opened_key(row.sealed_key, row.commitment, key_file))
        except IntegrityError:
            return rows
        except FileNotFoundError:
            if events.unblinded is None:
                self._unopened.append(row.name)
                return rows._replace(key=None)
            return rows._replace(key=bytes.fromhex(str(events.unblinded.payload.get("key"))))

    def _sealed_votes(
        self, rows: ReviewRows, events: ReviewEvents, sealed: Mapping[str, Sequence[str]]
    ) -> Iterator[Finding]:
        """Yield the votes in sealed outcomes that differ from the table."""
        plan = plain_json(rows.review.plan)
        seq = None if events.unblinded is None else events.unblinded.event.seq
        left = {number: left_of_pair(one.said.remains) for number, one in events.erased.items()}
        pairs = {row.number: left.get(row.number) or _light(row.document) for row in rows.pairs()}
        for candidate in plan["candidates"]:
            arms = (candidate, plan["baseline"])
            for result_id in sealed.get(outcome_title(plan["name"], *arms), ()):
                lines = self._vote_lines(result_id)
                for what in sealed_vote_findings(rows, pairs, arms, lines):
                    message = f"review {plan['name']}: {what} in result {result_id[:SHORT]}"
                    yield finding(seq, "review_votes", message)

    def _vote_lines(self, result_id: str) -> list[bytes]:
        """Return the votes of a sealed result; a damaged result is reported elsewhere."""
        try:
            result = self._workspace.results.get(result_id)
            for account in result.evidence:
                for file in account.files:
                    if file.name == VOTES:
                        return self._workspace.blobs.get(file.digest).splitlines()
        except (IntegrityError, NewerFormatError, UsageError):
            # The check of results reports it.
            return []
        return []

    def labels(self) -> Iterator[Finding]:
        """Yield a finding for each row of a label set that differs from its events."""
        stored = label_sets_of(self._workspace)
        self._unsealed = []
        for name in sorted({*stored.stored_names(), *self._labels}, key=str):
            labels = self._labels.get(name, LabelEvents())
            rows = stored.stored_rows(name)._replace(erased=labels.erased)
            accepted_sets = [
                AcceptedSet(one.event, one.payload, self._dataset(one)) for one in labels.accepted
            ]
            made = 0 if labels.created is None else labels.created[0].seq
            yield from label_findings(rows, accepted_sets, self._erased, made)
            if labels.created is not None:
                yield from chained_findings(rows, labels.created, labels.given)
            elif {row.number for row in rows.items} - {row.number for row in rows.accepted}:
                self._unsealed.append(name)

    def _dataset(self, recorded: LedgerFact) -> bytes | None:
        """Return the data set of an event; a damaged one is reported elsewhere."""
        try:
            return self._workspace.blobs.get(str(recorded.payload.get("dataset_digest")))
        except (IntegrityError, UsageError):
            return None


class _LightPair(msgspec.Struct, frozen=True):
    """The fields of a pair that opening a vote needs; the answers can be large."""

    item: str
    arms: tuple[str, str]
    kind: PairKind = "pair"


def _light(document: bytes) -> ReviewPair:
    found = msgspec.json.decode(document, type=_LightPair)
    return ReviewPair(
        item=found.item, arms=found.arms, input=None, answers=(None, None), kind=found.kind
    )


def _is_about_votes(message: str) -> bool:
    return any(f"table {table}:" in message for table in ("review_votes", "review_closings"))


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
