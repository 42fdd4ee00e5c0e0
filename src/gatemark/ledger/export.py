"""Export a ledger to a folder of plain files that anyone can check without the database.

``events.jsonl`` has one event per line with its payload; ``results`` the sealed results and their
in-toto statements; ``decisions`` the decisions as signed envelopes; ``blobs`` the files that
results depend on; ``checkpoints`` the signed checkpoints; ``keys.txt`` the public keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import replacing_folder
from gatemark.core.canonical import DIGEST_PREFIX, is_digest
from gatemark.core.errors import IntegrityError, UsageError
from gatemark.core.result import Result, read_result
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.erase import list_erased_blobs
from gatemark.ledger.event import SCHEMA, Event, EventRow, check_row
from gatemark.ledger.event_kinds import ASSET_REGISTERED, RESULT_SEALED, is_statement
from gatemark.ledger.keys import keyring_of, sign_checkpoint, signing_key
from gatemark.ledger.port import Store
from gatemark.ledger.signing.dsse import envelope_bytes, sign_envelope
from gatemark.ledger.signing.note import Signer
from gatemark.ledger.signing.statements import decision_statement, result_statement

EVENTS: Final = "events.jsonl"
RESULTS: Final = "results"
DECISION_FOLDER: Final = "decisions"
BLOBS: Final = "blobs"
CHECKPOINTS: Final = "checkpoints"
KEYS: Final = "keys.txt"
README: Final = "README.md"
_ABOUT: Final = """\
# An exported ledger

Check it whole, without the database it came from:

    gatemark ledger verify FOLDER --key PUBLIC_KEY

What is what, for those who check with other tools:

- `events.jsonl`: one event per line (`gatemark.event/1`). The digest of an event is the SHA-256 of
  the canonical JSON (RFC 8785) of `actor, at, kind, payload_digest, prev, schema, seq, subject`;
  `prev` is the digest of the line before. The payload digest is the SHA-256 of the canonical JSON
  of `payload` and `salt`. Erased payloads are left out together with their salt.
- `results/HEX.json`: a sealed result; `results/HEX.intoto.json`: the same as an in-toto statement
  with the test-result predicate.
- `decisions/SEQ.dsse.json`: a decision as a signed envelope (DSSE) around an in-toto statement. The
  signature is Ed25519 over the envelope's pre-authentication encoding.
- `blobs/HE/HEX`: evidence and attachments under the SHA-256 of their bytes.
- `checkpoints/SIZE-N.txt`: signed notes (C2SP) of the RFC 6962 tree whose leaves are the canonical
  bytes of the events.
- `keys.txt`: public keys as the ledger tells them. Compare them with a copy from elsewhere.
"""


class ExportLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the export; the payload is inserted as stored bytes."""

    schema: str
    seq: int
    prev: str
    kind: str
    at: str
    actor: str
    subject: str | None
    payload_digest: str
    digest: str
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    salt: str | msgspec.UnsetType = msgspec.UNSET


class _Kept(msgspec.Struct, frozen=True):
    payload: msgspec.Raw
    salt: str


def export_line(row: EventRow) -> bytes:
    """Return a stored event as a line of the export."""
    kept = None if row.payload is None else msgspec.json.decode(row.payload, type=_Kept)
    line = ExportLine(
        schema=SCHEMA,
        seq=row.seq,
        prev=DIGEST_PREFIX + row.prev.hex(),
        kind=row.kind,
        at=row.at,
        actor=row.actor,
        subject=row.subject,
        payload_digest=DIGEST_PREFIX + row.payload_digest.hex(),
        digest=DIGEST_PREFIX + row.digest.hex(),
        payload=msgspec.UNSET if kept is None else kept.payload,
        salt=msgspec.UNSET if kept is None else kept.salt,
    )
    return msgspec.json.encode(line) + b"\n"


class Exported(msgspec.Struct, frozen=True):
    """Counts and folder of a finished export."""

    folder: str
    events: int
    results: int
    decisions: int
    blobs: int
    blobs_erased: int
    checkpoints: int


class ExportWriter:
    """Writes one export to one folder."""

    def __init__(self, store: Store, folder: Path, key: Signer | None) -> None:
        self._store = store
        self._folder = folder
        self._key = key
        self._digests = RegisteredDigests()
        self._result_ids: set[str] = set()
        self._decision_count = 0
        self._blobs: dict[str, bool] = {}

    def write(self, size: int, keys: tuple[str, ...], erased_blobs: frozenset[str]) -> Exported:
        """Write everything up to event number ``size``."""
        for name in (RESULTS, DECISION_FOLDER, CHECKPOINTS, BLOBS):
            (self._folder / name).mkdir()
        (self._folder / README).write_text(_ABOUT, encoding="utf-8")
        (self._folder / KEYS).write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
        self._write_events(size)
        for result_id, document in self._store.results.documents():
            if result_id in self._result_ids and document:
                self._write_result(read_result(result_id, document), erased_blobs)
            elif result_id in self._result_ids:
                # What is left of an erased result.
                self._write_result(self._store.results.get(result_id), erased_blobs)
        checkpoints = [one for one in self._store.events.checkpoints() if one[0] <= size]
        for number, (covered, note) in enumerate(checkpoints, start=1):
            path = self._folder / CHECKPOINTS / f"{covered}-{number}.txt"
            path.write_text(note, encoding="utf-8", newline="")
        return Exported(
            folder=str(self._folder),
            events=size,
            results=len(self._result_ids),
            decisions=self._decision_count,
            blobs=sum(self._blobs.values()),
            blobs_erased=len(self._blobs) - sum(self._blobs.values()),
            checkpoints=len(checkpoints),
        )

    def _write_events(self, size: int) -> None:
        with (self._folder / EVENTS).open("wb") as stream:
            for row in self._store.events.rows():
                if row.seq > size:
                    break
                event, payload = check_row(row)
                stream.write(export_line(row))
                if payload is not None:
                    self._look_into(event, payload)

    def _look_into(self, event: Event, payload: Mapping[str, object]) -> None:
        if event.kind == RESULT_SEALED:
            self._result_ids.add(str(payload["result_id"]))
        self._digests.learn(event, payload)
        if is_statement(event.kind):
            self._write_decision(event, payload)

    def _write_decision(self, event: Event, payload: Mapping[str, object]) -> None:
        if self._key is None:
            raise UsageError("decisions are exported signed; name the key with --signing-key")
        digest = self._digests.candidate(event, payload)
        envelope = sign_envelope(decision_statement(event, payload, digest), self._key)
        path = self._folder / DECISION_FOLDER / f"{event.seq}.dsse.json"
        path.write_bytes(envelope_bytes(envelope))
        self._decision_count += 1

    def _write_result(self, result: Result, erased: frozenset[str]) -> None:
        name = result.id.removeprefix(DIGEST_PREFIX)
        (self._folder / RESULTS / f"{name}.json").write_bytes(result.document)
        statement = self._folder / RESULTS / f"{name}.intoto.json"
        statement.write_bytes(result_statement(result))
        for digest in sorted(result.file_digests - self._blobs.keys()):
            self._blobs[digest] = self._copy_blob(digest, erased)

    def _copy_blob(self, digest: str, erased: frozenset[str]) -> bool:
        if not is_digest(digest):
            raise IntegrityError(f"a result names {digest!r}, which is not a digest")
        if digest in erased and not self._store.blobs.has(digest):
            return False
        name = digest.removeprefix(DIGEST_PREFIX)
        target = self._folder / BLOBS / name[:2] / name
        target.parent.mkdir(exist_ok=True)
        seen = hashlib.sha256()
        with target.open("wb") as stream:
            for piece in self._store.blobs.pieces(digest):
                seen.update(piece)
                stream.write(piece)
        if seen.hexdigest() != name:
            raise IntegrityError(f"blob {digest} does not verify: its bytes were changed")
        return True


class RegisteredDigests:
    """The digest of every registered version, collected from events in order."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str | None, str], str] = {}

    def learn(self, event: Event, payload: Mapping[str, object]) -> None:
        """Record the digest if the event registers a version."""
        if event.kind == ASSET_REGISTERED:
            self._digests[event.subject, str(payload["version"])] = str(payload["digest"])

    def candidate(self, event: Event, payload: Mapping[str, object]) -> str | None:
        """Return the digest that a decision is about: the one it names, or the registered one."""
        said = payload.get("candidate_digest")
        if isinstance(said, str):
            return said
        return self._digests.get((event.subject, str(payload.get("version"))))


def write_export(
    store: Store,
    target: Path,
    key: Signer | None,
    *,
    keys: tuple[str, ...],
    erased_blobs: frozenset[str],
) -> Exported:
    """Write a ledger to a new folder. On an error, no folder is left behind."""
    size = store.events.head().seq
    with replacing_folder(target) as folder:
        done = ExportWriter(store, folder, key).write(size, keys, erased_blobs)
    return msgspec.structs.replace(done, folder=str(target))


def export_ledger(context: LedgerContext, folder: str, with_key: str | Signer | None) -> Exported:
    """Export the ledger to a folder; with a key, sign a new checkpoint first."""
    store = context.existing_store()
    key = None
    if with_key is not None:
        key = signing_key(context, with_key)
        sign_checkpoint(context, key)
    erased = list_erased_blobs(store)
    keys = tuple(str(tenure.key) for tenure in keyring_of(store.events).tenures)
    return write_export(store, Path(folder), key, keys=keys, erased_blobs=erased)
