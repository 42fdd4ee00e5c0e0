"""The stores of reviews in a workspace."""

from __future__ import annotations

from gatemark.review.stores.labels import SqlLabels
from gatemark.review.stores.reviews import SqlReviews
from gatemark.workspace import Workspace


def reviews_of(workspace: Workspace) -> SqlReviews:
    """Return the blind reviews and their votes."""
    return workspace.store_of(SqlReviews)


def label_sets_of(workspace: Workspace) -> SqlLabels:
    """Return the label sets."""
    return workspace.store_of(SqlLabels)
