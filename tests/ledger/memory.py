"""A ledger in memory, for tests and for looking things through without a file."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gatemark.core.canonical import digest_bytes, is_digest, same_digest
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.core.result import Result, read_result, verify_seal
from gatemark.ledger.event import (
    EMPTY,
    Event,
    EventDraft,
    EventRow,
    Head,
    check_row,
    decode_digest,
    draft_result,
    event_of,
    extend,
    make_row,
    require_head,
)
from gatemark.ledger.merkle import Frontier, leaf_hash
from gatemark.ledger.port import ResultLine, line_of, wanted_prefix


class MemoryEvents:
    """The chain as a list."""

    def __init__(self, salt: Callable[[], str], lock: threading.RLock) -> None:
        self._salt = salt
        self._lock = lock
        self._rows: list[EventRow] = []
        self._nodes: list[bytes] = []
        self._frontier = Frontier()
        self._checkpoints: dict[int, list[str]] = {}

    def head(self) -> Head:
        with self._lock:
            return event_of(self._rows[-1]).head if self._rows else EMPTY

    def append(
        self, drafts: Sequence[EventDraft], expected: Head | None = None
    ) -> tuple[Event, ...]:
        with self._lock:
            head = self.head()
            require_head(expected, head)
            last_at = event_of(self._rows[-1]).at if self._rows else None
            made = extend(head, last_at, drafts, self._salt)
            for new in made:
                self._rows.append(make_row(new))
                added = self._frontier.add(leaf_hash(new.body))
                self._nodes.extend(hashed for _, hashed in added)
            return tuple(new.event for new in made)

    def append_result(self, result: Result) -> None:
        """Add the event that tells of a sealed result."""
        with self._lock:
            last_at = event_of(self._rows[-1]).at if self._rows else None
            self.append((draft_result(result, last_at),))

    def events(
        self, after: int = 0, kind: str | None = None, subject: str | None = None
    ) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
        for row in self.rows(after):
            if kind in (None, row.kind) and subject in (None, row.subject):
                yield check_row(row)

    def payload(self, digest: str) -> Mapping[str, object] | None:
        raw = decode_digest(digest)
        for row in self._rows:
            if row.payload_digest == raw:
                return check_row(row)[1]
        raise UsageError(f"the ledger holds no payload {digest}")

    def rows(self, after: int = 0) -> Iterator[EventRow]:
        yield from self._rows[after:]

    def rows_at(self, numbers: Sequence[int]) -> dict[int, EventRow]:
        return {n: self._rows[n - 1] for n in numbers if 0 < n <= len(self._rows)}

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        yield from enumerate(self._nodes, start=1)

    def nodes_at(self, numbers: Sequence[int]) -> dict[int, bytes]:
        return {n: self._nodes[n - 1] for n in numbers if 0 < n <= len(self._nodes)}

    def last_payload(self) -> int:
        return max((row.seq for row in self._rows if row.payload is not None), default=0)

    def add_checkpoint(self, size: int, note: str) -> None:
        kept = self._checkpoints.setdefault(size, [])
        if note not in kept:
            kept.append(note)

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        return [
            (size, note) for size in sorted(self._checkpoints) for note in self._checkpoints[size]
        ]

    def missing_guards(self) -> Sequence[str]:
        return ()

    def erase_payload(self, seq: int, tombstone: EventDraft) -> Event:
        with self._lock:
            (event,) = self.append((tombstone,))
            self._rows[seq - 1] = self._rows[seq - 1]._replace(payload=None)
            return event


class MemoryResults:
    """Sealed results as a list."""

    def __init__(self, events: MemoryEvents, lock: threading.RLock) -> None:
        self._events = events
        self._lock = lock
        self._documents: dict[str, bytes] = {}

    def append(self, result: Result) -> int:
        verify_seal(result)
        with self._lock:
            known = self._documents.get(result.id)
            if known is None or read_result(result.id, known).stamp != result.stamp:
                self._events.append_result(result)
                self._documents.setdefault(result.id, result.document)
            return list(self._documents).index(result.id) + 1

    def get(self, reference: str) -> Result:
        prefix = wanted_prefix(reference)
        found = [name for name in self._documents if name.startswith(prefix)]
        if not found:
            raise UsageError(f"the store holds no result {reference}")
        if len(found) > 1:
            raise UsageError(f"{reference} matches more than one result; give more digits")
        return read_result(found[0], self._documents[found[0]])

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        numbered = list(enumerate(self._documents.items(), start=1))[: before and before - 1]
        lines = [line_of(seq, read_result(name, data)) for seq, (name, data) in numbered]
        return lines[::-1][:limit]

    def documents(self) -> Iterator[tuple[str, bytes]]:
        yield from self._documents.items()


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        name = digest_bytes(data)
        self._blobs.setdefault(name, data)
        return name

    def put_file(self, source: Path, expected: str) -> str:
        data = source.read_bytes()
        if not same_digest(digest_bytes(data), expected):
            raise IntegrityError(f"{source.name}: changed after it was judged")
        return self.put(data)

    def get(self, name: str) -> bytes:
        data = b"".join(self.pieces(name))
        if not same_digest(digest_bytes(data), name):
            raise IntegrityError(f"blob {name} does not verify: its bytes were changed")
        return data

    def pieces(self, name: str) -> Iterator[bytes]:
        if not self.has(name):
            raise IntegrityError(f"blob {name} is missing from the store")
        yield self._blobs[name]

    def has(self, name: str) -> bool:
        if not is_digest(name):
            raise UsageError(f"{name!r} is not a digest")
        return name in self._blobs

    def remove(self, name: str, tombstone: int) -> None:
        self._blobs.pop(name, None)


class MemoryStore:
    """A whole ledger that is gone when the process is."""

    def __init__(self, salt: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        lock = threading.RLock()
        self.events = MemoryEvents(salt, lock)
        self.results = MemoryResults(self.events, lock)
        self.blobs = MemoryBlobs()

    def forget(self) -> None:
        """Nothing stays behind."""

    def close(self) -> None:
        """Nothing to let go of."""
