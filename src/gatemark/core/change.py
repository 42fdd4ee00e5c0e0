"""What is being promoted, and how it moves."""

from __future__ import annotations

from typing import Literal

import msgspec

from gatemark.core.canonical import original_fields

AssetKind = Literal[
    "model", "prompt", "tool", "agent", "ontology", "extractor", "classifier", "rule_pack"
]


@original_fields("id digest")
class AssetRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One version of one asset, pinned by the digest of its content."""

    id: str
    digest: str


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A candidate that asks to take a baseline's place."""

    asset: str
    kind: AssetKind
    lane: str | None
    candidate: AssetRef
    baseline: AssetRef | None


class Transition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of an asset through its stages."""

    asset: str
    before: str
    after: str
    cause: str
    approval: str | None
