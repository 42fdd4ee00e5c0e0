"""Events that set up an asset: its versions, and its required pack."""

from __future__ import annotations

from gatemark.core.result import AssetKind
from gatemark.ledger.event_kinds import ASSET_REGISTERED, REQUIRED_PACK_SET
from gatemark.release.lifecycle.commands import AddVersion, SetRequiredPack
from gatemark.release.lifecycle.events.fact import AssetFact, LifecycleEvent, event
from gatemark.release.lifecycle.model.nouns import (
    Actor,
    Digest,
    Note,
    PackIdentity,
    Pins,
    Risk,
    SchemaChange,
    VersionName,
)
from gatemark.release.lifecycle.model.state import Asset, AssetVersion


@event(ASSET_REGISTERED, "a version of an asset is added", roles=("author",), command=AddVersion)
class VersionAdded(AssetFact, frozen=True, kw_only=True):
    """A version is drafted. The first one also sets the kind and the risk of its asset."""

    kind: AssetKind
    version: VersionName
    digest: Digest
    author: Actor
    risk: Risk = "normal"
    parent: VersionName | None = None
    pins: Pins = Pins()
    schema: SchemaChange | None = None
    is_scope_change: bool = False
    note: Note = ""

    def takes_away(self, asset: Asset) -> bool:
        """Whether it only names a version that nothing can raise; a known one keeps its pins."""
        return self.version not in asset.versions

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        # Pins and digest come from here: what cannot be decided serves in no environment.
        undecided = event.seq if event.undecided is not None else None
        if asset.kind is None:
            asset.kind, asset.risk = self.kind, self.risk
        asset.versions[self.version] = AssetVersion(
            name=self.version,
            digest=self.digest,
            author=self.author,
            parent=self.parent,
            pins=self.pins,
            schema=self.schema,
            is_scope_change=self.is_scope_change,
            added_at=event.at,
            seq=event.seq,
            undecided=undecided,
        )

    @property
    def label(self) -> str:
        return f"{self.asset}@{self.version}"

    @property
    def sentence(self) -> str:
        origin = f", made from {self.parent}" if self.parent else ""
        return f"added by {self.author}{origin}, {self.digest}"


@event(
    REQUIRED_PACK_SET,
    "the required pack of an asset is set",
    roles=("pack_owner",),
    command=SetRequiredPack,
    act="set the required pack",
)
class RequiredPackSet(AssetFact, frozen=True, kw_only=True):
    """The required pack of an asset is set; whoever sets it is its last editor.

    ``file`` is the path of the pack file, for schedules that run it.
    """

    required_pack: PackIdentity
    note: Note = ""
    file: Note | None = None

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        asset.required_pack, asset.required_pack_editor = self.required_pack, event.actor
        asset.required_pack_file = self.file

    def is_known(self, asset: Asset) -> bool:
        is_known_file = self.file is None or self.file == asset.required_pack_file
        return asset.required_pack == self.required_pack and is_known_file

    @property
    def sentence(self) -> str:
        return f"the required pack is {self.required_pack.pack} v{self.required_pack.version}"
