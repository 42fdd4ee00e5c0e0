"""Verify, upgrade or erase from a whole store, with what every feature keeps in it.

A feature declares its part in ``gatemark.FEATURE.store_checks``: the ledger knows no feature, and
the command line, the page and the Python API check the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import msgspec

from gatemark.core.errors import GatemarkError, UsageError
from gatemark.core.registry import Registry, feature_modules
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.checks.scan import FurtherLook
from gatemark.ledger.checks.tables import FeatureRows
from gatemark.ledger.erase import (
    ErasureReport,
    StoredDocument,
    erase_document,
    erase_recorded,
    list_erased_blobs,
)
from gatemark.ledger.export_reader import ExportStore
from gatemark.ledger.port import Store
from gatemark.ledger.verify import (
    FurtherChecks,
    RecordedBlob,
    RescoredResult,
    Rescorer,
    VerifyRequest,
    verify_store,
)
from gatemark.workspace import Workspace


class StoreChecks(msgspec.Struct, frozen=True, kw_only=True):
    """What a feature keeps in a store, and how it is verified and erased.

    ``rules`` judges the feature's events, ``rows`` compares its tables with them, and ``blobs``
    lists the files that they name. ``rescore`` derives results again. ``find_text`` finds a text to
    erase by its kind, one of ``erasable``, and its name.
    """

    name: str
    rules: Callable[[Store], FurtherLook] | None = None
    rows: Callable[[Workspace], FeatureRows] | None = None
    blobs: Callable[[Store], Iterable[RecordedBlob]] | None = None
    rescore: Rescorer | None = None
    erasable: tuple[str, ...] = ()
    find_text: Callable[[Workspace, str], StoredDocument] | None = None


@cache
def store_checks() -> tuple[StoreChecks, ...]:
    """Return the part of every installed feature.

    Raise GatemarkError if one cannot be loaded: verifying without it would believe its events.
    """
    found = Registry(
        kind="store check",
        places=feature_modules("store_checks"),
        attribute="STORE_CHECKS",
        plugin_type=StoreChecks,
        name_of=lambda checks: checks.name,
    )
    checks = tuple(found)
    for module, why in found.broken.items():
        raise GatemarkError(f"{module} could not be loaded, so no store can be verified: {why}")
    return checks


def verify(
    workspace: Workspace, request: VerifyRequest, on_progress: Callable[[int], None] | None = None
) -> LedgerReport:
    """Verify a store, or an export without a store, with every check."""
    if request.export is not None:
        export = ExportStore(Path(request.export))
        further = FurtherChecks(_list_rules, _list_blobs, (), _rescore)
        return verify_store(export, request, further, on_progress)
    store = workspace.existing_store()
    with workspace.frozen() as frozen:
        rows = tuple(one.rows(frozen) for one in store_checks() if one.rows is not None)
        further = FurtherChecks(
            _list_rules, _list_blobs, rows, _rescore, lambda seq: list_erased_blobs(store, seq)
        )
        return verify_store(frozen.store, request, further, on_progress)


def _list_rules(store: Store) -> tuple[FurtherLook, ...]:
    return tuple(one.rules(store) for one in store_checks() if one.rules is not None)


def _list_blobs(store: Store) -> Iterable[RecordedBlob]:
    for one in store_checks():
        if one.blobs is not None:
            yield from one.blobs(store)


def _rescore(
    store: Store, is_erased: Callable[[str], bool]
) -> Iterable[tuple[str, RescoredResult]]:
    for one in store_checks():
        if one.rescore is not None:
            yield from one.rescore(store, is_erased)


def erase(workspace: Workspace, what: str, reason: str, *, dry_run: bool = False) -> ErasureReport:
    """Erase a payload, a blob, or the texts of a result, pair or item; a tombstone stays.

    ``what`` is the number of an event, the digest of a blob, ``result:ID``, ``pair:REVIEW/NUMBER``
    or ``item:LABELS/ID``. A dry run tells what would be removed.
    """
    if not reason.strip():
        raise UsageError("an erasure needs a reason")
    find_text = _find_texts().get(what.partition(":")[0])
    if find_text is not None:
        found = find_text(workspace, what)
        report = erase_document(workspace, found, reason, dry_run=dry_run)
    else:
        report = erase_recorded(workspace, what, reason, dry_run=dry_run)
    if not dry_run:
        workspace.existing_store().forget()
        workspace.delete_copies()
    return report


def _find_texts() -> dict[str, Callable[[Workspace, str], StoredDocument]]:
    """Return how to find a text that a feature keeps, by the kind of text."""
    return {
        kind: one.find_text
        for one in store_checks()
        if one.find_text is not None
        for kind in one.erasable
    }
