"""The guard-overhead report: its types, and how it is made from measurements and a verdict.

The types are closed: a report has no other keys.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from gatemark.core.canonical import plain
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, FindingVerdict, Outcome, Policy, Setting, Verdict
from gatemark.evidence.exam import ExamReport
from gatemark.exams.overhead.arms import Defect
from gatemark.exams.overhead.costs import NOT_MEASURED, ArmCost, OverheadCosts, unknown_costs
from gatemark.exams.overhead.measure import (
    BARE,
    DETECTABLE,
    GUARDED,
    OVERHEAD,
    P95,
    WORSE_RATE,
    WORST,
    Basis,
    Resampling,
)
from gatemark.exams.overhead.policy import (
    AXES,
    Mode,
    OverheadOptions,
    OverheadSettings,
    is_loosened,
    profile_value,
    resolve,
)
from gatemark.exams.overhead.window_numbers import SecondRun

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


class ArmsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the arms besides their windows; ``second_defects`` are those of second runs."""

    kind: str | None = None
    arms: dict[str, ArmPart] = {}
    defects: tuple[Defect, ...] = ()
    second_defects: dict[SecondRun, tuple[Defect, ...]] = {}
    expected: int = 0
    schedule: str | None = None
    spent: OverheadCosts = unknown_costs(NOT_MEASURED)
    costs: CostsPart | None = None
    repeated_contents: int = 0


class Facts(ArmsHeader, frozen=True, kw_only=True):
    """What the report and the figures need besides the measurements.

    ``second_runs`` has, for each one, how far it is off, and its overhead.
    """

    basis: Basis | None
    windows: int
    weight: int
    worst: tuple[WorstWindow, ...]
    resampling: Resampling
    second_runs: dict[SecondRun, tuple[Measurement, float | None]]


Numbers = dict[str, Measurement]

PASSED_RULES: Final = (
    "overhead.pairing",
    "overhead.quality",
    "overhead.plausible",
    "overhead.acts",
    "overhead.unseen",
    "overhead.windows",
    "overhead.tokens",
    "overhead.noise",
    "overhead.repeat",
)
"""The rules that ``passed`` depends on."""


def summary_document(
    options: OverheadOptions,
    policy: Policy,
    report: ExamReport,
    *,
    evidence: Evidence,
    verdict: Verdict,
    remedies: tuple[str, ...],
) -> dict[str, object]:
    """Return the report as plain values."""
    facts: Facts = report.facts["overhead"]
    settings = resolve(options)
    numbers = report.by_name
    findings = {finding.rule: finding for finding in verdict.findings}
    quality = findings.get("overhead.quality")
    # Only an unmeasured overhead may soft-pass, never a measured one.
    is_soft = (
        quality is not None
        and quality.verdict == "soft_pass"
        and numbers[OVERHEAD].value is None
        and verdict.outcome != "fail"
    )
    document = OverheadReport(
        schema=NAME,
        verdict=verdict.outcome,
        score=report.score.value if report.score else None,
        guard_overhead=_guard_overhead(facts, settings, numbers, verdict),
        axes=_axes(facts, settings, numbers, findings),
        validation=Validation(guard_overhead_acceptable=verdict.outcome == "pass" or is_soft),
        meta=_meta(facts),
        resolved_policy=plain(policy),
        policy_provenance=PolicyProvenance(
            policy_digest=policy.digest,
            profile=options.profile,
            overrides=_overrides(options),
            canonical_form="RFC 8785",
            hash="SHA-256",
        ),
        auto=Auto(tier=options.profile, policy_digest=policy.digest),
        policy_digest=policy.digest,
        findings=msgspec.convert(verdict.findings, tuple[FindingPart, ...], from_attributes=True),
        blockers=verdict.blockers,
        caveats=verdict.caveats,
        checks=evidence.checks,
        remedies=remedies,
        guards=msgspec.convert(facts.spent.guards, tuple[GuardPart, ...], from_attributes=True),
    )
    report_fields: dict[str, dict[str, object]] = msgspec.to_builtins(document)
    _leave_out_unused(report_fields)
    return dict(report_fields)


def _leave_out_unused(fields: dict[str, dict[str, object]]) -> None:
    """Drop unused keys of later versions, so that older reports stay as they were."""
    for name in ("remedies", "guards"):
        if not fields[name]:
            del fields[name]
    if fields["meta"]["repeat"] is None:
        del fields["guard_overhead"]["repeat"], fields["meta"]["repeat"]
    axes: dict[str, Any] = fields["axes"]
    if axes["install"] is None:
        del axes["install"]
    for axis in (axes["latency"], axes["memory"]):
        for arm in (axis["bare"], axis["guarded"]):
            for name in ("memory_source", "peak_rss_bytes"):
                if arm[name] is None:
                    del arm[name]


def _guard_overhead(
    facts: Facts, settings: OverheadSettings, numbers: Numbers, verdict: Verdict
) -> GuardOverhead:
    overhead = numbers[OVERHEAD]
    is_accuracy = facts.kind == "accuracy"
    value = overhead.value
    bare, guarded = numbers[BARE].value, numbers[GUARDED].value
    ratio = 1 + value if value is not None and not is_accuracy else None
    states = {finding.rule: finding.verdict for finding in verdict.findings}
    return GuardOverhead(
        metric_kind=facts.kind,
        direction=None
        if facts.kind is None
        else "higher_is_better"
        if is_accuracy
        else "lower_is_better",
        basis=None if facts.kind is None else "delta_pp" if is_accuracy else "ratio",
        bare_ppl=None if is_accuracy else bare,
        guarded_ppl=None if is_accuracy else guarded,
        bare_accuracy=bare if is_accuracy else None,
        guarded_accuracy=guarded if is_accuracy else None,
        overhead_ratio=ratio,
        overhead_percent=None if ratio is None else (ratio - 1) * 100,
        delta_pp=-100 * value if value is not None and is_accuracy else None,
        overhead=value,
        overhead_threshold=settings.budget,
        threshold_percent=settings.budget * 100,
        tolerance=settings.tolerance,
        mode=settings.mode,
        evaluated=value is not None,
        passed=all(states.get(rule, "pass") == "pass" for rule in PASSED_RULES),
        interval=_interval(overhead, facts),
        interval_reason=None
        if overhead.interval
        else overhead.reason or next(iter(overhead.caveats), "no interval was found"),
        windows=facts.windows,
        tokens=facts.weight if value is not None and not is_accuracy else None,
        detectable_overhead=numbers[DETECTABLE].value,
        tail=Tail(
            unit="accuracy" if is_accuracy else "nats",
            p95_shift=numbers[P95].value,
            worst_shift=numbers[WORST].value,
            worse_window_rate=numbers[WORSE_RATE].value,
            worst=facts.worst,
        ),
        noise=_second_run(facts, "noise")
        or Noise(given=False, overhead=None, floor=None, reason="no second bare run was given"),
        checks=states,
        errors=facts.defects,
        warnings=overhead.caveats,
        schedule_digest=facts.schedule,
        repeat=_second_run(facts, "repeat"),
    )


def _interval(overhead: Measurement, facts: Facts) -> IntervalPart | None:
    found = overhead.interval
    if found is None:
        return None
    drawn = facts.resampling
    return IntervalPart(**msgspec.structs.asdict(found), seed=drawn.seed, resamples=drawn.resamples)


def _second_run(facts: Facts, role: SecondRun) -> Noise | None:
    if role not in facts.second_runs:
        return None
    found, overhead = facts.second_runs[role]
    return Noise(given=True, overhead=overhead, floor=found.value, reason=found.reason)


def _axes(
    facts: Facts, settings: OverheadSettings, numbers: Numbers, findings: dict[str, Finding]
) -> Axes:
    axes = {
        axis: _axis(numbers[metric], getattr(settings, budget), findings.get(f"overhead.{axis}"))
        for axis, (metric, budget) in AXES.items()
        if metric in numbers
    }
    for axis in ("latency", "memory"):
        spent = {"bare": facts.spent.bare, "guarded": facts.spent.guarded}
        axes[axis] = msgspec.structs.replace(axes[axis], **spent)
    return Axes(**axes)


def _axis(number: Measurement, budget: float | None, finding: Finding | None) -> Axis:
    state = "not measured" if number.value is None else "not gated"
    if finding is not None:
        state = "inconclusive" if finding.verdict == "waived" else finding.verdict
    interval = number.interval
    return Axis(
        state=state,  # type: ignore[arg-type]
        overhead=number.value,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        budget=budget,
        reason=number.reason,
    )


def _meta(facts: Facts) -> MetaPart:
    bare, guarded = facts.arms["bare"], facts.arms["guarded"]
    return MetaPart(
        seeds=bare.seeds if bare.seeds == guarded.seeds else None,
        device=bare.device if bare.device == guarded.device else None,
        bare=bare,
        guarded=guarded,
        noise=facts.arms.get("noise"),
        costs=facts.costs,
        repeat=facts.arms.get("repeat"),
    )


def _overrides(options: OverheadOptions) -> tuple[StatedOverride, ...]:
    return tuple(
        StatedOverride(
            **msgspec.structs.asdict(override)
            | {"expires_at": override.expires_at.isoformat() if override.expires_at else None},
            profile_value=profile_value(options, override.field),
            loosens=is_loosened(options, override.field),
        )
        for override in options.overrides
    )
