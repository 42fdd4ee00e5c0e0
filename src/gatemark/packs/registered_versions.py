"""Versions of assets that the user of a run vouches for, looked up where they are registered.

The feature that registers versions offers a ``VersionFinder`` named ``VERSION_FINDER`` in its
module ``version_finder``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.registry import Registry, feature_modules
from gatemark.core.result import AssetRef
from gatemark.workspace import Workspace


class VersionFinder(msgspec.Struct, frozen=True):
    """Finds a registered version by ``ASSET@VERSION``."""

    name: str
    find: Callable[[Workspace, str], AssetRef]


def find_registered_version(workspace: Workspace, text: str) -> AssetRef:
    """Return the registered version that a text names; raise UsageError if there is none."""
    finders = Registry(
        kind="version finder",
        places=feature_modules("version_finder"),
        attribute="VERSION_FINDER",
        plugin_type=VersionFinder,
        name_of=lambda finder: finder.name,
    )
    for finder in finders:
        return finder.find(workspace, text)
    raise UsageError(f"{text}: nothing in this installation registers versions")
