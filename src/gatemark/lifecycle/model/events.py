"""What each ledger event of the lifecycle says; who acted and when is on the event itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gatemark.core.errors import InvalidValueError
from gatemark.core.result import AssetKind
from gatemark.ledger import event_kinds
from gatemark.ledger.payloads import DecidedBy
from gatemark.lifecycle.model.nouns import (
    PRODUCTION,
    Actor,
    ArmMetric,
    AssetName,
    Cause,
    Cites,
    Decision,
    Digest,
    ExamRef,
    Gate,
    GateFinding,
    InvariantCount,
    MetricVerdict,
    Note,
    Noun,
    PauseReason,
    Pin,
    Pins,
    Risk,
    Role,
    SchemaChange,
    Stage,
    Traffic,
    VersionName,
    WindowState,
)


class RolesGranted(Noun, frozen=True, kw_only=True):
    """From now on a person holds exactly these roles; none takes all away."""

    actor: Actor
    roles: tuple[Role, ...]
    note: Note = ""

    def __post_init__(self) -> None:
        if len(set(self.roles)) != len(self.roles):
            raise InvalidValueError(f"roles of {self.actor} come twice: {', '.join(self.roles)}")


class PolicyAdopted(Noun, frozen=True, kw_only=True):
    """A release policy takes effect, whole and word for word."""

    policy: dict[str, Any]
    policy_digest: Digest
    note: Note = ""


class VersionAdded(Noun, frozen=True, kw_only=True):
    """A version is drafted. The first one also settles the kind and the risk of its asset."""

    asset: AssetName
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


class ExamSet(Noun, frozen=True, kw_only=True):
    """The full pack of an asset changes; whoever sets it is its last editor."""

    asset: AssetName
    exam: ExamRef
    note: Note = ""


class ApprovalGiven(Noun, frozen=True, kw_only=True):
    """A person says yes or no to one exact step.

    It speaks of this candidate, these results, this policy and this stage, and of nothing else.
    """

    asset: AssetName
    environment: AssetName
    version: VersionName
    stage: Stage
    candidate_digest: Digest
    result_ids: Cites
    policy_digest: Digest
    decision: Decision
    expires_at: datetime
    note: Note = ""


class GateWaived(Noun, frozen=True, kw_only=True):
    """A gate that the policy lets people override is excused for one version, for a time."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    candidate_digest: Digest
    gate: Gate
    note: Note
    expires_at: datetime


class GateOverridden(Noun, frozen=True, kw_only=True):
    """A version moved although a gate stood against it, by a waiver; it shows for ever."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    stage: Stage
    gate: Gate
    waiver: int
    reason: str


class VersionMoved(Noun, frozen=True, kw_only=True):
    """A version changes its stage, and everything that this rests on.

    ``approvals``, ``windows`` and ``signals`` are sequence numbers of ledger events.
    """

    asset: AssetName
    environment: AssetName
    version: VersionName
    candidate_digest: Digest
    before: Stage
    after: Stage
    cause: Cause
    policy_digest: Digest
    note: Note = ""
    result_ids: Cites = ()
    approvals: tuple[int, ...] = ()
    gates: tuple[GateFinding, ...] = ()
    windows: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    baseline: VersionName | None = None
    salt: str | None = None
    watch_until: datetime | None = None
    clock_behind_ms: int = 0


class VersionPaused(Noun, frozen=True, kw_only=True):
    """A version stops where it is, for a typed reason; None as reason lets it go on."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    reason: PauseReason | None
    note: Note = ""


class BreakGlassUsed(Noun, frozen=True, kw_only=True):
    """Somebody acts without the usual approvals because of an incident; it shows for ever."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    incident: Pin
    note: Note
    until: datetime
    review_due: datetime


class BreakGlassReviewed(Noun, frozen=True, kw_only=True):
    """A second person looked at what was done behind the broken glass."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    incident: Pin
    note: Note = ""


class WindowPushed(Noun, frozen=True, kw_only=True):
    """Measurements of one canary window, whole or in parts."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    start: datetime
    end: datetime
    metrics: Annotated[tuple[ArmMetric, ...], Meta(max_length=1000)] = ()
    invariants: Annotated[tuple[InvariantCount, ...], Meta(max_length=100)] = ()
    traffic: Traffic | None = None


class WindowJudged(Noun, frozen=True, kw_only=True):
    """The verdict over one window, or over a run of windows that never arrived."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    start: datetime
    end: datetime
    stage: Stage
    state: WindowState
    judge: str
    reasons: tuple[str, ...]
    metrics: tuple[MetricVerdict, ...] = ()
    missing_count: int = 0
    is_ratio_off: bool = False


class WatchClosed(Noun, frozen=True, kw_only=True):
    """The watch after enabling ends; the version no longer shares with the one before."""

    asset: AssetName
    environment: AssetName
    version: VersionName
    clean_count: int
    other_count: int


class ServiceReported(Noun, frozen=True, kw_only=True):
    """Good and bad events of a service in a span of time, for its error budget."""

    asset: AssetName
    environment: AssetName
    start: datetime
    end: datetime
    good: Annotated[int, Meta(ge=0, le=10**12)]
    total: Annotated[int, Meta(ge=0, le=10**12)]

    def __post_init__(self) -> None:
        if self.good > self.total:
            raise InvalidValueError(f"good {self.good} exceeds total {self.total}")
        if self.start >= self.end:
            raise InvalidValueError("a span must end after it starts")


class DriftNoted(msgspec.Struct, frozen=True, kw_only=True):
    """What the drift gate reads of a drift signal; the signal's other fields are the detector's."""

    asset: str
    metric: str
    level: str
    environment: str = PRODUCTION
    episode: str | None = None


Fact = (
    RolesGranted
    | PolicyAdopted
    | VersionAdded
    | ExamSet
    | ApprovalGiven
    | GateWaived
    | GateOverridden
    | VersionMoved
    | VersionPaused
    | BreakGlassUsed
    | BreakGlassReviewed
    | WindowPushed
    | WindowJudged
    | WatchClosed
    | ServiceReported
    | DriftNoted
)

KINDS: Final[dict[str, type[Fact]]] = {
    event_kinds.ROLES_GRANTED: RolesGranted,
    event_kinds.POLICY_CHANGED: PolicyAdopted,
    event_kinds.ASSET_REGISTERED: VersionAdded,
    event_kinds.EXAM_SET: ExamSet,
    event_kinds.APPROVAL: ApprovalGiven,
    event_kinds.WAIVER: GateWaived,
    event_kinds.OVERRIDE: GateOverridden,
    event_kinds.TRANSITION: VersionMoved,
    event_kinds.PAUSE: VersionPaused,
    event_kinds.BREAK_GLASS: BreakGlassUsed,
    event_kinds.BREAK_GLASS_REVIEWED: BreakGlassReviewed,
    event_kinds.CANARY_WINDOW: WindowPushed,
    event_kinds.CANARY_JUDGED: WindowJudged,
    event_kinds.WATCH_CLOSED: WatchClosed,
    event_kinds.SERVICE_REPORTED: ServiceReported,
    event_kinds.DRIFT_SIGNAL: DriftNoted,
}
"""The kind of a ledger event, and what its payload says."""

KIND_OF: Final[dict[type[Fact], str]] = {fact: kind for kind, fact in KINDS.items()}
WORKSPACE_SUBJECT: Final = "*"
"""The subject of events that concern every asset: roles and the release policy."""


def subject_of(fact: Fact) -> str:
    """What an event is about: the whole governance, or one asset by its name."""
    return WORKSPACE_SUBJECT if isinstance(fact, RolesGranted | PolicyAdopted) else fact.asset


class LifecycleEvent(msgspec.Struct, frozen=True):
    """One ledger event as the lifecycle reads it."""

    seq: int
    actor: str
    at: datetime
    fact: Fact
    decided_by: DecidedBy | None = None

    @property
    def rules(self) -> int:
        """The version of the rules that decided it."""
        return 1 if self.decided_by is None else self.decided_by.rules
