"""The tables of reviews and labels that ``gatemark ledger verify`` compares with events."""

from __future__ import annotations

from gatemark.ledger.checks.tables import FeatureRows, RowCheck
from gatemark.ledger.event_kinds import (
    CONTENT_ERASED,
    LABEL_GIVEN,
    LABELS_ACCEPTED,
    LABELS_CREATED,
    REVIEW_CREATED,
    REVIEW_UNBLINDED,
    VOTE_CAST,
)
from gatemark.review.stores.tables import LABEL_ACCEPTANCES, LABEL_SETS, REVIEWS
from gatemark.workspace import Workspace


def review_rows(workspace: Workspace) -> FeatureRows:
    """Return the tables of reviews and labels, and the function that compares them."""

    def opened() -> RowCheck:
        from gatemark.review.table_check import ReviewTables  # noqa: PLC0415 - loads numerics

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
