"""The stores of drift in a workspace."""

from __future__ import annotations

from gatemark.release.drift.stores.episodes import SqlEpisodes
from gatemark.release.drift.stores.points import SqlPoints
from gatemark.workspace import Workspace


def points_of(workspace: Workspace) -> SqlPoints:
    """Return the points of watched metrics."""
    return workspace.store_of(SqlPoints)


def episodes_of(workspace: Workspace) -> SqlEpisodes:
    """Return the episodes, acts and levels."""
    return workspace.store_of(SqlEpisodes)
