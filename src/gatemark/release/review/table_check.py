"""Compare the tables of reviews and labels with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.errors import IntegrityError, NewerFormatError, OtherRulesError, UsageError
from gatemark.ledger.checks.report import Check
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import CONTENT_ERASED
from gatemark.ledger.port import Erasure, read_erasure
from gatemark.ledger.stored_rows import Finding, make_finding, plain_json
from gatemark.release.review.cast_rows import GivenRow, read_given
from gatemark.release.review.events import (
    LABEL_GIVEN,
    LABELS_ACCEPTED,
    LABELS_CREATED,
    REVIEW_CREATED,
    VOTE_CAST,
)
from gatemark.release.review.label_rows import AcceptedSet, compare_label_events, compare_labels
from gatemark.release.review.open_stores import label_sets_of, reviews_of
from gatemark.release.review.plan import REVIEW_RULES, PairKind, ReviewPair, build_erased_pair
from gatemark.release.review.sealed_key import open_key
from gatemark.release.review.sealed_rows import (
    TITLE,
    VOTES,
    ErasedContent,
    LedgerFact,
    ReviewEvents,
    ReviewRows,
    compare_review,
    compare_sealed_votes,
    find_misfits,
    outcome_title,
    report_missing_review,
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
        self._other_rules: list[str] = []
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
                labels.given[read_given(payload)] = event.seq
            return
        events = self._reviews.setdefault(name, ReviewEvents())
        if event.kind == REVIEW_CREATED:
            events.created = LedgerFact(event, payload)
        elif event.kind == VOTE_CAST:
            events.votes[read_given(payload)] = event.seq
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
        """Return what could not be judged; call it after the comparisons.

        That is reviews of other rules, and the copies of erased content that are left.
        """
        return (*self._other_rules, *self._erased.copies)

    @property
    def caveats(self) -> Iterator[str]:
        """Yield what was erased and which keys were not checked; call it after the comparisons."""
        yield from self._erasures
        if self._unopened:
            names, file = _list_names(self._unopened), self._workspace.review_key_file
            yield f"open reviews {names}: {file} is not here, so their keys were not checked"

    def comparisons(self) -> Sequence[tuple[Check, Callable[[], Iterator[Finding]]]]:
        """Return the checks of reviews, then of label sets."""
        return (("review", self.reviews), ("labels", self.labels))

    def reviews(self) -> Iterator[Finding]:
        """Yield a finding for each row of a review that differs from its events."""
        stored = reviews_of(self._workspace)
        is_any_closed = any(one.unblinded is not None for one in self._reviews.values())
        sealed = self._workspace.store.results.ids_by_title(TITLE) if is_any_closed else {}
        missing = dict(self._reviews)
        self._other_rules = []
        self._unopened = []
        for name in stored.stored_names():
            events = missing.pop(name, ReviewEvents())
            rows = self._open_rows(stored.stored_rows(name), events)
            found = list(compare_review(rows, events, self._erased))
            yield from found
            is_as_recorded = all(_is_about_votes(what) for _, what in found)
            if not is_as_recorded or any(find_misfits(rows)):
                continue
            try:
                REVIEW_RULES.check(plain_json(rows.review.plan).get("rules"))
            except IntegrityError as error:
                seq = None if events.created is None else events.created.event.seq
                yield make_finding(seq, "reviews", f"review {name}: {error}")
            except OtherRulesError as error:
                self._other_rules.append(f"review {name}: {error}")
            else:
                if events.unblinded is not None:
                    yield from self._check_sealed_votes(rows, events, sealed)
        for name, events in missing.items():
            yield report_missing_review(name, events)

    def _open_rows(self, rows: ReviewRows, events: ReviewEvents) -> ReviewRows:
        """Return the rows with their key, from the ledger if the key file is missing."""
        row, key_file = rows.review, self._workspace.review_key_file
        try:
            return rows._replace(key=open_key(row.sealed_key, row.commitment, key_file))
        except IntegrityError:
            return rows
        except FileNotFoundError:
            if events.unblinded is None:
                self._unopened.append(row.name)
                return rows._replace(key=None)
            return rows._replace(key=bytes.fromhex(str(events.unblinded.payload.get("key"))))

    def _check_sealed_votes(
        self, rows: ReviewRows, events: ReviewEvents, sealed: Mapping[str, Sequence[str]]
    ) -> Iterator[Finding]:
        """Yield the votes in sealed outcomes that differ from the table."""
        plan = plain_json(rows.review.plan)
        seq = None if events.unblinded is None else events.unblinded.event.seq
        left = {
            number: build_erased_pair(one.said.remains) for number, one in events.erased.items()
        }
        pairs = {
            row.number: left.get(row.number) or _read_light_pair(row.document)
            for row in rows.pairs()
        }
        for candidate in plan["candidates"]:
            arms = (candidate, plan["baseline"])
            for result_id in sealed.get(outcome_title(plan["name"], *arms), ()):
                lines = self._read_vote_lines(result_id)
                for what in compare_sealed_votes(rows, pairs, arms, lines):
                    message = f"review {plan['name']}: {what} in result {result_id[:SHORT]}"
                    yield make_finding(seq, "review_votes", message)

    def _read_vote_lines(self, result_id: str) -> list[bytes]:
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
        for name in sorted({*stored.stored_names(), *self._labels}, key=str):
            labels = self._labels.get(name, LabelEvents())
            rows = stored.stored_rows(name)._replace(erased=labels.erased)
            accepted_sets = [
                AcceptedSet(one.event, one.payload, self._read_dataset(one))
                for one in labels.accepted
            ]
            if labels.created is None:
                what = f"label set {name}: it has no event in the ledger"
                yield make_finding(None, "label_sets", what)
                continue
            made = labels.created[0].seq
            yield from compare_labels(rows, accepted_sets, self._erased, made)
            yield from compare_label_events(rows, labels.created, labels.given)

    def _read_dataset(self, recorded: LedgerFact) -> bytes | None:
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


def _read_light_pair(document: bytes) -> ReviewPair:
    found = msgspec.json.decode(document, type=_LightPair)
    return ReviewPair(
        item=found.item, arms=found.arms, input=None, answers=(None, None), kind=found.kind
    )


def _is_about_votes(message: str) -> bool:
    return any(f"table {table}:" in message for table in ("review_votes", "review_closings"))


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
