"""What reviews and labels add to a store's verification, and their texts that can be erased."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gatemark.integrity import StoreChecks
from gatemark.ledger.checks.tables import FeatureRows, RowCheck
from gatemark.ledger.erase import StoredDocument
from gatemark.ledger.event_kinds import CONTENT_ERASED
from gatemark.ledger.port import Store
from gatemark.ledger.verify import RecordedBlob, read_payloads
from gatemark.release.review.events import (
    LABEL_GIVEN,
    LABELS_ACCEPTED,
    LABELS_CREATED,
    REVIEW_CREATED,
    REVIEW_UNBLINDED,
    VOTE_CAST,
)
from gatemark.release.review.stores.tables import LABEL_ACCEPTANCES, LABEL_SETS, REVIEWS
from gatemark.workspace import Workspace


def _review_rows(workspace: Workspace) -> FeatureRows:
    """Return the tables of reviews and labels, and the function that compares them."""

    def opened() -> RowCheck:
        from gatemark.release.review.table_check import ReviewTables  # noqa: PLC0415 - loads numerics

        return ReviewTables(workspace)

    return FeatureRows(
        kinds=frozenset(
            {
                REVIEW_CREATED,
                VOTE_CAST,
                REVIEW_UNBLINDED,
                LABELS_CREATED,
                LABEL_GIVEN,
                LABELS_ACCEPTED,
                CONTENT_ERASED,
            }
        ),
        looked_up=frozenset(),
        tables=(REVIEWS, LABEL_SETS, LABEL_ACCEPTANCES),
        open=opened,
    )


class _Accepted(msgspec.Struct):
    """The fields read from ``labels_accepted``."""

    labels: str
    dataset_digest: str


def _list_blobs(store: Store) -> Iterator[RecordedBlob]:
    for event, accepted in read_payloads(store, LABELS_ACCEPTED, _Accepted):
        what = f"accepted labels {accepted.labels}"
        yield RecordedBlob(event.seq, what, accepted.dataset_digest)


def _find_text(workspace: Workspace, what: str) -> StoredDocument:
    from gatemark.release.review.erase import find_stored_text  # noqa: PLC0415 - loads numerics

    return find_stored_text(workspace, what)


STORE_CHECKS = StoreChecks(
    name="review",
    rows=_review_rows,
    blobs=_list_blobs,
    erasable=("pair", "item"),
    find_text=_find_text,
)
