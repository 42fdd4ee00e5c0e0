"""The report of guard overhead as types: what is not named here has no place in a report."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from gatemark.core.policy import FindingVerdict, Outcome
from gatemark.exams.overhead.arms import Defect
from gatemark.exams.overhead.costs import ArmCost
from gatemark.exams.overhead.policy import Mode

NAME: Final = "gatemark.overhead-report/1"


class _Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the report: every key named, no other allowed."""


class IntervalPart(_Closed, frozen=True):
    """An interval of the overhead and how it was found."""

    low: float
    high: float
    level: float
    method: str
    seed: int
    resamples: int


class WorstWindow(_Closed, frozen=True):
    """A window that the guards hurt most."""

    window_id: str
    bare: float
    guarded: float
    shift: float


class Tail(_Closed, frozen=True):
    """What the mean hides. Shifts are nats of loss, or drops of accuracy."""

    unit: str
    p95_shift: float | None
    worst_shift: float | None
    worse_window_rate: float | None
    worst: tuple[WorstWindow, ...]


class Noise(_Closed, frozen=True):
    """A second bare run against the first: how much the measurement moves by itself."""

    given: bool
    overhead: float | None
    floor: float | None
    reason: str | None


class GuardOverhead(_Closed, frozen=True):
    """The measured cost. Perplexity fields are null for accuracy, and the other way round."""

    metric_kind: str | None
    direction: Literal["lower_is_better", "higher_is_better"] | None
    basis: Literal["ratio", "delta_pp"] | None
    bare_ppl: float | None
    guarded_ppl: float | None
    bare_accuracy: float | None
    guarded_accuracy: float | None
    overhead_ratio: float | None
    overhead_percent: float | None
    delta_pp: float | None
    overhead: float | None
    overhead_threshold: float
    threshold_percent: float
    tolerance: float
    mode: Mode
    evaluated: bool
    passed: bool
    interval: IntervalPart | None
    interval_reason: str | None
    windows: int
    tokens: int | None
    detectable_overhead: float | None
    tail: Tail
    noise: Noise
    checks: dict[str, FindingVerdict]
    errors: tuple[Defect, ...]
    warnings: tuple[str, ...]
    schedule_digest: str | None


class Axis(_Closed, frozen=True):
    """One of quality, latency and memory: its overhead and budget, or that there is none."""

    state: Literal["pass", "fail", "inconclusive", "soft_pass", "not gated", "not measured"]
    overhead: float | None
    low: float | None
    high: float | None
    budget: float | None
    reason: str | None
    bare: ArmCost | None = None
    guarded: ArmCost | None = None


class Axes(_Closed, frozen=True):
    """The three axes, apart."""

    quality: Axis
    latency: Axis
    memory: Axis


class Validation(_Closed, frozen=True):
    """The flag that other tools read."""

    guard_overhead_acceptable: bool


class ArmPart(_Closed, frozen=True):
    """One arm: what its first line says, and the digest of its file."""

    file: str
    digest: str | None
    metric_kind: str | None
    seeds: dict[str, int | None] | None
    device: str | None
    snapshot_hash: str | None
    plan: dict[str, int] | None
    guards: tuple[str, ...] | None
    windows: int


class CostsPart(_Closed, frozen=True):
    """The file of recorded time and memory."""

    file: str
    digest: str


class MetaPart(_Closed, frozen=True):
    """Seeds and device: once where both arms agree, null where they do not, and per arm."""

    seeds: dict[str, int | None] | None
    device: str | None
    bare: ArmPart
    guarded: ArmPart
    noise: ArmPart | None
    costs: CostsPart | None


class ToldOverride(_Closed, frozen=True):
    """An override as the page lists it."""

    field: str
    profile_value: float | int | str | bool | None
    value: float | int | str | bool | None
    loosens: bool
    reason: str
    owner: str
    evidence: str
    expires_at: str | None


class PolicyProvenance(_Closed, frozen=True):
    """Where the policy came from, and the digest that names all of it."""

    policy_digest: str
    profile: str
    overrides: tuple[ToldOverride, ...]
    canonical_form: Literal["RFC 8785"]
    hash: Literal["SHA-256"]


class Auto(_Closed, frozen=True):
    """The source's block of the same name: the tier and the digest once more."""

    tier: str
    policy_digest: str


class FindingPart(_Closed, frozen=True):
    """How one rule fared."""

    rule: str
    metric: str
    verdict: FindingVerdict
    severity: str
    against: str
    op: str
    bound: float
    observed: float | None
    n: int
    reason: str


class OverheadReport(_Closed, frozen=True):
    """The whole report. ``resolved_policy`` hashes to ``policy_digest``."""

    schema: Literal["gatemark.overhead-report/1"]
    verdict: Outcome
    score: float | None
    guard_overhead: GuardOverhead
    axes: Axes
    validation: Validation
    meta: MetaPart
    resolved_policy: dict[str, Any]
    policy_provenance: PolicyProvenance
    auto: Auto
    policy_digest: str
    findings: tuple[FindingPart, ...]
    blockers: tuple[str, ...]
    caveats: tuple[str, ...]
    checks: dict[str, str]
    result_id: str | None = None
