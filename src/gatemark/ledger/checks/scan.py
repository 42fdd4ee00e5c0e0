"""Verify stored events in order: chain, payloads, times, tree, keys, decisions and seals."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, digest, same_digest
from gatemark.core.errors import IntegrityError, InvalidValueError, OtherRulesError
from gatemark.core.result import RESULT_FORMAT
from gatemark.core.stored import FORMAT, convert_stored, is_newer, newer_format, parse_format
from gatemark.ledger.checks.report import MOST_KEPT, IssueList
from gatemark.ledger.event import EMPTY, Event, EventRow, Head, check_payload, encode_row, event_of
from gatemark.ledger.event_kinds import (
    APPROVAL,
    BLOB_ERASED,
    CLOCK_SET_BACK,
    CONTENT_ERASED,
    DECIDED_BY,
    PAYLOAD_ERASED,
    RESULT_SEALED,
    SYSTEM,
    TRANSITION,
    BlobErased,
    Channel,
    PayloadErased,
    ResultSealed,
    check_decided_by,
    check_payload_format,
    find_kind,
    is_kept,
    sealed_format,
)
from gatemark.ledger.merkle import Frontier, leaf_hash, node_count, node_number
from gatemark.ledger.port import Erasure, read_erasure
from gatemark.ledger.signing.keyring import KEY_KINDS, Keyring
from gatemark.ledger.signing.note import origin_of


class TreeCheck:
    """Compares the tree nodes that each event completes with the stored nodes."""

    def __init__(self, issues: IssueList, kept: Iterator[tuple[int, bytes]] | None) -> None:
        self._issues = issues
        self._kept = kept
        self._next = None if kept is None else next(kept, None)
        self._different: dict[int, tuple[int, int]] = {}

    def compare(self, leaf_count: int, completed: Sequence[tuple[int, bytes]]) -> None:
        """Compare the nodes that one event completes with the stored nodes."""
        if self._kept is None:
            return
        for level, (number, hashed) in enumerate(completed, start=1):
            while self._next is not None and self._next[0] < number:
                self._next = next(self._kept, None)
            if self._next is None or self._next[0] != number:
                self._issues.of_event(leaf_count, "tree", f"node {number} of the tree is missing")
                continue
            if self._next[1] != hashed and len(self._different) < MOST_KEPT:
                self._different[number] = (level, (leaf_count >> level) - 1)
            self._next = next(self._kept, None)

    def finish(self, size: int) -> None:
        """Report the differences. Call this once, after the last event."""
        if self._kept is None:
            return
        for number, (level, index) in self._different.items():
            self._explain(number, level, index, size)
        if self._next is not None:
            message = "missing, but the tree has nodes over more events"
            self._issues.of_event(size + 1, "tree", message)

    def _explain(self, number: int, level: int, index: int, size: int) -> None:
        """Report a changed node, or the changed events below it."""
        last = (index + 1) << level
        if level > 1:
            parts = (node_number(level - 1, 2 * index), node_number(level - 1, 2 * index + 1))
            if any(part in self._different for part in parts):
                return
            alone = True
        else:
            above = node_number(level + 1, index >> 1)
            alone = above <= node_count(size) and above not in self._different
        if alone:
            self._issues.of_event(last, "tree", f"node {number} of the tree was changed")
        else:
            message = f"event {last - 1} or {last}: does not match the tree"
            self._issues.add(last - 1, "tree", message, until=last)


class SealedAt(NamedTuple):
    """The payload of a ``result_sealed`` event, and the event's number."""

    seq: int
    said: ResultSealed


class SealedResults(dict[str, SealedAt]):
    """Sealed results by id, each with its first event."""

    def learn(self, event: Event, payload: Mapping[str, object]) -> Iterator[str]:
        """Read an event and yield the problems found in it."""
        try:
            said = convert_stored(payload, ResultSealed)
        except msgspec.ValidationError as error:
            yield f"its payload is not that of a {event.kind}: {error}"
            return
        occasion = {"id": said.result_id, "occasion": said.occasion}
        if not same_digest(digest(occasion), said.stamp):
            yield f"the stamp of result {said.result_id} does not cover its occasion"
        first = self.setdefault(said.result_id, SealedAt(event.seq, said))
        if _select_fixed_fields(first.said) != _select_fixed_fields(said):
            yield f"describes result {said.result_id} differently than event {first.seq}"


def _select_fixed_fields(said: ResultSealed) -> ResultSealed:
    """Return the fields that must not change when the same result is sealed again."""
    return msgspec.structs.replace(said, stamp="", occasion={})


GENESIS_BYTES: Final = bytes(32)
PROGRESS_STEP: Final = 5_000
_READ_FURTHER: Final = KEY_KINDS | {RESULT_SEALED, PAYLOAD_ERASED, BLOB_ERASED, CONTENT_ERASED}


class FurtherLook(Protocol):
    """A check that a feature adds; it receives events in order with their payloads.

    A finding is an event number and a message. It may be yielded after later events were read.
    """

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that this check reads."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Notes on what could not be checked."""

    @property
    def unjudged(self) -> tuple[str, ...]:
        """What only a newer build can check."""

    def step(self, event: Event, payload: Mapping[str, object]) -> Iterable[tuple[int, str]]:
        """Yield the findings that this event reveals."""

    def finish(self) -> Iterable[tuple[int, str]]:
        """Yield the findings that are known only after the last event."""


class EventScan:
    """One pass over a ledger, from the first event to the last."""

    def __init__(
        self,
        issues: IssueList,
        ring: Keyring,
        sizes: Iterable[int],
        nodes: Iterator[tuple[int, bytes]] | None,
        further: Sequence[FurtherLook] = (),
    ) -> None:
        self.issues = issues
        self.ring = ring
        self.results = SealedResults()
        self.decision_count = 0
        self.ways: Counter[str] = Counter()
        self._further = further
        self.judged_until: int | None = None
        self.newer_from: int | None = None
        self.newer_results: dict[str, int] = {}
        self.newer_kinds: set[str] = set()
        self.unjudged: list[str] = []
        self._wanted = _READ_FURTHER.union(*(look.kinds for look in further))
        self.origin: str | None = None
        self.roots: dict[int, bytes] = {}
        self.last: EventRow | None = None
        self.erased_count = 0
        self.erased_blobs: dict[str, int] = {}
        self.erased_results: dict[str, Erasure] = {}
        self._sizes = frozenset(sizes)
        self._tree = TreeCheck(issues, nodes)
        self._frontier = Frontier()
        self._is_whole = True
        self._suspect: EventRow | None = None
        self._last_at: str | None = None
        self._absent: dict[int, EventRow] = {}
        self._tombstones: dict[int, tuple[int, PayloadErased]] = {}

    @property
    def size(self) -> int:
        """The number of the last event read."""
        return 0 if self.last is None else self.last.seq

    @property
    def head(self) -> Head:
        """The last event of the ledger, as stored."""
        if self.last is None:
            return EMPTY
        digest: object = self.last.digest
        return Head(self.size, DIGEST_PREFIX + digest.hex() if isinstance(digest, bytes) else "")

    @property
    def root(self) -> bytes | None:
        """The root of the tree over all events, or None if some events could not be read."""
        return self._frontier.root() if self._is_whole else None

    def walk(self, rows: Iterable[EventRow], on_progress: Callable[[int], None] | None) -> None:
        """Check every row in order."""
        for row in rows:
            follows = row.seq == self.size + 1
            if not follows:
                self._is_whole = False
                self._stop_judging(self.size)
                missing = f"event {self.size + 1}"
                if row.seq > self.size + 2:
                    missing = f"events {self.size + 1} to {row.seq - 1}"
                self.issues.add(self.size + 1, "chain", f"{missing}: missing from the store")
            self._look(row, follows=follows)
            self.last = row
            if on_progress is not None and row.seq % PROGRESS_STEP == 0:
                on_progress(row.seq)

    def give_up(self, message: str) -> None:
        """Record that the next event cannot be read; no later event is checked."""
        self._is_whole = False
        self._stop_judging(self.size)
        self.issues.of_event(self.size + 1, "chain", message)

    def _stop_judging(self, last: int) -> None:
        """Stop checking decisions: those after a broken event cannot be verified."""
        if self._further:
            self._further, self.judged_until = (), last

    def _look(self, row: EventRow, *, follows: bool) -> None:
        try:
            body = encode_row(row)
        except IntegrityError as error:
            self._is_whole = False
            self._stop_judging(row.seq - 1)
            self.issues.add(row.seq, "chain", str(error))
            return
        is_sound = hashlib.sha256(body).digest() == row.digest
        if not is_sound:
            self._stop_judging(row.seq - 1)
            found = DIGEST_PREFIX + hashlib.sha256(body).hexdigest()
            self.issues.of_event(row.seq, "chain", f"was changed: its content gives {found}")
        self._check_link(row, follows=follows, is_sound=is_sound)
        if row.seq == 1:
            self.origin = origin_of(event_of(row))
        self._check_time(row)
        if self._is_whole:
            self._tree.compare(row.seq, self._frontier.add(leaf_hash(body)))
            if row.seq in self._sizes:
                self.roots[row.seq] = self._frontier.root()
        self._look_into(row)

    def _check_time(self, row: EventRow) -> None:
        before, now = self._last_at, _make_sortable(row.at)
        self._last_at = now
        if before is not None and now < before and row.kind != CLOCK_SET_BACK:
            message = f"is dated {row.at}, earlier than the event before it"
            self.issues.of_event(row.seq, "time", message)

    def _check_link(self, row: EventRow, *, follows: bool, is_sound: bool) -> None:
        """Check that an event names its predecessor; if not, report which of the two was changed.

        The event after them tells the two apart, because it names the digest its predecessor had
        when it was written.
        """
        before = GENESIS_BYTES if self.last is None else self.last.digest
        suspect, self._suspect = self._suspect, None
        if suspect is not None:
            blamed = suspect.seq - 1 if row.prev == suspect.digest else suspect.seq
            self.issues.add(blamed, "chain", _describe_broken_link(blamed, suspect.seq))
            if blamed == suspect.seq:
                return
        if follows and row.prev != before and is_sound:
            if row.seq == 1:
                message = "names an event before it, so it was not the first"
                self.issues.of_event(1, "chain", message)
            else:
                self._suspect = row

    def _look_into(self, row: EventRow) -> None:
        if row.payload is None:
            self._absent[row.seq] = row
            if is_kept(row.kind):
                self._stop_judging(row.seq - 1)
            return
        try:
            payload = check_payload(row)
        except IntegrityError as error:
            self._stop_judging(row.seq - 1)
            self.issues.add(row.seq, "payload", str(error))
            return
        if payload is None or self._is_newer(row, payload):
            return
        if row.kind not in self._wanted:
            return
        event = event_of(row)
        for look in self._further:
            if row.kind in look.kinds:
                self._tell(look.step(event, payload))
        if row.kind == RESULT_SEALED:
            self._tell((row.seq, why) for why in self.results.learn(event, payload))
            return
        if row.kind not in _READ_FURTHER:
            return
        try:
            if row.kind in KEY_KINDS:
                self.ring.learn(event, payload, self.origin or "")
            else:
                self._learn_tombstone(event, payload)
        except (IntegrityError, msgspec.ValidationError) as error:
            self.issues.of_event(row.seq, "key", str(error))

    def _learn_tombstone(self, event: Event, payload: Mapping[str, object]) -> None:
        if event.kind == PAYLOAD_ERASED:
            said = convert_stored(payload, PayloadErased)
            self._tombstones[said.seq] = (event.seq, said)
        elif event.kind == BLOB_ERASED:
            self.erased_blobs[convert_stored(payload, BlobErased).digest] = event.seq
        else:
            erasure = read_erasure(event, payload)
            if erasure.said.what == "result":
                self.erased_results.setdefault(erasure.said.name, erasure)

    def _is_newer(self, row: EventRow, payload: Mapping[str, object]) -> bool:
        """Whether only a newer build can read the event; what depends on it is not checked."""
        name, kind = payload.get(FORMAT), find_kind(row.kind)
        try:
            # Unknown kinds are not checked unless they use a format name of this project.
            is_ours = kind is not None or parse_format(name) is not None
            is_beyond = is_ours and not check_payload_format(row.kind, name)
        except InvalidValueError as error:
            self.issues.of_event(row.seq, "payload", str(error))
            return False
        if is_beyond:
            self.newer_kinds.add(row.kind)
            self._note_newer(row.seq, newer_format(str(name)))
            if row.kind == RESULT_SEALED:
                self.newer_results[str(payload.get("result_id"))] = row.seq
        elif row.kind == RESULT_SEALED:
            self._check_sealed_format(row.seq, sealed_format(payload))
        elif kind is not None and kind.is_decided:
            self._note_decision(row, payload)
        elif kind is not None and DECIDED_BY in payload:
            self.issues.of_event(row.seq, "payload", f"{row.kind} is not a decision")
        return is_beyond

    def _check_sealed_format(self, seq: int, name: str) -> None:
        if is_newer(name, RESULT_FORMAT):
            self._note_newer(seq, f"seals a result that {newer_format(name)}")
        elif name != RESULT_FORMAT:
            self.issues.of_event(seq, "result", f"{name!r} is not a format of results")

    def _note_decision(self, row: EventRow, payload: Mapping[str, object]) -> None:
        """Count a decision by channel, and check that its rules exist."""
        if row.kind in (TRANSITION, APPROVAL) and row.actor != SYSTEM:
            said = payload.get(DECIDED_BY)
            channel = said.get("channel") if isinstance(said, dict) else None
            try:
                way = convert_stored(channel, Channel).way
            except msgspec.ValidationError as error:
                self.issues.of_event(row.seq, "decision", f"channel: {error}")
                return
            self.ways[way.replace("_", " ")] += 1
        try:
            check_decided_by(payload)
        except IntegrityError as error:
            self.issues.of_event(row.seq, "decision", str(error))
        except OtherRulesError as error:
            if not self._further:
                # Otherwise the lifecycle check reports it.
                self.unjudged.append(f"event {row.seq}: {error}")
        else:
            self.decision_count += row.kind == TRANSITION and self.newer_from is None

    def _note_newer(self, seq: int, what: str) -> None:
        self.unjudged.append(f"event {seq} {what}; what rests on it is not judged")
        if self.newer_from is None:
            self.newer_from = seq
        self._stop_judging(seq - 1)

    def _tell(self, found: Iterable[tuple[int, str]]) -> None:
        for seq, why in found:
            self.issues.of_event(seq, "decision", why)

    def finish(self, last_payload: int) -> None:
        """Run the checks that need the whole ledger."""
        for look in self._further:
            self._tell(look.finish())
        if self._suspect is not None:
            first = self._suspect.seq - 1
            message = f"events {first} and {first + 1}: not linked to each other"
            self.issues.add(first, "chain", message, until=first + 1)
        for seq, row in self._absent.items():
            self._check_absent(seq, row)
        for seq, (tombstone, _) in self._tombstones.items():
            if seq not in self._absent:
                message = f"was erased by event {tombstone}, yet has a payload"
                self.issues.of_event(seq, "payload", message)
        if self._is_whole:
            self._tree.finish(self.size)
        if last_payload > self.size:
            message = f"missing, but there are payloads up to {last_payload}"
            self.issues.of_event(self.size + 1, "chain", message)

    def _check_absent(self, seq: int, row: EventRow) -> None:
        if seq not in self._tombstones:
            message = f"event {seq}: its payload is missing"
            if PAYLOAD_ERASED in self.newer_kinds:
                self.unjudged.append(f"{message}; a newer build may have erased it")
            else:
                self.issues.add(seq, "payload", message)
            return
        tombstone, said = self._tombstones[seq]
        named = DIGEST_PREFIX + row.payload_digest.hex()
        if said.payload_digest != named or tombstone < seq or is_kept(row.kind):
            message = f"its payload is missing, and event {tombstone} does not cover that"
            self.issues.of_event(seq, "payload", message)
        else:
            self.erased_count += 1


def _describe_broken_link(blamed: int, after: int) -> str:
    if blamed == after:
        return f"event {blamed}: does not follow event {blamed - 1}"
    return f"event {blamed}: was changed: event {after} names another predecessor"


def _make_sortable(text: str) -> str:
    """Return a time in a form that sorts correctly as text."""
    return text if len(text) > 20 else f"{text[:-1]}.000000Z"
