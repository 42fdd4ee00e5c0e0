"""Verify a store or an export, with the checks that features add."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from gatemark.core.canonical import is_digest, same_digest
from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.core.stored import FORMAT, convert_stored
from gatemark.ledger.blobs import digest_of
from gatemark.ledger.checks.ledger_check import LedgerCheck, VerifyOptions
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.checks.scan import FurtherLook
from gatemark.ledger.checks.tables import FeatureRows, TableCheck
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import check_payload_format
from gatemark.ledger.export_reader import ExportStore
from gatemark.ledger.keys import read_public_key
from gatemark.ledger.port import Store
from gatemark.ledger.prove import read_small_text
from gatemark.ledger.stores.sql import SqlStore

logger = logging.getLogger(__name__)
T = TypeVar("T")
_MISSING: Final = "is missing from the store"


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to verify, and which keys and checkpoints to trust."""

    export: str | None = None
    keys: tuple[str, ...] = ()
    since: tuple[str, ...] = ()
    rescore: bool = False
    require_checkpoint: bool = False


class RescoredResult(Protocol):
    """A result that was derived again from its evidence."""

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences from the sealed result."""

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Messages on what could not be derived, and why."""


Rescorer = Callable[[Store, Callable[[str], bool]], Iterable[tuple[str, RescoredResult]]]
"""Derives every result of a store again; the second argument lists the erased blobs."""


class RecordedBlob(NamedTuple):
    """A file that an event names, and the number of that event."""

    seq: int
    what: str
    digest: str


class FurtherChecks(NamedTuple):
    """The checks that features add: decision rules, files, table rows, and rescoring."""

    rules: Callable[[Store], Sequence[FurtherLook]]
    blobs: Callable[[Store], Iterable[RecordedBlob]]
    rows: Sequence[FeatureRows]
    rescore: Rescorer
    erased_later: Callable[[int], Collection[str]] = lambda _: ()
    """The blobs that were erased after an event, while the check was running."""


def verify_store(
    store: SqlStore | ExportStore,
    request: VerifyRequest,
    further: FurtherChecks,
    on_progress: Callable[[int], None] | None = None,
) -> LedgerReport:
    """Verify an export, or a store that does not change during the check."""
    tables = None if isinstance(store, ExportStore) else TableCheck(store, further.rows)
    asked = VerifyOptions(
        trusted=tuple(read_public_key(key) for key in request.keys),
        since=tuple(read_small_text(path) for path in request.since),
        has_tree=tables is not None,
        require_checkpoint=request.require_checkpoint,
        erased_later=further.erased_later,
    )
    rules = further.rules(store)
    check = LedgerCheck(store, asked, rules if tables is None else (*rules, tables))
    check.run(on_progress)
    if tables is not None:
        tables.report(check)
    if isinstance(store, ExportStore):
        for seq, message in store.statement_issues(check.signing_keys):
            check.issues.add(seq, "decision" if seq is not None else "result", message)
    else:
        _check_other_blobs(further.blobs(store), store, check)
    if request.rescore:
        for result_id, outcome in further.rescore(store, check.is_erased):
            seq = check.seq_of_result(result_id)
            for message in outcome.differences:
                check.issues.of_event(seq, "rescore", f"result {result_id}: {message}")
            check.unjudged.extend(f"result {result_id}: {why}" for why in outcome.unjudged)
    report = check.report()
    counts = {"events": report.events, "issues": len(report.issues) + report.issues_unlisted}
    logger.info("ledger verified", extra={"verdict": report.verdict, **counts})
    return report


def read_payloads(store: Store, kind: str, type_: type[T]) -> Iterator[tuple[Event, T]]:
    """Yield the events of a kind with their payloads; skip erased ones and newer formats.

    Raise IntegrityError for an event that cannot be read.
    """
    for event, payload in store.events.events(kind=kind):
        if payload is None:
            continue
        try:
            if check_payload_format(kind, payload.get(FORMAT)):
                yield event, convert_stored(payload, type_)
        except (InvalidValueError, msgspec.ValidationError) as error:
            raise IntegrityError(f"event {event.seq}: is not a {kind}: {error}") from error


def _check_blob(store: Store, digest: str) -> str | None:
    """Return what is wrong with a stored file, or None."""
    if not is_digest(digest) or not store.blobs.has(digest):
        return _MISSING
    is_sound = same_digest(digest_of(store.blobs.pieces(digest)), digest)
    return None if is_sound else "was changed"


def _check_other_blobs(blobs: Iterable[RecordedBlob], store: Store, check: LedgerCheck) -> None:
    """Check files that only events name; an export does not have them."""
    try:
        recorded = {blob.digest: (blob.seq, blob.what) for blob in blobs}
    except IntegrityError as error:
        check.issues.add(None, "payload", str(error))
        return
    for digest, (seq, what) in recorded.items():
        problem = None if check.is_erased(digest) else _check_blob(store, digest)
        if problem is None:
            continue
        message = f"blob {digest} ({what}) {problem}"
        if problem == _MISSING:
            check.add_missing_blob(seq, message)
        else:
            check.issues.of_event(seq, "blob", message)
