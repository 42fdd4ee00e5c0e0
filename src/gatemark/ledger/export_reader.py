"""Read an exported ledger as a read-only store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes, digest_bytes
from gatemark.core.errors import (
    BadInputError,
    IntegrityError,
    NewerFormatError,
    RefusedError,
    UsageError,
)
from gatemark.core.result import Result, read_result
from gatemark.core.stored import is_newer, newer_format
from gatemark.ledger.blobs import read_document
from gatemark.ledger.event import (
    EMPTY,
    SCHEMA,
    Event,
    EventDraft,
    EventRow,
    Head,
    check_row,
    decode_digest,
    encode_row,
)
from gatemark.ledger.event_kinds import is_statement
from gatemark.ledger.export import (
    BLOBS,
    CHECKPOINTS,
    DECISION_FOLDER,
    EVENTS,
    RESULTS,
    ExportLine,
    RegisteredDigests,
    export_line,
)
from gatemark.ledger.port import Erasure, ResultLine, erasures, line_of, wanted_prefix
from gatemark.ledger.signing.dsse import open_envelope, read_envelope
from gatemark.ledger.signing.note import VerifierKey
from gatemark.ledger.signing.statements import decision_statement, result_statement
from gatemark.ledger.stores.folder import FolderBlobs

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
_CHECKPOINT: Final = re.compile(r"([0-9]{1,16})-[0-9]{1,9}\.txt\Z")
_RESULT: Final = re.compile(r"([0-9a-f]{64})\.json\Z")
_ENVELOPE: Final = re.compile(r"([0-9]{1,16})\.dsse\.json\Z")
_decode: Final = msgspec.json.Decoder(ExportLine).decode


class ExportedEvents:
    """The events of an export, in file order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self, after: int = 0) -> Iterator[EventRow]:
        with (self._folder / EVENTS).open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                row = _decode_row(line, f"{EVENTS}:{number}")
                if row.seq > after:
                    yield row

    def head(self) -> Head:
        head = EMPTY
        for row in self.rows():
            head = Head(row.seq, DIGEST_PREFIX + row.digest.hex())
        return head

    def events(
        self, after: int = 0, kind: str | None = None, subject: str | None = None
    ) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
        for row in self.rows(after):
            if kind in (None, row.kind) and subject in (None, row.subject):
                yield check_row(row)

    def payload(self, digest: str) -> Mapping[str, object] | None:
        raw = decode_digest(digest)
        for row in self.rows():
            if row.payload_digest == raw:
                return check_row(row)[1]
        raise UsageError(f"the export holds no payload {digest}")

    def rows_at(self, numbers: Sequence[int]) -> dict[int, EventRow]:
        wanted = set(numbers)
        return {row.seq: row for row in self.rows() if row.seq in wanted}

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        yield from ()

    def nodes_at(self, numbers: Sequence[int]) -> dict[int, bytes]:
        raise RefusedError(f"an export has no tree nodes (asked for {len(numbers)})")

    def last_payload(self) -> int:
        return 0

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        found = []
        for path in sorted((self._folder / CHECKPOINTS).iterdir()):
            match = _CHECKPOINT.match(path.name)
            if match is None:
                raise IntegrityError(f"{CHECKPOINTS}/{path.name}: unexpected file in an export")
            found.append((int(match[1]), read_document(path).decode(errors="replace")))
        return sorted(found)

    def append(
        self, drafts: Sequence[EventDraft], expected: Head | None = None
    ) -> tuple[Event, ...]:
        raise _make_read_only_error(len(drafts), expected)

    def add_checkpoint(self, size: int, note: str) -> None:
        raise _make_read_only_error(size, note)

    def missing_guards(self) -> Sequence[str]:
        return ()

    def erase_payload(self, seq: int, tombstone: EventDraft) -> Event:
        raise _make_read_only_error(seq, tombstone)


class ExportedResults:
    """The results of an export."""

    def __init__(self, folder: Path, events: ExportedEvents) -> None:
        self._folder = folder / RESULTS
        self._events = events

    @cached_property
    def _erased(self) -> dict[tuple[str, int], Erasure]:
        return erasures(self._events, "result")

    def read(self, identity: str, document: bytes) -> Result:
        """A result whose seal holds, or what is left of one that an event erased."""
        erasure = self._erased.get((identity, 0))
        if erasure is not None and canonical_bytes(erasure.said.remains) == document:
            return erasure.result()
        return read_result(identity, document)

    def documents(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self._folder.iterdir()):
            if match := _RESULT.match(path.name):
                yield DIGEST_PREFIX + match[1], read_document(path)

    def get(self, reference: str) -> Result:
        prefix = wanted_prefix(reference)
        found = [one for one in self.documents() if one[0].startswith(prefix)]
        if len(found) != 1:
            raise UsageError(f"the export holds {len(found)} results {reference}")
        return self.read(*found[0])

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        numbered = list(enumerate(self.documents(), start=1))[: before and before - 1]
        return [line_of(seq, self.read(*one)) for seq, one in numbered][:limit]

    def append(self, result: Result) -> int:
        raise _make_read_only_error(result.id)


class ExportStore:
    """A complete exported ledger."""

    def __init__(self, folder: Path) -> None:
        if not (folder / EVENTS).is_file():
            raise UsageError(f"{folder}: not an exported ledger (it has no {EVENTS})")
        for name in (RESULTS, DECISION_FOLDER, CHECKPOINTS):
            if not (folder / name).is_dir():
                raise IntegrityError(f"{folder}: the export has no folder {name}")
        self.folder = folder
        self.events = ExportedEvents(folder)
        self.results = ExportedResults(folder, self.events)
        self.blobs = FolderBlobs(folder / BLOBS)

    def forget(self) -> None:
        """Do nothing: an export deletes no data."""

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def statement_issues(
        self, keys: Callable[[], Sequence[VerifierKey]]
    ) -> Iterator[tuple[int | None, str]]:
        """Yield the problems of the statements: event number and message.

        Statements are derived from results and events, so one that differs is false. Problems of
        the events and results themselves are reported by other checks.
        """
        yield from self._check_decisions(keys())
        for result_id, document in self.results.documents():
            name = f"{result_id.removeprefix(DIGEST_PREFIX)}.intoto.json"
            path = self.folder / RESULTS / name
            try:
                expected = result_statement(self.results.read(result_id, document))
            except (IntegrityError, NewerFormatError):
                continue
            if not path.is_file() or read_document(path) != expected:
                yield None, f"{RESULTS}/{name}: does not match its result"

    def _check_decisions(self, keys: Sequence[VerifierKey]) -> Iterator[tuple[int | None, str]]:
        digests = RegisteredDigests()
        seen = set()
        for event, payload in self._read_sound_events():
            digests.learn(event, payload)
            if not is_statement(event.kind):
                continue
            seen.add(event.seq)
            digest = digests.candidate(event, payload)
            why = self._check_envelope(event.seq, decision_statement(event, payload, digest), keys)
            if why is not None:
                yield event.seq, f"event {event.seq}: {why}"
        for path in sorted((self.folder / DECISION_FOLDER).iterdir()):
            match = _ENVELOPE.match(path.name)
            if match is None or int(match[1]) not in seen:
                yield None, f"{DECISION_FOLDER}/{path.name}: no event records this decision"

    def _read_sound_events(self) -> Iterator[tuple[Event, Mapping[str, object]]]:
        rows = self.events.rows()
        while True:
            try:
                event, payload = check_row(next(rows))
            except StopIteration:
                return
            except IntegrityError:
                continue
            if payload is not None:
                yield event, payload

    def _check_envelope(self, seq: int, expected: bytes, keys: Sequence[VerifierKey]) -> str | None:
        name = f"{DECISION_FOLDER}/{seq}.dsse.json"
        path = self.folder / name
        if not path.is_file():
            return f"{name} is missing"
        try:
            said = open_envelope(read_envelope(read_document(path), name), keys, name)
        except (BadInputError, IntegrityError) as error:
            return str(error)
        return None if said == expected else f"{name} does not match the event"


def _decode_row(line: bytes, place: str) -> EventRow:
    if len(line) > MAX_LINE_BYTES:
        raise BadInputError(f"{place}: is longer than {MAX_LINE_BYTES} bytes")
    try:
        said = _decode(line)
        payload = None
        if (said.payload is msgspec.UNSET) != (said.salt is msgspec.UNSET):
            raise IntegrityError(f"{place}: has a payload or a salt, but not both")
        if said.payload is not msgspec.UNSET and said.salt is not msgspec.UNSET:
            payload = b'{"payload":' + bytes(said.payload) + b',"salt":"%s"}' % said.salt.encode()
        row = EventRow(
            seq=said.seq,
            prev=decode_digest(said.prev),
            kind=said.kind,
            at=said.at,
            actor=said.actor,
            subject=said.subject,
            payload_digest=decode_digest(said.payload_digest),
            digest=decode_digest(said.digest),
            payload=payload,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise IntegrityError(f"{place}: is not an event of a ledger: {error}") from error
    if export_line(row) != line:
        if is_newer(said.schema, SCHEMA) and digest_bytes(encode_row(row)) != said.digest:
            raise NewerFormatError(f"{place}: {newer_format(said.schema)}")
        raise IntegrityError(f"{place}: is not in the form that exports are written in")
    return row


def _make_read_only_error(*_what: object) -> RefusedError:
    return RefusedError("an export is read-only")
