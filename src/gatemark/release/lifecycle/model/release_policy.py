"""The release policy: gate matrix, approvals, canary and watch, in one file with one digest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError, NewerFormatError
from gatemark.core.result import AssetKind
from gatemark.core.stored import convert_stored, newer_format
from gatemark.release.lifecycle.model.nouns import AssetName, Gate, Noun, Stage

GATES: Final[tuple[Gate, ...]] = get_args(Gate)
DEFAULT_ACCESS_HOURS: Final = 72.0
OVERRIDABLE: Final[frozenset[Gate]] = frozenset({"replay"})
"""The only gates that a policy may let people override."""

GatedStage = Literal["eligible", "shadow", "canary_1", "enabled"]
Judge = Literal["sequential", "mann_whitney", "sigma"]
Hours = Annotated[float, Meta(gt=0, le=24 * 366)]
Rate = Annotated[float, Meta(ge=0, le=1)]
Alpha = Annotated[float, Meta(gt=0, lt=0.5)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]

_AFTER_EVALUATION: Final[tuple[GatedStage, ...]] = get_args(GatedStage)
_TOWARDS_TRAFFIC: Final[tuple[GatedStage, ...]] = ("canary_1", "enabled")


_ALWAYS: Final[dict[Gate, tuple[GatedStage, ...]]] = {
    "eval": ("eligible",),
    "sign_off": _TOWARDS_TRAFFIC,
}
"""What no policy can switch off: evidence before eligible, people before traffic."""


class GateRule(Noun, frozen=True, kw_only=True):
    """One gate: which stages it guards, and what it does there.

    ``on_fail`` blocks or only alerts; ``on_unjudged`` is the action if the gate cannot be judged.
    """

    stages: tuple[GatedStage, ...]
    on_fail: Literal["block", "alert"] = "block"
    on_unjudged: Literal["block", "allow"] = "block"
    overridable: bool = False


DEFAULT_GATES: Final[dict[Gate, GateRule]] = {
    "schema": GateRule(stages=_AFTER_EVALUATION),
    "eval": GateRule(stages=_AFTER_EVALUATION),
    "replay": GateRule(stages=_AFTER_EVALUATION, overridable=True),
    "adversarial": GateRule(stages=_AFTER_EVALUATION),
    "drift": GateRule(stages=_TOWARDS_TRAFFIC, on_unjudged="allow"),
    "error_budget": GateRule(stages=_TOWARDS_TRAFFIC, on_unjudged="allow"),
    "sign_off": GateRule(stages=_TOWARDS_TRAFFIC),
    "security_review": GateRule(stages=_TOWARDS_TRAFFIC),
}


class Approvals(Noun, frozen=True, kw_only=True):
    """How many approvals are needed, from whom, and how long they are valid."""

    canary_1: Count = 1
    enabled: Count = 1
    high_risk: Count = 2
    approvers: tuple[str, ...] = ()
    expire_hours: Hours = 72
    waiver_max_days: Annotated[float, Meta(gt=0, le=366)] = 14
    access_hours: Hours | None = None
    """A vote does not count if its giver got a role, link or password from the author of the
    version or from whoever promotes it, less than this many hours before (default: 72)."""

    @property
    def access_span(self) -> timedelta:
        """How long a vote is invalid after its giver got access from the author."""
        return timedelta(hours=self.access_hours or DEFAULT_ACCESS_HOURS)

    def needed(self, stage: Stage, risk: str) -> int:
        """Return how many approvals a step needs."""
        usual = self.enabled if stage == "enabled" else self.canary_1
        return max(usual, self.high_risk) if risk == "high" else usual


class MetricRule(Noun, frozen=True, kw_only=True):
    """One watched metric: which direction is harmful, and how much is tolerated.

    Differences up to ``tolerance`` are ignored. With ``noninferior``, a window is clean only if the
    data show that the harm is below it.
    """

    harm: Literal["up", "down"]
    tolerance: Annotated[float, Meta(ge=0)] = 0.0
    noninferior: Annotated[float, Meta(gt=0)] | None = None

    def __post_init__(self) -> None:
        if self.noninferior is not None and self.noninferior <= self.tolerance:
            raise InvalidValueError("noninferior must be above tolerance")


def _default_metrics() -> dict[str, MetricRule]:
    return {"error_rate": MetricRule(harm="up"), "latency_ms": MetricRule(harm="up")}


class CanaryRules(Noun, frozen=True, kw_only=True):
    """How a canary is measured and judged."""

    metrics: dict[AssetName, MetricRule] = msgspec.field(default_factory=_default_metrics)
    invariants: tuple[AssetName, ...] = ("schema", "authority", "privacy")
    judge: Judge = "sequential"
    window_minutes: Annotated[int, Meta(ge=1, le=24 * 60)] = 15
    lateness_minutes: Annotated[int, Meta(ge=0, le=24 * 60)] = 0
    min_samples: Count = 50
    clean_windows: Count = 2
    max_hold_windows: Count = 8
    warn_alpha: Alpha = 0.02275
    breach_alpha: Alpha = 0.00135
    tuned_for: Count = 5_000
    ratio_alpha: Alpha = 0.001
    sigma_min_windows: Annotated[int, Meta(ge=2, le=10_000)] = 14
    rank_level: Annotated[float, Meta(gt=0.5, lt=1)] = 0.98
    rank_tolerance: Annotated[float, Meta(ge=0)] = 0.25

    def __post_init__(self) -> None:
        if not self.metrics:
            raise InvalidValueError("canary: a canary needs at least one metric")
        if self.breach_alpha > self.warn_alpha:
            raise InvalidValueError("canary: breach_alpha must not exceed warn_alpha")


class ShadowRules(Noun, frozen=True, kw_only=True):
    """What a shadow must show before it becomes a canary.

    Pairs are inputs that both the shadow and the live version answered. ``error_rise_max`` is the
    largest allowed rise in the share of errors; the ratios are candidate to live. A limit without
    measurements blocks the step.
    """

    min_pairs: Count = 50
    agreement_min: Rate | None = None
    error_rise_max: Rate | None = 0.01
    latency_ratio_max: Annotated[float, Meta(gt=0)] | None = None
    cost_ratio_max: Annotated[float, Meta(gt=0)] | None = None


class ErrorBudget(Noun, frozen=True, kw_only=True):
    """The service objective, and how fast its error budget may burn.

    A pair of windows burns too fast if both are above its factor: the long one shows that it
    matters, the short one that it is still going on.
    """

    objective: Annotated[float, Meta(gt=0, lt=1)] = 0.999
    fast_factor: Annotated[float, Meta(gt=0)] = 14.4
    fast_long_minutes: Count = 60
    fast_short_minutes: Count = 5
    slow_factor: Annotated[float, Meta(gt=0)] = 6.0
    slow_long_minutes: Count = 360
    slow_short_minutes: Count = 30


class AssetRule(Noun, frozen=True, kw_only=True):
    """Exceptions of the release policy for some assets.

    ``names`` are patterns of asset names (``*`` matches any characters), ``kinds`` are kinds of
    assets; if both are given, an asset must match both. ``set`` has the fields of the policy that
    differ; other fields of a section keep their values.
    """

    names: tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...] = ()
    kinds: tuple[AssetKind, ...] = ()
    set: dict[str, object]

    def __post_init__(self) -> None:
        if not self.names and not self.kinds:
            raise InvalidValueError("assets: an entry needs names or kinds")
        if not self.set:
            raise InvalidValueError("assets: an entry needs members to set")
        wrong = [name for name in self.set if name not in PER_ASSET]
        if wrong:
            raise InvalidValueError(
                f"assets: {wrong[0]} cannot be set for some assets only; "
                f"possible are {', '.join(PER_ASSET)}"
            )

    def fits(self, asset: str, kind: AssetKind | None) -> bool:
        """Whether the entry applies to an asset."""
        is_named = not self.names or any(fnmatchcase(asset, name) for name in self.names)
        return is_named and (not self.kinds or kind in self.kinds)


PER_ASSET: Final = (
    "approvals",
    "canary",
    "error_budget",
    "evidence_max_age_hours",
    "fallback",
    "gates",
    "rollback_window",
    "shadow",
    "shadow_min_hours",
    "shadow_sample_rate",
    "watch_hours",
    "watch_share",
)
"""The fields of a policy that may differ between assets."""


class ReleasePolicy(Noun, frozen=True, kw_only=True):
    """Everything that a promotion depends on besides evidence. Every step records its digest."""

    gatemark_release: Literal[1] = 1
    name: AssetName = "default"
    gates: dict[Gate, GateRule] = msgspec.field(default_factory=DEFAULT_GATES.copy)
    approvals: Approvals = Approvals()
    canary: CanaryRules = CanaryRules()
    error_budget: ErrorBudget = ErrorBudget()
    evidence_max_age_hours: Hours = 30 * 24
    shadow_sample_rate: Annotated[float, Meta(gt=0, le=1)] = 0.1
    shadow_min_hours: Annotated[float, Meta(ge=0, le=24 * 366)] = 0
    watch_hours: Annotated[float, Meta(ge=0, le=24 * 366)] = 24
    watch_share: Annotated[float, Meta(ge=0, le=0.5)] = 0.05
    fallback: Literal["previous", "none"] = "previous"
    rollback_window: Count = 3
    break_glass_hours: Annotated[float, Meta(gt=0, le=4)] = 4
    break_glass_review_hours: Annotated[float, Meta(gt=0, le=24)] = 24
    clock_skew_seconds: Annotated[float, Meta(ge=0, le=600)] = 10
    shadow: ShadowRules | None = None
    one_person: bool = False
    """One-person mode: one person may hold every role and approve their own versions. Only for a
    store in which nobody else ever had a role; every page and report says so."""
    assets: tuple[AssetRule, ...] = ()

    def __post_init__(self) -> None:
        missing = [gate for gate in GATES if gate not in self.gates]
        if missing:
            raise InvalidValueError(
                f"gates: {', '.join(missing)} must be listed, even if they are off"
            )
        for gate, rule in self.gates.items():
            if rule.overridable and gate not in OVERRIDABLE:
                raise InvalidValueError(f"gates.{gate}: only replay may be overridden")
        for gate, stages in _ALWAYS.items():
            rule = self.gates[gate]
            if (
                not set(stages) <= set(rule.stages)
                or rule.on_fail != "block"
                or rule.on_unjudged != "block"
            ):
                raise InvalidValueError(f"gates.{gate}: must block before {', '.join(stages)}")
        for place, entry in enumerate(self.assets):
            try:
                _change_policy(self, entry.set)
            except msgspec.ValidationError as error:
                raise InvalidValueError(f"assets[{place}].set: {error}") from error

    @property
    def digest(self) -> str:
        """The digest of the whole policy."""
        return digest(self)


def policy_for(policy: ReleasePolicy, asset: str, kind: AssetKind | None) -> ReleasePolicy:
    """Return a policy as it applies to an asset: with the first matching entry of ``assets``."""
    for rule in policy.assets:
        if rule.fits(asset, kind):
            return _change_policy(policy, rule.set)
    return policy


def merge_documents(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return a policy document with changes; sections are merged field by field."""
    found = dict(base)
    for name, value in changes.items():
        known = found.get(name)
        is_section = isinstance(known, dict) and isinstance(value, dict)
        found[name] = {**known, **value} if is_section else value  # type: ignore[dict-item]
    return found


def _change_policy(policy: ReleasePolicy, changes: Mapping[str, object]) -> ReleasePolicy:
    plain = msgspec.to_builtins(msgspec.structs.replace(policy, assets=()))
    return msgspec.convert(merge_documents(plain, changes), ReleasePolicy)


def can_block(rule: GateRule) -> bool:
    """Whether a gate can ever block a step."""
    return bool(rule.stages) and "block" in (rule.on_fail, rule.on_unjudged)


def waivable_gates(policy: ReleasePolicy) -> tuple[Gate, ...]:
    """Return the gates that a person may waive under a policy."""
    return tuple(g for g, rule in policy.gates.items() if rule.overridable and can_block(rule))


def policy_from(value: object) -> ReleasePolicy:
    """Read a policy from a user; raise msgspec.ValidationError if it is invalid."""
    return msgspec.convert(value, ReleasePolicy)


def recorded_policy(document: object) -> ReleasePolicy:
    """Read a policy from the ledger; fields that this build does not know are ignored.

    Raises NewerFormatError for a version that only a newer build knows.
    """
    version = document.get("gatemark_release") if isinstance(document, dict) else None
    if isinstance(version, int) and version > 1:
        name = f"gatemark.release-policy/{version}"
        raise NewerFormatError(f"the release policy {newer_format(name)}")
    return convert_stored(document, ReleasePolicy)
