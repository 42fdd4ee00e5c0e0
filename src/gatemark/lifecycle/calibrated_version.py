"""Register a draft version with its parent's content and a new calibrator."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import RefusedError
from gatemark.lifecycle.commands import AddVersion
from gatemark.lifecycle.journey import act
from gatemark.lifecycle.model.nouns import PRODUCTION, VersionRef
from gatemark.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

CALIBRATOR: Final = "calibrator"


def draft_calibrated(
    workspace: Workspace, ref: VersionRef, calibrator: bytes, *, actor: str, note: str
) -> str:
    """Add a draft with the parent's content and pins, and these bytes as its calibrator."""
    asset = read_state(workspace, ref.asset).asset
    parent_name = asset.place(PRODUCTION).enabled or next(reversed(asset.versions), None)
    if asset.kind is None or parent_name is None:
        raise RefusedError(f"{ref.asset} is not registered; add its first version before a refit")
    parent = asset.versions[parent_name]
    workspace.blobs.put(calibrator)
    pinned = digest_bytes(calibrator)
    pins = msgspec.structs.replace(parent.pins, tools={**parent.pins.tools, CALIBRATOR: pinned})
    act(
        workspace,
        AddVersion(
            actor=actor,
            asset=ref.asset,
            kind=asset.kind,
            version=ref.version,
            # The same content as the parent, with recalibrated confidences.
            digest=digest({"parent": parent.digest, CALIBRATOR: pinned}),
            risk=asset.risk,
            parent=parent_name,
            pins=pins,
            note=note,
        ),
    )
    return str(ref)
