"""Make the guard-overhead report from measurements and a verdict."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gatemark.core.canonical import plain
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, Policy, Verdict
from gatemark.evidence.exam import ExamReport
from gatemark.plugins.overhead.document import (
    NAME,
    Auto,
    Axes,
    Axis,
    FindingPart,
    GuardOverhead,
    GuardPart,
    IntervalPart,
    MetaPart,
    Noise,
    OverheadReport,
    PolicyProvenance,
    StatedOverride,
    Tail,
    Validation,
)
from gatemark.plugins.overhead.facts import Facts, Numbers
from gatemark.plugins.overhead.measure import (
    BARE,
    DETECTABLE,
    GUARDED,
    OVERHEAD,
    P95,
    WORSE_RATE,
    WORST,
)
from gatemark.plugins.overhead.options import (
    OverheadOptions,
    find_profile_value,
    is_loosened,
    resolve_settings,
)
from gatemark.plugins.overhead.policy import AXES
from gatemark.plugins.overhead.settings import OverheadSettings
from gatemark.plugins.overhead.window_numbers import SecondRun

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


def build_report(
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
    settings = resolve_settings(options)
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
        guard_overhead=_describe_overhead(facts, settings, numbers, verdict),
        axes=_describe_axes(facts, settings, numbers, findings),
        validation=Validation(guard_overhead_acceptable=verdict.outcome == "pass" or is_soft),
        meta=_describe_arms(facts),
        resolved_policy=plain(policy),
        policy_provenance=PolicyProvenance(
            policy_digest=policy.digest,
            profile=options.profile,
            overrides=_list_overrides(options),
            canonical_form="RFC 8785",
            hash="SHA-256",
        ),
        auto=Auto(tier=options.profile, policy_digest=policy.digest),
        policy_digest=policy.digest,
        findings=tuple(map(_describe_finding, verdict.findings)),
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
    """Drop the keys of parts that were neither measured nor asked for."""
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


def _describe_overhead(
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
        interval=_describe_interval(overhead, facts),
        interval_reason=None
        if overhead.interval
        else str(overhead.reason or next(iter(overhead.caveats), "no interval was found")),
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
        noise=_describe_second_run(facts, "noise")
        or Noise(given=False, overhead=None, floor=None, reason="no second bare run was given"),
        checks=states,
        errors=facts.defects,
        warnings=overhead.caveats,
        schedule_digest=facts.schedule,
        repeat=_describe_second_run(facts, "repeat"),
    )


def _describe_interval(overhead: Measurement, facts: Facts) -> IntervalPart | None:
    found = overhead.interval
    if found is None:
        return None
    drawn = facts.resampling
    return IntervalPart(**msgspec.structs.asdict(found), seed=drawn.seed, resamples=drawn.resamples)


def _describe_second_run(facts: Facts, role: SecondRun) -> Noise | None:
    if role not in facts.second_runs:
        return None
    found, overhead = facts.second_runs[role]
    return Noise(given=True, overhead=overhead, floor=found.value, reason=_write_reason(found))


def _describe_axes(
    facts: Facts, settings: OverheadSettings, numbers: Numbers, findings: dict[str, Finding]
) -> Axes:
    axes = {
        axis: _describe_axis(
            numbers[metric], getattr(settings, budget), findings.get(f"overhead.{axis}")
        )
        for axis, (metric, budget) in AXES.items()
        if metric in numbers
    }
    for axis in ("latency", "memory"):
        spent = {"bare": facts.spent.bare, "guarded": facts.spent.guarded}
        axes[axis] = msgspec.structs.replace(axes[axis], **spent)
    return Axes(**axes)


def _describe_finding(finding: Finding) -> FindingPart:
    fields = {name: getattr(finding, name) for name in FindingPart.__struct_fields__}
    return msgspec.convert({**fields, "reason": str(finding.reason)}, FindingPart)


def _write_reason(number: Measurement) -> str | None:
    return None if number.reason is None else str(number.reason)


def _describe_axis(number: Measurement, budget: float | None, finding: Finding | None) -> Axis:
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
        reason=_write_reason(number),
    )


def _describe_arms(facts: Facts) -> MetaPart:
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


def _list_overrides(options: OverheadOptions) -> tuple[StatedOverride, ...]:
    return tuple(
        StatedOverride(
            **msgspec.structs.asdict(override)
            | {"expires_at": override.expires_at.isoformat() if override.expires_at else None},
            profile_value=find_profile_value(options, override.field),
            loosens=is_loosened(options, override.field),
        )
        for override in options.overrides
    )
