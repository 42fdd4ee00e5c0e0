"""The report document of guard overhead, made from measurements and verdict."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.evidence.exam import ExamReport
from gatemark.exams.overhead.document import (
    NAME,
    Auto,
    Axes,
    Axis,
    FindingPart,
    GuardOverhead,
    IntervalPart,
    MetaPart,
    Noise,
    OverheadReport,
    PolicyProvenance,
    Tail,
    ToldOverride,
    Validation,
    WorstWindow,
)
from gatemark.exams.overhead.measure import (
    BARE,
    DETECTABLE,
    GUARDED,
    OVERHEAD,
    P95,
    WORSE_RATE,
    WORST,
)
from gatemark.exams.overhead.policy import (
    LATENCY,
    MEMORY,
    PROFILES,
    OverheadOptions,
    OverheadSettings,
    loosens,
    resolve,
)
from gatemark.exams.overhead.views import Facts

Numbers = dict[str, Measurement]

PASSED_RULES: Final = (
    "overhead.pairing",
    "overhead.quality",
    "overhead.plausible",
    "overhead.noise",
)
"""What ``passed`` rests on: the budget, and every rule that says whether its number counts."""


def summary_document(
    options: OverheadOptions,
    policy: Policy,
    report: ExamReport,
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """The whole report as plain values."""
    facts: Facts = report.facts["overhead"]
    settings = resolve(options)
    numbers = {number.name: number for number in report.measurements}
    findings = {finding.rule: finding for finding in verdict.findings}
    quality = findings.get("overhead.quality")
    # Only what could not be measured may pass softly; a measured cost never does.
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
        resolved_policy=msgspec.to_builtins(policy),
        policy_provenance=PolicyProvenance(
            policy_digest=policy.digest,
            profile=options.profile,
            overrides=_overrides(options, settings),
            canonical_form="RFC 8785",
            hash="SHA-256",
        ),
        auto=Auto(tier=options.profile, policy_digest=policy.digest),
        policy_digest=policy.digest,
        findings=tuple(_finding(finding) for finding in verdict.findings),
        blockers=verdict.blockers,
        caveats=verdict.caveats,
        checks=evidence.checks,
    )
    return msgspec.to_builtins(document)  # type: ignore[no-any-return]


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
        interval_reason=None if overhead.interval else _no_interval(overhead),
        windows=facts.windows,
        tokens=facts.weight if value is not None and not is_accuracy else None,
        detectable_overhead=numbers[DETECTABLE].value,
        tail=Tail(
            unit="accuracy" if is_accuracy else "nats",
            p95_shift=numbers[P95].value,
            worst_shift=numbers[WORST].value,
            worse_window_rate=numbers[WORSE_RATE].value,
            worst=tuple(
                WorstWindow(
                    window_id=worst.window_id,
                    bare=worst.bare,
                    guarded=worst.guarded,
                    shift=worst.shift,
                )
                for worst in facts.worst
            ),
        ),
        noise=_noise(facts),
        checks=states,
        errors=facts.defects,
        warnings=overhead.caveats,
        schedule_digest=facts.schedule,
    )


def _interval(overhead: Measurement, facts: Facts) -> IntervalPart | None:
    found = overhead.interval
    if found is None:
        return None
    return IntervalPart(
        low=found.low,
        high=found.high,
        level=found.level,
        method=found.method,
        seed=facts.resampling.seed,
        resamples=facts.resampling.resamples,
    )


def _no_interval(overhead: Measurement) -> str:
    return overhead.reason or next(iter(overhead.caveats), "no interval was found")


def _noise(facts: Facts) -> Noise:
    found = facts.noise
    if found is None:
        return Noise(given=False, overhead=None, floor=None, reason="no second bare run was given")
    return Noise(given=True, overhead=facts.noise_overhead, floor=found.value, reason=found.reason)


def _axes(
    facts: Facts, settings: OverheadSettings, numbers: Numbers, findings: dict[str, Finding]
) -> Axes:
    bare, guarded = facts.spent.bare, facts.spent.guarded
    quality = _axis(numbers[OVERHEAD], settings.budget, findings.get("overhead.quality"))
    latency = _axis(numbers[LATENCY], settings.latency_budget, findings.get("overhead.latency"))
    memory = _axis(numbers[MEMORY], settings.memory_budget, findings.get("overhead.memory"))
    return Axes(
        quality=quality,
        latency=msgspec.structs.replace(latency, bare=bare, guarded=guarded),
        memory=msgspec.structs.replace(memory, bare=bare, guarded=guarded),
    )


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
    )


def _overrides(options: OverheadOptions, settings: OverheadSettings) -> tuple[ToldOverride, ...]:
    base = PROFILES[options.profile]
    return tuple(
        ToldOverride(
            field=override.field,
            profile_value=getattr(base, override.field),
            value=override.value,
            loosens=loosens(base, settings, override.field),
            reason=override.reason,
            owner=override.owner,
            evidence=override.evidence,
            expires_at=override.expires_at.isoformat() if override.expires_at else None,
        )
        for override in options.overrides
    )


def _finding(finding: Finding) -> FindingPart:
    return FindingPart(
        rule=finding.rule,
        metric=finding.metric,
        verdict=finding.verdict,
        severity=finding.severity,
        against=finding.against,
        op=finding.op,
        bound=finding.bound,
        observed=finding.observed,
        n=finding.n,
        reason=finding.reason,
    )
