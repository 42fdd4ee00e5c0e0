"""Registered versions, for runs that name one."""

from __future__ import annotations

from gatemark.core.result import AssetRef
from gatemark.packs.registered_versions import VersionFinder
from gatemark.release.lifecycle.assets import version_ref
from gatemark.release.lifecycle.model.nouns import parse_version_ref
from gatemark.workspace import Workspace


def _find(workspace: Workspace, text: str) -> AssetRef:
    return version_ref(workspace, parse_version_ref(text))


VERSION_FINDER = VersionFinder("lifecycle", _find)
