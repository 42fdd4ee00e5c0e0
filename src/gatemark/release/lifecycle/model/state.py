"""The state of one asset and of the governance around it, computed from events."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatemark.core.errors import GatemarkError, IntegrityError
from gatemark.core.result import AssetKind
from gatemark.release.lifecycle.default_policy import default_digest, default_document
from gatemark.release.lifecycle.model.nouns import (
    CANARY_SHARES,
    Decision,
    Gate,
    PackIdentity,
    PauseReason,
    Pins,
    Risk,
    Role,
    SampleMoments,
    SchemaChange,
    ShadowPairs,
    Stage,
    Traffic,
    WindowState,
)
from gatemark.release.lifecycle.model.release_policy import (
    ReleasePolicy,
    policy_for,
    recorded_policy,
)


class Undecided(msgspec.Struct, frozen=True):
    """Why this build cannot decide an event, and the error of what would build on it.

    ``rules`` are those that decided it, or 0 if the event cannot be read.
    """

    why: str
    error: type[GatemarkError] = IntegrityError
    rules: int = 0


class AssetVersion(msgspec.Struct, frozen=True):
    """A version as it was added."""

    name: str
    digest: str
    author: str
    parent: str | None
    pins: Pins
    schema: SchemaChange | None
    is_scope_change: bool
    added_at: datetime
    seq: int
    undecided: int | None = None
    """The event that added it, if this build cannot decide it; such a version does not serve."""


class Approval(msgspec.Struct, frozen=True):
    """An approval: who gave it, when, and for what."""

    seq: int
    actor: str
    at: datetime
    environment: str
    version: str
    stage: Stage
    candidate_digest: str
    result_ids: tuple[str, ...]
    policy_digest: str
    decision: Decision
    expires_at: datetime
    note: str = ""


class GateWaiver(msgspec.Struct, frozen=True):
    """A waiver of one gate for one version."""

    seq: int
    actor: str
    environment: str
    version: str
    candidate_digest: str
    gate: Gate
    note: str
    expires_at: datetime


class Pause(msgspec.Struct, frozen=True):
    """Why a version is paused."""

    reason: PauseReason
    actor: str
    at: datetime
    note: str


class BreakGlassAccess(msgspec.Struct, frozen=True):
    """A use of break-glass access: the incident, how long it is valid, and who reviewed it.

    A late review is recorded, but does not extend the time.
    """

    seq: int
    actor: str
    incident: str
    note: str
    at: datetime
    until: datetime
    review_due: datetime
    reviewed_by: str | None = None
    reviewed_at: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Whether it expired without a review by a second person."""
        in_time = self.reviewed_at is not None and self.reviewed_at < self.until
        return now >= self.until and not in_time


class Track(msgspec.Struct):
    """The stage of one version in one environment, and the evidence for it."""

    version: str
    stage: Stage = "draft"
    since: datetime | None = None
    seq: int = 0
    cause: str = ""
    result_ids: tuple[str, ...] = ()
    approvals: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    paused: Pause | None = None
    fell_at: datetime | None = None
    break_glass: BreakGlassAccess | None = None
    shadowed: list[tuple[str, ShadowPairs]] = []
    """Measurements since it entered shadow, each with the version that was live."""
    undecided: int | None = None
    """The last event that this build cannot decide and from which it would have gained."""


class CanaryWindow(msgspec.Struct):
    """Measurements of one canary window that is not judged yet."""

    start: datetime
    end: datetime
    moments: dict[str, dict[str, SampleMoments]] = {}
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    invariants: dict[str, tuple[int, int]] = {}
    traffic: Traffic | None = None


class Rollout(msgspec.Struct):
    """A version alongside a baseline: a running canary, or the watch after enabling.

    ``pending`` are windows that arrived but are not judged; ``history`` has judged windows without
    their single values. ``streak`` has the events of the clean windows in a row at this step;
    ``last`` is the event of the last window, its verdict, and whether traffic was split wrongly.
    Samples since ``pool_since``, the end of the last clean window, are pooled.
    """

    version: str
    baseline: str | None
    salt: str
    started_at: datetime
    step_since: datetime
    watch_until: datetime | None = None
    judged_until: datetime | None = None
    pending: dict[datetime, CanaryWindow] = {}
    history: list[CanaryWindow] = []
    streak: list[int] = []
    last: tuple[int, WindowState, bool] | None = None
    held_count: int = 0
    pool_since: datetime | None = None
    clean_count: int = 0
    other_count: int = 0


class ServiceSpan(msgspec.Struct, frozen=True, order=True):
    """Good and total events of a service in a span of time."""

    start: datetime
    end: datetime
    good: int
    total: int


class EnvironmentState(msgspec.Struct):
    """One environment of an asset.

    ``enabled`` is the version that serves: routing may withhold it, and never serves in its own
    right what this does not name. Demotions, rollbacks, canaries and drift mean the same version.
    ``lineage`` lists the versions that were enabled and could be again, the live one last.
    ``has_fallen`` means that nothing was promoted since the last rollback.
    """

    tracks: dict[str, Track] = {}
    enabled: str | None = None
    canary: str | None = None
    lineage: list[str] = []
    has_fallen: bool = False
    rollout: Rollout | None = None
    drift: dict[str, dict[str, tuple[int, str]]] = {}
    service: list[ServiceSpan] = []


class Asset(msgspec.Struct):
    """One asset: its versions, its required pack, and the stages of its versions."""

    name: str
    kind: AssetKind | None = None
    risk: Risk = "normal"
    versions: dict[str, AssetVersion] = {}
    required_pack: PackIdentity | None = None
    required_pack_editor: str | None = None
    required_pack_file: str | None = None
    places: dict[str, EnvironmentState] = {}
    approvals: list[Approval] = []
    waivers: list[GateWaiver] = []
    revision: int = 0
    undecided: dict[int, Undecided] = {}
    """Events that this build cannot decide; they count only if they take away."""
    last_at: datetime | None = None

    def find_undecided(self, environment: str, version: str) -> int | None:
        """Return the last event that would have raised a version and that cannot be decided."""
        known = self.versions.get(version)
        if known is not None and known.undecided is not None:
            return known.undecided
        return self.track(environment, version).undecided

    def place(self, environment: str) -> EnvironmentState:
        """Return an environment; an empty one if nothing happened there yet."""
        return self.places.get(environment) or EnvironmentState()

    def track(self, environment: str, version: str) -> Track:
        """Return the track of a version; a version that never moved there is a draft."""
        return self.place(environment).tracks.get(version) or Track(version=version)

    def ensure_place(self, environment: str) -> EnvironmentState:
        """Return an environment for changes; add it if missing."""
        return self.places.setdefault(environment, EnvironmentState())

    def ensure_track(self, environment: str, version: str) -> Track:
        """Return the track of a version for changes; add it if missing."""
        tracks = self.ensure_place(environment).tracks
        return tracks.setdefault(version, Track(version=version))


def _default_policy() -> ReleasePolicy:
    return recorded_policy(default_document())


class AccessGrant(msgspec.Struct, frozen=True):
    """One event in which somebody gave a person a role, or access to an account."""

    seq: int
    at: datetime
    by: str
    what: str


class GovernanceState(msgspec.Struct):
    """Roles, and the release policy in force since the event ``policy_seq``.

    Before any such event it is the default policy. ``undecided`` are the events that this build
    cannot decide: they give and take no right.

    ``looks`` maps what a name looks like to the name, for everybody who ever had a role. ``access``
    has what each person was given by others, oldest first.
    """

    roles: dict[str, tuple[Role, ...]] = {}
    looks: dict[str, str] = {}
    access: dict[str, list[AccessGrant]] = {}
    policy: ReleasePolicy = msgspec.field(default_factory=_default_policy)
    policy_digest: str = msgspec.field(default_factory=default_digest)
    policy_editor: str | None = None
    policy_seq: int = 0
    revision: int = 0
    undecided: dict[int, Undecided] = {}
    last_at: datetime | None = None


class LifecycleState(msgspec.Struct):
    """Everything that a decision about one asset reads."""

    governance: GovernanceState
    asset: Asset

    @property
    def policy(self) -> ReleasePolicy:
        """The release policy as it applies to the asset."""
        return policy_for(self.governance.policy, self.asset.name, self.asset.kind)

    @property
    def undecided(self) -> dict[int, Undecided]:
        """Events that this build cannot decide: nothing climbs after them."""
        return self.governance.undecided | self.asset.undecided


def share_of(stage: Stage) -> float:
    """Return the share of traffic of a canary stage; 0 for other stages."""
    return CANARY_SHARES.get(stage, 0.0)
