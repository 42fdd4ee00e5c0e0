"""Verify, upgrade or erase from a whole store, with what every feature keeps in it.

The ledger does not import the features; it is given their checks. This is the one list of them,
for the command line, the page and the Python API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gatemark.core.errors import UsageError
from gatemark.drift.verify import drift_rows
from gatemark.ledger.checks.report import LedgerReport
from gatemark.ledger.checks.scan import FurtherLook
from gatemark.ledger.erase import ErasureReport, erase_document, erase_recorded, list_erased_blobs
from gatemark.ledger.export_reader import ExportStore
from gatemark.ledger.port import Store
from gatemark.ledger.verify import FurtherChecks, RescoredResult, VerifyRequest, verify_store
from gatemark.lifecycle.ledger_rules import RuleCheck
from gatemark.packs.events import BaselineCheck
from gatemark.review.verify import review_rows
from gatemark.workspace import Workspace


def verify(
    workspace: Workspace, request: VerifyRequest, on_progress: Callable[[int], None] | None = None
) -> LedgerReport:
    """Verify a store, or an export without a store, with every check."""
    if request.export is not None:
        export = ExportStore(Path(request.export))
        return verify_store(export, request, FurtherChecks(_list_rules, (), _rescore), on_progress)
    store = workspace.existing_store()
    with workspace.frozen() as frozen:
        rows = (drift_rows(frozen), review_rows(frozen))
        further = FurtherChecks(
            _list_rules, rows, _rescore, lambda seq: list_erased_blobs(store, seq)
        )
        return verify_store(frozen.store, request, further, on_progress)


def _list_rules(store: Store) -> Sequence[FurtherLook]:
    return RuleCheck(store), BaselineCheck()


def _rescore(
    store: Store, is_erased: Callable[[str], bool]
) -> Iterable[tuple[str, RescoredResult]]:
    # Judging again needs all of the numerics, which the other checks do without.
    from gatemark.packs.rescore import rescore_store  # noqa: PLC0415

    return rescore_store(store, is_erased)


def erase(workspace: Workspace, what: str, reason: str, *, dry_run: bool = False) -> ErasureReport:
    """Erase a payload, a blob, or the texts of a result, pair or item; a tombstone stays.

    ``what`` is the number of an event, the digest of a blob, ``result:ID``, ``pair:REVIEW/NUMBER``
    or ``item:LABELS/ID``. A dry run tells what would be removed.
    """
    if not reason.strip():
        raise UsageError("an erasure needs a reason")
    if what.startswith(("pair:", "item:")):
        from gatemark.review.erase import find_stored_text  # noqa: PLC0415 - loads numerics

        found = find_stored_text(workspace, what)
        report = erase_document(workspace, found, reason, dry_run=dry_run)
    else:
        report = erase_recorded(workspace, what, reason, dry_run=dry_run)
    if not dry_run:
        workspace.existing_store().forget()
        workspace.delete_copies()
    return report
