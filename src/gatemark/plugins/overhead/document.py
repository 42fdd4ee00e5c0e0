"""The types of the guard-overhead report.

They are closed: a report has no other keys.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from gatemark.core.policy import FindingVerdict, Outcome, Setting
from gatemark.plugins.overhead.arms import Defect
from gatemark.plugins.overhead.measure_costs import ArmCost
from gatemark.plugins.overhead.settings import Mode

NAME: Final = "gatemark.overhead-report/1"


class _Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the report; other keys are refused."""


class IntervalPart(_Closed, frozen=True):
    """The interval of the overhead, and its method."""

    low: float
    high: float
    level: float
    method: str
    seed: int
    resamples: int


class WorstWindow(_Closed, frozen=True):
    """A window with one of the largest shifts."""

    window_id: str
    bare: float
    guarded: float
    shift: float


class Tail(_Closed, frozen=True):
    """The largest shifts, which a mean hides: nats of loss, or drops of accuracy."""

    unit: str
    p95_shift: float | None
    worst_shift: float | None
    worse_window_rate: float | None
    worst: tuple[WorstWindow, ...]


class Noise(_Closed, frozen=True):
    """A second bare run against the first: the noise of the measurement."""

    given: bool
    overhead: float | None
    floor: float | None
    reason: str | None


class GuardOverhead(_Closed, frozen=True):
    """The measured cost. Perplexity fields are null for accuracy, and vice versa."""

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
    repeat: Noise | None = None


class Axis(_Closed, frozen=True):
    """Overhead and budget of quality, latency or memory."""

    state: Literal["pass", "fail", "inconclusive", "soft_pass", "not gated", "not measured"]
    overhead: float | None
    low: float | None
    high: float | None
    budget: float | None
    reason: str | None
    bare: ArmCost | None = None
    guarded: ArmCost | None = None


class Axes(_Closed, frozen=True):
    """The axes; ``install`` is in milliseconds, and present only if it was measured or gated."""

    quality: Axis
    latency: Axis
    memory: Axis
    install: Axis | None = None


class GuardPart(_Closed, frozen=True):
    """One guard alone: the relative increase in time, and the shift in nats or drop of accuracy."""

    name: str
    windows: int
    latency_overhead: float
    shift: float | None


class Validation(_Closed, frozen=True):
    """The flag that other tools read."""

    guard_overhead_acceptable: bool


class ArmPart(_Closed, frozen=True):
    """One arm: its first line, and the digest of its file."""

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
    """Both arms; seeds and device are null if the arms differ."""

    seeds: dict[str, int | None] | None
    device: str | None
    bare: ArmPart
    guarded: ArmPart
    noise: ArmPart | None
    costs: CostsPart | None
    repeat: ArmPart | None = None


class StatedOverride(_Closed, frozen=True):
    """One override, with the value of the profile."""

    field: str
    profile_value: Setting
    value: Setting
    loosens: bool
    reason: str
    owner: str
    evidence: str
    expires_at: str | None


class PolicyProvenance(_Closed, frozen=True):
    """Profile, overrides and digest of the policy."""

    policy_digest: str
    profile: str
    overrides: tuple[StatedOverride, ...]
    canonical_form: Literal["RFC 8785"]
    hash: Literal["SHA-256"]


class Auto(_Closed, frozen=True):
    """Profile and policy digest, as other tools expect them."""

    tier: str
    policy_digest: str


class FindingPart(_Closed, frozen=True):
    """The finding of one rule."""

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
    remedies: tuple[str, ...] = ()
    guards: tuple[GuardPart, ...] = ()
