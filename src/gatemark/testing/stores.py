"""The check that every store passes: complete, ordered and unchanged events, results and blobs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rfc8785

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import (
    ConflictError,
    GatemarkError,
    IntegrityError,
    RefusedError,
    UsageError,
)
from gatemark.core.result import Result
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EMPTY, GENESIS, Event, EventDraft, moment_text
from gatemark.ledger.port import Store
from gatemark.ledger.proof import prove_consistency, prove_inclusion, root_at

_START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
_WRITERS = 4
_ROUNDS = 5


def check_store(open_store: Callable[[], Store], results: tuple[Result, Result]) -> None:
    """Raise AssertionError unless the store follows the contract of stores.

    ``open_store`` opens the same store each time it is called; it is empty at first. A store in
    memory returns the same object. ``results`` are two different sealed results.
    """
    store = open_store()
    _check_empty(store)
    _check_chain(store)
    _check_all_or_none(store)
    _check_compare_and_append(store)
    _check_looking_up(store)
    _check_tree(store)
    _check_erasure(store)
    _check_results(store, *results)
    _check_blobs(store)
    _check_writers(open_store)
    again = open_store()
    _assert_same(again.events.head(), store.events.head(), "head after opening again")
    report = verify_ledger(again)
    _assert_same((report.verdict, report.issues), ("pass", ()), "the check of the whole ledger")
    again.close()
    store.close()


def draft(number: int, kind: str = "noted", subject: str | None = None, **more: Any) -> EventDraft:
    """Return a test event, one second later than the event numbered one lower."""
    at = _START + timedelta(seconds=number)
    return EventDraft(kind, at, "tester", subject, {"number": number, **more})


def _assert_same(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what} must be {expected!r}, got {found!r}")


def _assert_refused(act: Callable[[], object], error: type[GatemarkError], what: str) -> None:
    try:
        act()
    except error:
        return
    raise AssertionError(f"{what} must be refused")


def _check_empty(store: Store) -> None:
    _assert_same(store.events.head(), EMPTY, "the head of an empty ledger")
    _assert_same(list(store.events.events()), [], "the events of an empty ledger")
    _assert_same(store.events.append(()), (), "adding nothing")


def _check_chain(store: Store) -> None:
    made = [
        *store.events.append((draft(1, subject="a"),)),
        *store.events.append((draft(2, subject="b", word="é\u2028😀"), draft(3, "other"))),
    ]
    _assert_same([event.seq for event in made], [1, 2, 3], "the numbers of events")
    previous = GENESIS
    for event in made:
        _assert_same(event.prev, previous, f"prev of event {event.seq}")
        _assert_same(event.digest, digest_bytes(_build_body(event)), f"digest of event {event.seq}")
        previous = event.digest
    _assert_same(store.events.head(), made[-1].head, "the head")
    found = list(store.events.events())
    _assert_same([event for event, _ in found], made, "the events")
    payloads = [payload and payload["number"] for _, payload in found]
    _assert_same(payloads, [1, 2, 3], "the payloads")


def _build_body(event: Event) -> bytes:
    """Build the digested bytes from the documentation, independently of the implementation."""
    body: dict[str, Any] = {
        "actor": event.actor,
        "at": moment_text(event.at),
        "kind": event.kind,
        "payload_digest": event.payload_digest,
        "prev": event.prev,
        "schema": "gatemark.event/1",
        "seq": event.seq,
        "subject": event.subject,
    }
    return rfc8785.dumps(body)


def _check_all_or_none(store: Store) -> None:
    head = store.events.head()
    early = draft(-3600)
    _assert_refused(
        lambda: store.events.append((draft(4), early)), RefusedError, "a clock set back"
    )
    _assert_refused(lambda: store.events.append((draft(4, x=float("nan")),)), GatemarkError, "NaN")
    _assert_same(store.events.head(), head, "the head after refused batches")
    (event,) = store.events.append((draft(1),))
    _assert_same(event.at, draft(3).at, "the time of an event whose clock is a little behind")


def _check_compare_and_append(store: Store) -> None:
    head = store.events.head()
    (first,) = store.events.append((draft(5),), expected=head)
    _assert_refused(
        lambda: store.events.append((draft(6),), expected=head), ConflictError, "an old head"
    )
    _assert_same(store.events.head(), first.head, "the head after a conflict")
    store.events.append((draft(6),), expected=first.head)


def _check_looking_up(store: Store) -> None:
    def numbers(found: Iterable[tuple[Event, object]]) -> list[int]:
        return [event.seq for event, _ in found]

    _assert_same(numbers(store.events.events(after=4)), [5, 6], "events after 4")
    _assert_same(numbers(store.events.events(kind="other")), [3], "events of a kind")
    _assert_same(numbers(store.events.events(subject="b")), [2], "events about a subject")
    _assert_same(numbers(store.events.events(kind="noted", subject="a")), [1], "kind and subject")
    _assert_same(
        numbers(store.events.events(after=1, subject="a")), [], "a subject after its last event"
    )
    ((event, payload),) = store.events.events(subject="b")
    _assert_same(store.events.payload(event.payload_digest), payload, "a payload by its digest")
    _assert_refused(
        lambda: store.events.payload(digest("x")), UsageError, "an unknown payload digest"
    )


def _check_tree(store: Store) -> None:
    store.events.append([draft(n) for n in range(7, 20)])
    size = store.events.head().seq
    found = [event for event, _ in store.events.events()]
    leaves = [hashlib.sha256(b"\x00" + _build_body(event)).digest() for event in found]
    _assert_same(root_at(store.events, size), _compute_root(leaves), "the root")
    for earlier in (1, 3, 8, size):
        _assert_same(
            root_at(store.events, earlier),
            _compute_root(leaves[:earlier]),
            f"the root at {earlier}",
        )
        prove_consistency(store.events, earlier, size)
        prove_inclusion(store.events, earlier, size)


def _compute_root(leaves: list[bytes]) -> bytes:
    """Compute the root directly from its definition in RFC 6962."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(
        b"\x01" + _compute_root(leaves[:split]) + _compute_root(leaves[split:])
    ).digest()


def _check_erasure(store: Store) -> None:
    ((event, _),) = store.events.events(kind="other")
    said = {"seq": event.seq, "payload_digest": event.payload_digest, "reason": "asked for"}
    tombstone = EventDraft("payload_erased", _START + timedelta(seconds=30), "tester", None, said)
    is_erased = store.events.erase_payload(event.seq, tombstone)
    _assert_same(store.events.head(), is_erased.head, "the head after an erasure")
    _assert_same(list(store.events.events(kind="other")), [(event, None)], "an erased event")
    _assert_same(store.events.payload(event.payload_digest), None, "an erased payload")


def _check_results(store: Store, one: Result, other: Result) -> None:
    _assert_same(
        [store.results.append(result) for result in (one, other, one)],
        [1, 2, 1],
        "the numbers of results",
    )
    _assert_same(store.results.get(one.id), one, "a result by its id")
    _assert_same(store.results.get(other.id[7:19]), other, "a result by the beginning of its id")
    _assert_same(
        [line.id for line in store.results.lines(5)], [other.id, one.id], "the newest first"
    )
    _assert_same([name for name, _ in store.results.documents()], [one.id, other.id], "documents")
    recorded = [payload and payload["result_id"] for _, payload in _list_sealed(store)]
    _assert_same(recorded, [one.id, other.id], "events about results")
    _assert_refused(lambda: store.results.get("0" * 64), UsageError, "an unknown result")


def _list_sealed(store: Store) -> list[tuple[Event, Any]]:
    return list(store.events.events(kind="result_sealed"))


def _check_blobs(store: Store) -> None:
    blobs = store.blobs
    large = bytes(range(256)) * 8192 + b"end"
    for data in (b"", b"hello", large):
        name = blobs.put(data)
        _assert_same(name, digest_bytes(data), "the name of a blob")
        _assert_same(blobs.put(data), name, "the same blob again")
        _assert_same(blobs.get(name), data, "a blob")
    with TemporaryDirectory(prefix="gatemark-") as folder:
        file = Path(folder) / "evidence"
        file.write_bytes(large + b"!")
        name = blobs.put_file(file, digest_bytes(large + b"!"))
        _assert_same(blobs.get(name), large + b"!", "a blob from a file")
        wrong = digest_bytes(b"before")
        _assert_refused(lambda: blobs.put_file(file, wrong), IntegrityError, "a file that changed")
        _assert_refused(lambda: blobs.get(wrong), IntegrityError, "a blob that was refused before")
    blobs.remove(name, store.events.head().seq)
    _assert_refused(lambda: blobs.get(name), IntegrityError, "a removed blob")
    _assert_refused(lambda: blobs.get("../../etc/passwd"), UsageError, "a name that is no digest")


def _check_writers(open_store: Callable[[], Store]) -> None:
    """Check several concurrent writers: no lost or repeated event, clean retries of conflicts."""
    before = open_store()
    start = before.events.head().seq

    def write(writer: int) -> None:
        store = open_store()
        for number in range(_ROUNDS):
            _append_with_retries(store, draft(40, "written", writer=writer, round=number))
        store.close()

    with ThreadPoolExecutor(_WRITERS) as threads:
        list(threads.map(write, range(_WRITERS)))
    _assert_same(
        before.events.head().seq, start + _WRITERS * _ROUNDS, "the head after many writers"
    )
    found = [payload for _, payload in before.events.events(kind="written") if payload]
    pairs = {(payload["writer"], payload["round"]) for payload in found}
    _assert_same(len(pairs), _WRITERS * _ROUNDS, "events of many writers")
    before.close()


def _append_with_retries(store: Store, one: EventDraft) -> None:
    while True:
        head = store.events.head()
        try:
            store.events.append((one,), expected=head)
        except ConflictError:
            continue
        return
