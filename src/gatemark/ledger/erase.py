"""Erase payloads, blobs and the texts of stored documents; a tombstone stays in the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from gatemark.core.canonical import canonical_bytes, is_digest
from gatemark.core.errors import RefusedError, UsageError
from gatemark.core.measurement import Measurement
from gatemark.core.policy import Bench
from gatemark.core.result import Result
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import Event, EventDraft
from gatemark.ledger.event_kinds import (
    BLOB_ERASED,
    CONTENT_ERASED,
    PAYLOAD_ERASED,
    BlobErased,
    ContentErased,
    ErasableKind,
    PayloadErased,
    as_payload,
    is_kept,
)
from gatemark.ledger.port import ERASED, GONE, Store, erasure_of, erasures
from gatemark.ledger.prove import event_at
from gatemark.ledger.stores.tables import RESULTS


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure removed, or would remove; ``event`` is None as long as nothing was.

    ``may_hold`` names what is not erased by this and may have the same content.
    """

    what: str
    removed: tuple[str, ...]
    stays: tuple[str, ...] = ()
    may_hold: tuple[str, ...] = ()
    event: int | None = None

    @property
    def text(self) -> str:
        """The report for people."""
        others = [f"  may hold it too: {one}" for one in self.may_hold]
        if self.event is not None:
            done = f"erased {self.what}; recorded in event {self.event}"
            return "\n".join([done, *others])
        lines = [f"would erase {self.what}"]
        lines += [f"  removed: {one}" for one in self.removed]
        lines += [f"  stays: {one}" for one in self.stays]
        end = "nothing was erased; run it without --dry-run to erase this"
        return "\n".join([*lines, *others, end])


class StoredDocument(NamedTuple):
    """A document in a table whose texts can be erased; ``row`` is its key."""

    table: sa.Table
    row: Mapping[str, object]
    subject: str | None
    said: ContentErased
    report: ErasureReport


def erase_recorded(
    context: LedgerContext, what: str, reason: str, *, dry_run: bool
) -> ErasureReport:
    """Erase a payload (by event number), a blob (by digest) or the texts of a result."""
    store = context.existing_store()
    if what.isdigit():
        return _erase_payload(context, store, int(what), reason, dry_run=dry_run)
    if is_digest(what):
        return _erase_blob(context, store, what, reason, dry_run=dry_run)
    kind, _, reference = what.partition(":")
    if kind != "result":
        raise UsageError(
            f"{what!r} is nothing that can be erased; give the number of an event, the digest of a "
            "blob, result:ID, pair:REVIEW/NUMBER or item:LABELS/ID"
        )
    return erase_document(context, _blank_result(store, reference), reason, dry_run=dry_run)


def erase_document(
    context: LedgerContext, found: StoredDocument, reason: str, *, dry_run: bool
) -> ErasureReport:
    """Empty a stored document, in one transaction with the event that records it."""
    store, said = context.existing_store(), found.said
    known = erasures(store.events, said.what).get((said.name, said.number))
    if known is not None:
        return msgspec.structs.replace(found.report, event=known.event.seq)
    if dry_run:
        return found.report
    payload = as_payload(msgspec.structs.replace(said, reason=reason))
    draft = EventDraft(CONTENT_ERASED, context.clock(), context.actor, found.subject, payload)
    event = store.events.erase_document(found.table, found.row, draft)
    return msgspec.structs.replace(found.report, event=event.seq)


def make_tombstone(
    what: ErasableKind, name: str, number: int, digest: str, remains: Mapping[str, object]
) -> ContentErased:
    """The payload of an erasure, without its reason."""
    return ContentErased(what, name, number, digest, "", dict(remains))


def _blank_result(store: Store, reference: str) -> StoredDocument:
    result = store.results.get(reference)
    reasons = sum(1 for one in result.measurements if one.reason is not None or one.caveats)
    report = ErasureReport(
        what=f"the texts of result {result.id} ({result.title})",
        removed=(
            f"{len(result.figures)} tables and figures, {len(result.caveats)} caveats, "
            f"{len(result.blockers)} blockers",
            f"reasons of {len(result.findings)} findings and {reasons} measurements",
            "its seal: no new decision can cite it",
        )
        if erasure_of(result) is None
        else ("nothing: they were erased before",),
        stays=("title, verdict, numbers, policy, names and digests of its evidence",),
        may_hold=tuple(
            f"blob {one}" for one in sorted(result.file_digests) if store.blobs.has(one)
        ),
    )
    said = make_tombstone("result", result.id, 0, result.id, remains_of(result))
    return StoredDocument(RESULTS, {"id": result.id}, None, said, report)


def remains_of(result: Result) -> dict[str, object]:
    """A result without what can hold texts of others: figures, caveats, blockers, reasons."""
    kept = msgspec.structs.replace(
        result,
        figures=(),
        caveats=(),
        blockers=tuple(GONE for _ in result.blockers),
        findings=tuple(msgspec.structs.replace(one, reason=ERASED) for one in result.findings),
        measurements=tuple(_erase_number(one) for one in result.measurements),
        bench=_erase_bench(result.bench),
        regression=_erase_bench(result.regression),
    )
    stored: dict[str, object] = msgspec.json.decode(result.document)
    changed: dict[str, object] = msgspec.json.decode(canonical_bytes(kept))
    # The policy stays as it is stored: a digest names it. Members that are not known go.
    return {name: stored[name] if name == "policy" else changed[name] for name in changed}


def _erase_number(number: Measurement) -> Measurement:
    reason = None if number.reason is None else ERASED
    return msgspec.structs.replace(number, reason=reason, caveats=())


def _erase_bench(bench: Bench | None) -> Bench | None:
    if bench is None or bench.reason is None:
        return bench
    return msgspec.structs.replace(bench, reason=ERASED)


def _erase_payload(
    context: LedgerContext, store: Store, seq: int, reason: str, *, dry_run: bool
) -> ErasureReport:
    event, payload = event_at(store.events, seq)
    report = ErasureReport(
        what=str(seq),
        removed=(f"the payload of event {seq} ({event.kind})",),
        stays=("kind, time, actor, subject and the digest of the payload",),
    )
    if payload is None:
        known = _find_tombstone(store, PAYLOAD_ERASED, "seq", seq)[0]
        return msgspec.structs.replace(report, event=known.seq)
    if is_kept(event.kind):
        raise RefusedError(
            f"event {seq} is a {event.kind}: decisions rest on it, so it cannot be erased"
        )
    if dry_run:
        return report
    said = PayloadErased(seq, event.payload_digest, reason)
    draft = EventDraft(
        PAYLOAD_ERASED, context.clock(), context.actor, event.subject, as_payload(said)
    )
    done = store.events.erase_payload(seq, draft)
    return msgspec.structs.replace(report, event=done.seq)


def _erase_blob(
    context: LedgerContext, store: Store, digest: str, reason: str, *, dry_run: bool
) -> ErasureReport:
    events: Sequence[Event] = _find_tombstone(store, BLOB_ERASED, "digest", digest)
    is_there = store.blobs.has(digest)
    if not events and not is_there:
        raise UsageError(
            f"the store holds no blob {digest}; the texts of a result are erased by result:{digest}"
        )
    size = sum(map(len, store.blobs.pieces(digest))) if is_there else 0
    report = ErasureReport(
        what=digest,
        removed=(f"{size} bytes; results that rest on them cannot be derived again",),
        stays=("its digest, in the results and events that name it",),
    )
    if dry_run:
        return report
    if not events:
        payload = as_payload(BlobErased(digest, reason))
        draft = EventDraft(BLOB_ERASED, context.clock(), context.actor, None, payload)
        events = store.events.append((draft,))
    # Also after an erasure that was cut short between tombstone and removal.
    store.blobs.remove(digest, events[0].seq)
    return msgspec.structs.replace(report, event=events[0].seq)


def _find_tombstone(store: Store, kind: str, field: str, value: object) -> list[Event]:
    """Return the event of an earlier erasure, if there is one."""
    return [
        event
        for event, payload in store.events.events(kind=kind)
        if payload is not None and payload[field] == value
    ]


def list_erased_blobs(store: Store, after: int = 0) -> frozenset[str]:
    """Return the digests of blobs that were erased after an event."""
    return frozenset(
        str(payload["digest"])
        for _, payload in store.events.events(after=after, kind=BLOB_ERASED)
        if payload is not None
    )
