"""Events in which people approve a step: approvals, waivers and break-glass access."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from gatemark.ledger.event_kinds import APPROVAL, BREAK_GLASS
from gatemark.release.lifecycle.commands import Approve, Command, ReviewBreakGlass, Waive
from gatemark.release.lifecycle.events.fact import LifecycleEvent, VersionFact, event
from gatemark.release.lifecycle.model.nouns import (
    Cites,
    Decision,
    Digest,
    Gate,
    Note,
    Pin,
    Role,
    Stage,
)
from gatemark.release.lifecycle.model.state import Approval, Asset, BreakGlassAccess, GateWaiver

APPROVING: Final[tuple[Role, ...]] = ("approver", "security_approver")
_VERBS: Final = {"approve": "approved", "reject": "rejected", "abstain": "abstained"}


@event(
    APPROVAL,
    "a person approves or rejects a step",
    roles=APPROVING,
    command=Approve,
    deadlines=("expires_at",),
    is_statement=True,
)
class ApprovalGiven(VersionFact, frozen=True, kw_only=True):
    """A person approves or rejects one exact step.

    It is valid only for this candidate, these results, this policy and this stage.
    """

    stage: Stage
    candidate_digest: Digest
    result_ids: Cites
    policy_digest: Digest
    decision: Decision
    expires_at: datetime
    note: Note = ""

    def may_raise(self, _asset: Asset) -> bool:
        return False

    def commands(self, actor: str) -> tuple[Command, ...]:
        """Return the vote, which may not have said what the voter saw."""
        unseen: dict[str, object] = {"candidate_digest": None, "policy_digest": None}
        return tuple(msgspec.structs.replace(vote, **unseen) for vote in super().commands(actor))

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        asset.approvals.append(
            Approval(
                seq=event.seq,
                actor=event.actor,
                at=event.at,
                environment=self.environment,
                version=self.version,
                stage=self.stage,
                candidate_digest=self.candidate_digest,
                result_ids=self.result_ids,
                policy_digest=self.policy_digest,
                decision=self.decision,
                expires_at=self.expires_at,
                note=self.note,
            )
        )

    @property
    def sentence(self) -> str:
        until = f"{self.expires_at:%Y-%m-%d %H:%MZ}"
        return f"{_VERBS[self.decision]} for {self.stage}, counts until {until}"


@event(
    "waiver",
    "a person excuses a gate for a time",
    roles=("operator",),
    command=Waive,
    is_statement=True,
    tone="flag",
)
class GateWaived(VersionFact, frozen=True, kw_only=True):
    """A person waives a gate for one version for a limited time, as the policy allows."""

    candidate_digest: Digest
    gate: Gate
    note: Note
    expires_at: datetime

    def may_raise(self, _asset: Asset) -> bool:
        return False

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        asset.waivers.append(
            GateWaiver(
                seq=event.seq,
                actor=event.actor,
                environment=self.environment,
                version=self.version,
                candidate_digest=self.candidate_digest,
                gate=self.gate,
                note=self.note,
                expires_at=self.expires_at,
            )
        )

    @property
    def sentence(self) -> str:
        return f"{self.gate} is waived until {self.expires_at:%Y-%m-%d %H:%MZ}"


@event(
    "override",
    "a version moves although a gate stood against it",
    roles=("operator", "approver"),
    compared=("environment", "version", "stage", "gate", "waiver"),
    is_statement=True,
    tone="flag",
)
class GateOverridden(VersionFact, frozen=True, kw_only=True):
    """A version moved past a gate by a waiver; this stays visible.

    The state is changed by the move that follows.
    """

    stage: Stage
    gate: Gate
    waiver: int
    reason: str

    def may_raise(self, _asset: Asset) -> bool:
        return False

    @property
    def sentence(self) -> str:
        return f"{self.gate} was overridden on the way to {self.stage}: {self.reason}"


@event(
    BREAK_GLASS,
    "a person acts without the usual approvals",
    roles=("operator",),
    deadlines=("until", "review_due"),
    is_statement=True,
    tone="down",
)
class BreakGlassUsed(VersionFact, frozen=True, kw_only=True):
    """Somebody acts without the usual approvals because of an incident; this stays visible."""

    incident: Pin
    note: Note
    until: datetime
    review_due: datetime

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        """Mark the version until it is reviewed or promoted in the usual way."""
        asset.ensure_track(self.environment, self.version).break_glass = BreakGlassAccess(
            seq=event.seq,
            actor=event.actor,
            incident=self.incident,
            note=self.note,
            at=event.at,
            until=self.until,
            review_due=self.review_due,
        )

    @property
    def sentence(self) -> str:
        return f"BREAK-GLASS for {self.incident}, review it before {self.until:%Y-%m-%d %H:%MZ}"


@event(
    "break_glass_reviewed",
    "a second person reviews a break-glass act",
    roles=APPROVING,
    command=ReviewBreakGlass,
)
class BreakGlassReviewed(VersionFact, frozen=True, kw_only=True):
    """A second person reviewed a break-glass act."""

    incident: Pin
    note: Note = ""

    def apply(self, asset: Asset, event: LifecycleEvent) -> None:
        track = asset.ensure_track(self.environment, self.version)
        if track.break_glass is not None:
            track.break_glass = msgspec.structs.replace(
                track.break_glass, reviewed_by=event.actor, reviewed_at=event.at
            )

    @property
    def sentence(self) -> str:
        return f"the break-glass act of {self.incident} was reviewed"
