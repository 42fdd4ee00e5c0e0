"""The commands of the lifecycle. A command is data; ``decide`` returns the facts it leads to.

Fields with a description are what people are asked for: options, bodies and forms come from them.
The others are filled in by whoever runs the command: who asks, what they have seen, and the facts
that the decision rests on.

A command that leads to only one kind of event may be declared with that event instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, get_args

from msgspec import Meta

from gatemark.core.result import AssetKind
from gatemark.release.lifecycle.model.nouns import (
    MAX_NOTE,
    PRODUCTION,
    ArmMetric,
    AssetName,
    Cited,
    Decision,
    Digest,
    Gate,
    InvariantCount,
    Noun,
    PackIdentity,
    PauseReason,
    Pin,
    Pins,
    ResultReference,
    Risk,
    Role,
    SchemaChange,
    ShadowPairs,
    Stage,
    Traffic,
    VersionName,
)
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy

CANARY: Final = "canary"
"""What people call the first stage of a canary; the later ones follow by themselves."""
NEXT_STAGES: Final[dict[str, Stage]] = {
    "evaluating": "evaluating",
    "rejected": "rejected",
    "eligible": "eligible",
    "shadow": "shadow",
    CANARY: "canary_1",
    "enabled": "enabled",
    "retired": "retired",
}
VOTED_STAGES: Final[dict[str, Stage]] = {
    word: NEXT_STAGES[word] for word in ("shadow", CANARY, "enabled")
}
GRANTED_ROLES: Final[dict[str, Role]] = {role: role for role in get_args(Role) if role != "system"}
NoteField = Annotated[str, Meta(max_length=MAX_NOTE, description="Reason, recorded in the ledger.")]
"""What somebody says about an act."""
CutNoteField = Annotated[
    str, Meta(description=f"Reason, recorded in the ledger; cut after {MAX_NOTE} characters.")
]
"""The same for an act that takes authority away: a long text must not delay it."""
CitedResults = Annotated[
    tuple[ResultReference, ...],
    Meta(
        max_length=32,
        description="Id of a sealed result to cite, or its first digits.",
        extra={"flags": ("--cite",), "metavar": "RESULT"},
    ),
]
Environment = Annotated[
    AssetName, Meta(description="Name of the environment.", extra={"metavar": "NAME"})
]
AssetField = Annotated[AssetName, Meta(description="Name of the asset.")]
VersionField = Annotated[VersionName, Meta(description="Version of the asset.")]
Stop = Annotated[bool, Meta(description="Do it even if no version serves afterwards.")]


class Command(Noun, frozen=True, kw_only=True):
    """A request by an actor.

    ``expected_revision`` is an optimistic lock: the last event of the asset that the actor has
    seen.
    """

    actor: str
    expected_revision: int | None = None
    note: NoteField = ""
    is_in_person: ClassVar[bool] = False
    """Whether only a person in a session may do it, not a program with a token."""


Roles = Annotated[
    tuple[Annotated[Role, Meta(extra={"words": GRANTED_ROLES})], ...],
    Meta(max_length=len(GRANTED_ROLES), description="Role; without any, all are removed."),
]


class GrantRoles(Command, frozen=True, kw_only=True):
    """Give a person exactly these roles; an empty list removes all roles."""

    person: Annotated[str, Meta(description="Name of the person.")]
    roles: Roles
    is_in_person: ClassVar[bool] = True


class AdoptPolicy(Command, frozen=True, kw_only=True):
    """Adopt a release policy.

    ``document`` is the complete policy as the ledger stores it, so that later changes of defaults
    do not change its meaning. By default it is ``policy`` with the current defaults.
    """

    policy: ReleasePolicy
    document: dict[str, Any] | None = None
    is_in_person: ClassVar[bool] = True


class AssetCommand(Command, frozen=True, kw_only=True):
    """A command about one asset in one environment."""

    asset: AssetField
    environment: Environment = PRODUCTION


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

    version: VersionField
    to: Annotated[Stage, Meta(description="Stage to go to.", extra={"words": NEXT_STAGES})]
    result_ids: CitedResults = ()
    evidence: Mapping[str, Cited] = {}
    incident: (
        Annotated[
            Pin,
            Meta(
                description="Incident that justifies enabling at once, without approvals. "
                "Needs a note.",
                extra={"flags": ("--break-glass",), "metavar": "INCIDENT"},
            ),
        ]
        | None
    ) = None


class Approve(AssetCommand, frozen=True, kw_only=True):
    """Approve or reject one step of one version, based on these results.

    With the digests of what the voter saw, it is refused if one of them is another by now.
    """

    version: VersionField
    stage: Annotated[
        Stage,
        Meta(
            description="Stage that the version may go to.",
            extra={"words": VOTED_STAGES, "flags": ("--to",)},
        ),
    ]
    result_ids: CitedResults = ()
    evidence: Mapping[str, Cited] = {}
    decision: Annotated[Decision, Meta(description="Decision to record.")] = "approve"
    candidate_digest: (
        Annotated[
            Digest,
            Meta(
                description="Digest of the candidate that you looked at.",
                extra={"metavar": "DIGEST"},
            ),
        ]
        | None
    ) = None
    policy_digest: (
        Annotated[
            Digest,
            Meta(
                description="Digest of the release policy that you looked at.",
                extra={"metavar": "DIGEST"},
            ),
        ]
        | None
    ) = None
    note: NoteField
    is_in_person: ClassVar[bool] = True


class Waive(AssetCommand, frozen=True, kw_only=True):
    """Waive a gate for a version, where the policy allows it.

    ``expires_at`` is ``hours`` after the command.
    """

    version: VersionField
    gate: Annotated[Gate, Meta(description="Gate to override.")]
    hours: Annotated[float, Meta(gt=0, le=24 * 366, description="Duration in hours.")] = 72
    expires_at: datetime | None = None
    note: NoteField
    is_in_person: ClassVar[bool] = True


class Demote(AssetCommand, frozen=True, kw_only=True):
    """Demote a version (default: the enabled one).

    ``to`` is ``shadow`` or ``demoted``. ``signals`` are the drift events behind it. ``evidence``
    has the facts about the results of versions that could take its place. Without ``stop``, it is
    refused if no version would serve afterwards.
    """

    version: VersionField | None = None
    to: Annotated[
        Stage,
        Meta(
            description="Stage to go to. Shadow keeps it measured at the sample rate; demoted "
            "needs a fresh required-pack result to return.",
            extra={"words": {"shadow": "shadow", "demoted": "demoted"}},
        ),
    ] = "demoted"
    signals: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    stop: Stop = False
    note: Annotated[CutNoteField, Meta(extra={"flags": ("--reason",)})]


class RollBack(AssetCommand, frozen=True, kw_only=True):
    """Roll back: leave the canary if one is running, otherwise the enabled version.

    ``version`` is the one to leave, ``to`` the one to return to; both are optional. Without
    ``stop``, it is refused if no version would serve afterwards.
    """

    version: VersionField | None = None
    to: (
        Annotated[
            VersionName,
            Meta(
                description="Earlier version to return to (default: the last one).",
                extra={"flags": ("--to", "--to-version"), "metavar": "VERSION"},
            ),
        ]
        | None
    ) = None
    signals: tuple[int, ...] = ()
    evidence: Mapping[str, Cited] = {}
    stop: Stop = False
    note: CutNoteField = ""


class PauseVersion(AssetCommand, frozen=True, kw_only=True):
    """Pause a version."""

    version: VersionField
    reason: Annotated[PauseReason, Meta(description="Reason for the pause.")] = "operator"
    note: CutNoteField = ""


class ResumeVersion(AssetCommand, frozen=True, kw_only=True):
    """Resume a paused version."""

    version: VersionField


class ReviewBreakGlass(AssetCommand, frozen=True, kw_only=True):
    """Review a use of break-glass access as a second person."""

    version: VersionField
    note: NoteField
    is_in_person: ClassVar[bool] = True


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

    start: Annotated[datetime, Meta(description="Start of the period.")]
    end: Annotated[datetime, Meta(description="End of the period.")]
    good: Annotated[int, Meta(ge=0, le=10**12, description="Number of good events.")]
    total: Annotated[int, Meta(ge=0, le=10**12, description="Number of all events.")]


class Tick(AssetCommand, frozen=True, kw_only=True):
    """Do what is due: judge closed windows, ramp up, pause, roll back, end a watch."""

    evidence: Mapping[str, Cited] = {}
