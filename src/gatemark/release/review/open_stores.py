"""The stores of reviews in a workspace."""

from __future__ import annotations

from collections.abc import Mapping

from gatemark.core.errors import RefusedError
from gatemark.ledger.event_kinds import ErasableKind
from gatemark.ledger.port import Erasure, erasures
from gatemark.release.review.stores.labels import SqlLabels
from gatemark.release.review.stores.reviews import SqlReviews
from gatemark.workspace import Workspace


def reviews_of(workspace: Workspace) -> SqlReviews:
    """Return the blind reviews and their votes."""
    return workspace.store_of(SqlReviews)


def label_sets_of(workspace: Workspace) -> SqlLabels:
    """Return the label sets."""
    return workspace.store_of(SqlLabels)


def erased_pairs(workspace: Workspace, name: str) -> dict[int, Erasure]:
    """The erased pairs of a review by number."""
    found = erasures(workspace.events, "pair", f"review:{name}")
    return {number: one for (review, number), one in found.items() if review == name}


def erased_items(workspace: Workspace, name: str) -> dict[int, Erasure]:
    """The erased items of a label set by number."""
    found = erasures(workspace.events, "item", f"labels:{name}")
    return {number: one for (labels, number), one in found.items() if labels == name}


def refuse_erased(workspace: Workspace, what: ErasableKind, named: Mapping[str, str]) -> None:
    """Refuse content that was erased before; ``named`` has the item of each digest."""
    for erasure in erasures(workspace.events, what).values():
        item = named.get(erasure.said.digest)
        if item is not None:
            raise RefusedError(
                f"the content of item {item} was {erasure.words}; it is not taken again: leave it "
                "out"
            )
