"""The stores of drift in a workspace."""

from __future__ import annotations

from gatemark.drift.stores.memories import SqlMemories
from gatemark.drift.stores.points import SqlPoints
from gatemark.workspace import Workspace


def points_of(workspace: Workspace) -> SqlPoints:
    """Return the points of watched metrics."""
    return workspace.store_of(SqlPoints)


def memories_of(workspace: Workspace) -> SqlMemories:
    """Return the stored series memories, episodes and acts."""
    return workspace.store_of(SqlMemories)
