"""Basic types of the lifecycle: stages, roles, pins, gates and canary measurements."""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.core.policy import Outcome

Stage = Literal[
    "draft",
    "evaluating",
    "rejected",
    "eligible",
    "shadow",
    "canary_1",
    "canary_5",
    "canary_25",
    "enabled",
    "superseded",
    "retired",
    "demoted",
    "rolled_back",
]
Cause = Literal["promote", "ramp", "supersede", "demote", "rollback", "break_glass"]
Role = Literal[
    "viewer",
    "author",
    "evaluator",
    "pack_owner",
    "approver",
    "security_approver",
    "operator",
    "auditor",
    "admin",
    "system",
]
PauseReason = Literal[
    "inconclusive", "warn", "freeze", "operator", "error_budget", "sample_ratio", "break_glass"
]
Gate = Literal[
    "schema",
    "eval",
    "replay",
    "adversarial",
    "drift",
    "error_budget",
    "sign_off",
    "security_review",
]
GateState = Literal["pass", "fail", "unjudged", "not_applicable", "overridden", "break_glass"]
ChangeClass = Literal["none", "patch", "minor", "major"]
Risk = Literal["normal", "high"]
WindowState = Literal["clean", "inconclusive", "warn", "breach"]
MetricState = Literal["ok", "unjudged", "warn", "breach"]
Arm = Literal["canary", "baseline"]
Decision = Literal["approve", "reject", "abstain"]

PRODUCTION: Final = "production"
CANARY_SHARES: Final[dict[Stage, float]] = {"canary_1": 0.01, "canary_5": 0.05, "canary_25": 0.25}
"""The stages of a canary, in order, and the share of traffic in each."""

AssetName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        extra={"looks": "Latin letters, digits and any of . _ -, beginning with a letter or digit"},
    ),
]
VersionName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$",
        extra={
            "looks": "Latin letters, digits and any of . _ + -, beginning with a letter or digit"
        },
    ),
]
Actor = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\u0000-\u0020\u007f]+$")]
Digest = Annotated[
    str,
    Meta(
        pattern=r"^sha256:[0-9a-f]{64}$",
        extra={"looks": "a digest (sha256: and 64 hex digits)"},
    ),
]
ResultReference = Annotated[
    str,
    Meta(
        pattern=r"^(sha256:)?[0-9a-f]{8,64}$",
        extra={"looks": "a result id (sha256:… or 8 or more hex digits)"},
    ),
]
MAX_NOTE: Final = 2_000
Note = Annotated[
    str,
    Meta(
        max_length=MAX_NOTE,
        pattern=r"^[^\u0000-\u0008\u000b-\u001f\u007f]*$",
        extra={"looks": "a text without control characters"},
    ),
]
Pin = Annotated[str, Meta(min_length=1, max_length=256)]
Cites = Annotated[tuple[Digest, ...], Meta(max_length=32)]


class Noun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of the types of the lifecycle."""


class Pins(Noun, frozen=True, kw_only=True):
    """Everything that a version was examined with; a rollback restores all of it."""

    model: Pin | None = None
    prompt: Pin | None = None
    tools: dict[str, Pin] = {}
    retrieval: Pin | None = None
    ontology: Pin | None = None
    policy: Pin | None = None
    routing: Pin | None = None

    @property
    def digest(self) -> str:
        """The digest of all pins; use it as a cache key to invalidate caches on a rollback."""
        return digest(self)


class VersionRef(Noun, frozen=True, kw_only=True):
    """A version of an asset, written ``ASSET@VERSION``."""

    asset: AssetName
    version: VersionName

    def __str__(self) -> str:
        return f"{self.asset}@{self.version}"


def parse_version_ref(text: str) -> VersionRef:
    """Parse ``ASSET@VERSION``."""
    asset, mark, version = text.partition("@")
    if not mark:
        raise UsageError(f"{text!r} must be ASSET@VERSION")
    try:
        return msgspec.convert({"asset": asset, "version": version}, VersionRef)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{text!r} must be ASSET@VERSION, each of Latin letters, digits, '.', '_' and '-' "
            "(a version also '+'), beginning with a letter or digit, at most 128 and 64 long"
        ) from error


class SchemaChange(Noun, frozen=True, kw_only=True):
    """How the schema of a version differs from that of its parent.

    ``bump`` is what the version number announces; null if the number is not semantic or there is no
    parent. ``change`` is null if there was nothing to compare with.
    """

    digest: Digest
    change: ChangeClass | None
    bump: ChangeClass | None
    reasons: tuple[str, ...] = ()
    is_marking_change: bool = False


class PackIdentity(Noun, frozen=True, kw_only=True):
    """What identifies a pack: a result counts for an asset if it ran the required pack.

    Data of replay suites is left out, because it changes over time. ``definition`` is a digest of
    the pack without its targets, and of how it scores: a pack that only has the same name, rules
    and data is another pack.
    """

    pack: str
    version: int
    policy: Digest
    snapshots: tuple[str, ...]
    definition: Digest | None = None

    @property
    def digest(self) -> str:
        return digest(self)


class CitedSuite(msgspec.Struct, frozen=True):
    """The outcome of one suite of a result; ``excused`` are its waived or soft-passed rules."""

    suite: str
    kind: str
    excused: tuple[str, ...] = ()


class Cited(msgspec.Struct, frozen=True):
    """The facts about a sealed result that the lifecycle needs.

    ``answered_at`` is when the oldest answer was given, or None if the result does not say.
    ``excused`` are waived or soft-passed rules outside suites. ``candidate_lanes`` are the advisory
    lanes that it makes candidates for discussion; only lanes need them.
    ``is_of_lane`` means that its pack is for an advisory lane.
    """

    id: str
    verdict: Outcome
    candidate_digest: str | None
    baseline_digest: str | None
    pack: PackIdentity
    suites: tuple[CitedSuite, ...] = ()
    excused: tuple[str, ...] = ()
    answered_at: datetime | None = None
    candidate_lanes: tuple[str, ...] = ()
    is_of_lane: bool = False


class GateFinding(Noun, frozen=True, kw_only=True):
    """The state of one gate of the release matrix when a move was requested."""

    gate: Gate
    state: GateState
    blocks: bool
    reason: str


class SampleMoments(Noun, frozen=True, kw_only=True):
    """Count, sum and sum of squares of a sample."""

    n: Annotated[int, Meta(ge=0, le=10**12)]
    sum: float
    sum_squares: Annotated[float, Meta(ge=0)]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sum) and math.isfinite(self.sum_squares)):
            raise InvalidValueError(
                f"sum and sum_squares must be finite, got {self.sum} and {self.sum_squares}"
            )
        slack = 1e-9 * max(1.0, self.sum_squares)
        if self.n * self.sum_squares + slack * max(1, self.n) < self.sum * self.sum:
            raise InvalidValueError(
                f"sum_squares {self.sum_squares} is too small for n {self.n} and sum {self.sum}"
            )


class ArmMetric(Noun, frozen=True, kw_only=True):
    """One metric of one arm in one window; ``values`` are set only if a judge needs them."""

    metric: AssetName
    arm: Arm
    moments: SampleMoments
    values: Annotated[tuple[float, ...], Meta(max_length=2_000)] = ()


class InvariantCount(Noun, frozen=True, kw_only=True):
    """How often the canary violated an invariant."""

    name: AssetName
    checked: Annotated[int, Meta(ge=0, le=10**12)]
    violations: Annotated[int, Meta(ge=0, le=10**12)]


class Traffic(Noun, frozen=True, kw_only=True):
    """Number of keys routed to each arm."""

    canary: Annotated[int, Meta(ge=0, le=10**12)]
    baseline: Annotated[int, Meta(ge=0, le=10**12)]


class ShadowPairs(Noun, frozen=True, kw_only=True):
    """How a shadow and the live version answered the same inputs in a time span.

    ``agreed`` of ``n`` pairs had the same answer. Latency and cost are means per input.
    """

    start: datetime
    end: datetime
    n: Annotated[int, Meta(ge=1, le=10**12)]
    agreed: Annotated[int, Meta(ge=0, le=10**12)]
    candidate_errors: Annotated[int, Meta(ge=0, le=10**12)]
    live_errors: Annotated[int, Meta(ge=0, le=10**12)]
    candidate_latency_ms: Annotated[float, Meta(ge=0)] | None = None
    live_latency_ms: Annotated[float, Meta(ge=0)] | None = None
    candidate_cost: Annotated[float, Meta(ge=0)] | None = None
    live_cost: Annotated[float, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise InvalidValueError("a span must end after it starts")
        if max(self.agreed, self.candidate_errors, self.live_errors) > self.n:
            raise InvalidValueError(f"agreed and errors must not exceed n {self.n}")


class MetricVerdict(Noun, frozen=True, kw_only=True):
    """Verdict on one metric of one window."""

    metric: str
    state: MetricState
    reason: str
    statistic: float | None = None
    difference: float | None = None


MAX_NAME: Final = 128
_ALPHABETS: Final = frozenset({"LATIN", "CYRILLIC", "GREEK"})
_LATIN_LOOKS: Final = str.maketrans(
    # Small Cyrillic, then Greek letters that look like Latin ones.
    "аеорсухіјѕһԁԛԝкгαονρτυικχ",
    "aeopcyxijshdqwkraovptuikx",
)


def name_problem(name: str) -> str | None:
    """Return why a text is not allowed as a person's name, or None."""
    if not 1 <= len(name) <= MAX_NAME:
        return f"a name must have 1 to {MAX_NAME} characters, got {len(name)}"
    for letter in name:
        if letter.isspace() or not letter.isprintable():
            what = unicodedata.name(letter, f"U+{ord(letter):04X}")
            return f"the name {name!r} cannot contain a space or an invisible character ({what})"
    if unicodedata.normalize("NFKC", name) != name:
        usual = unicodedata.normalize("NFKC", name)
        return f"the name {name!r} is not in normal form (NFKC); write {usual!r}"
    alphabets = {unicodedata.name(letter, "").partition(" ")[0] for letter in name}
    mixed = sorted(alphabets & _ALPHABETS)
    if len(mixed) > 1:
        words = " and ".join(alphabet.capitalize() for alphabet in mixed)
        return f"the name {name!r} mixes {words} letters"
    return None


def look_of(name: str) -> str:
    """Return a key that is equal for names that look alike (other case or alphabet)."""
    return unicodedata.normalize("NFKC", name).casefold().translate(_LATIN_LOOKS)
