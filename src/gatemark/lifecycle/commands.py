"""The commands of the lifecycle. A command is data; ``decide`` returns the facts it leads to.

A command that leads to only one kind of event may be declared with that event instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gatemark.core.result import AssetKind
from gatemark.lifecycle.model.nouns import (
    PRODUCTION,
    ArmMetric,
    Cited,
    Decision,
    Gate,
    InvariantCount,
    Noun,
    PackIdentity,
    PauseReason,
    Pins,
    Risk,
    Role,
    SchemaChange,
    ShadowPairs,
    Stage,
    Traffic,
)
from gatemark.lifecycle.model.release_policy import ReleasePolicy


class Command(Noun, frozen=True, kw_only=True):
    """A request by an actor.

    ``expected_revision`` is an optimistic lock: the last event of the asset that the actor has
    seen.
    """

    actor: str
    expected_revision: int | None = None
    note: str = ""


class GrantRoles(Command, frozen=True, kw_only=True):
    """Give a person exactly these roles; an empty list removes all roles."""

    person: str
    roles: tuple[Role, ...]


class AdoptPolicy(Command, frozen=True, kw_only=True):
    """Adopt a release policy.

    ``document`` is the complete policy as the ledger stores it, so that later changes of defaults
    do not change its meaning. By default it is ``policy`` with the current defaults.
    """

    policy: ReleasePolicy
    document: dict[str, Any] | None = None


class AssetCommand(Command, frozen=True, kw_only=True):
    """A command about one asset in one environment."""

    asset: str
    environment: str = PRODUCTION


class AddVersion(AssetCommand, frozen=True, kw_only=True):
    """Draft a version; the first one sets the kind and risk of the asset."""

    kind: AssetKind
    version: str
    digest: str
    risk: Risk = "normal"
    parent: str | None = None
    pins: Pins = Pins()
    schema: SchemaChange | None = None
    is_scope_change: bool = False


class SetRequiredPack(AssetCommand, frozen=True, kw_only=True):
    """Set the required pack of an asset; ``file`` is the path of the pack file."""

    required_pack: PackIdentity
    file: str | None = None


class Promote(AssetCommand, frozen=True, kw_only=True):
    """Move a version to a stage, citing results.

    ``evidence`` has the facts about every result that the version cites now or cited before. With
    ``incident`` it is break-glass access: no approvals and no canary, and it stays visible.
    """

    version: str
    to: Stage
    result_ids: tuple[str, ...] = ()
    evidence: Mapping[str, Cited] = {}
    incident: str | None = None


class Approve(AssetCommand, frozen=True, kw_only=True):
    """Approve or reject one step of one version, based on these results."""

    version: str
    stage: Stage
    result_ids: tuple[str, ...] = ()
    evidence: Mapping[str, Cited] = {}
    decision: Decision = "approve"


class Waive(AssetCommand, frozen=True, kw_only=True):
    """Waive a gate for a version, where the policy allows it."""

    version: str
    gate: Gate
    expires_at: datetime


class Demote(AssetCommand, frozen=True, kw_only=True):
    """Demote a version (default: the enabled one).

    ``to`` is ``shadow`` or ``demoted``. ``signals`` are the drift events behind it. ``evidence``
    has the facts about the results of versions that could take its place. With ``needs_fallback``,
    it is refused if no version would serve afterwards.
    """

    version: str | None = None
    to: Stage = "demoted"
    signals: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    needs_fallback: bool = False


class RollBack(AssetCommand, frozen=True, kw_only=True):
    """Roll back: leave the canary if one is running, otherwise the enabled version.

    ``version`` is the one to leave, ``to`` the one to return to; both are optional. With
    ``needs_fallback``, it is refused if no version would serve afterwards.
    """

    version: str | None = None
    to: str | None = None
    signals: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    needs_fallback: bool = False


class PauseVersion(AssetCommand, frozen=True, kw_only=True):
    """Pause a version."""

    version: str
    reason: PauseReason


class ResumeVersion(AssetCommand, frozen=True, kw_only=True):
    """Resume a paused version."""

    version: str


class ReviewBreakGlass(AssetCommand, frozen=True, kw_only=True):
    """Review a use of break-glass access as a second person."""

    version: str


class PushWindow(AssetCommand, frozen=True, kw_only=True):
    """Report measurements of one window of a running canary or watch."""

    start: datetime
    end: datetime
    metrics: tuple[ArmMetric, ...] = ()
    invariants: tuple[InvariantCount, ...] = ()
    traffic: Traffic | None = None


class PushShadow(AssetCommand, frozen=True, kw_only=True):
    """Report how a shadow and the live version answered the same inputs."""

    version: str
    pairs: ShadowPairs


class ReportService(AssetCommand, frozen=True, kw_only=True):
    """Report good and total events of a time span, for the error budget."""

    start: datetime
    end: datetime
    good: int
    total: int


class Tick(AssetCommand, frozen=True, kw_only=True):
    """Do what is due: judge closed windows, ramp up, pause, roll back, end a watch."""

    evidence: Mapping[str, Cited] = {}
