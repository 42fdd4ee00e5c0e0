"""Judge one closed canary window.

(1) A broken invariant is a breach. (2) A wrong split of traffic, (3) an unchecked invariant or
samples that only the canary lost, or (4) too few samples leave the window undecided. (5) Then the
judge decides on each metric, and the worst verdict counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from gatemark.release.lifecycle.model.nouns import (
    MetricState,
    MetricVerdict,
    SampleMoments,
    WindowState,
)
from gatemark.release.lifecycle.model.release_policy import CanaryRules, Judge, MetricRule
from gatemark.release.lifecycle.model.state import CanaryWindow
from gatemark.statistics.sequential import (
    ArmMoments,
    ArmPair,
    measure_harm,
    mixture_variance,
    sample_ratio,
)

KEPT_MIN: Final = 0.9
"""Share of the baseline's samples per key that the canary must have, beyond chance."""


class CanaryVerdict(msgspec.Struct, frozen=True):
    """The verdict on one window, and why."""

    state: WindowState
    reasons: tuple[str, ...]
    metrics: tuple[MetricVerdict, ...] = ()
    is_ratio_off: bool = False
    is_pooled: bool = False
    """Whether only samples are missing; they are pooled with those of the next window."""


def judge_window(
    rules: CanaryRules,
    history: Sequence[CanaryWindow],
    window: CanaryWindow,
    *,
    has_baseline: bool,
    pool: Sequence[CanaryWindow] = (),
) -> CanaryVerdict:
    """Judge a window, given those before it.

    ``pool`` are the windows since the last clean one; their samples are added to those of this
    window.
    """
    broken = [
        f"invariant {name} was broken {violations} times in {checked}"
        for name, (checked, violations) in sorted(window.invariants.items())
        if violations
    ]
    if broken:
        return CanaryVerdict("breach", tuple(broken))
    if not has_baseline:
        return CanaryVerdict("inconclusive", ("there is no baseline to compare with",))
    off = _check_ratio(rules, [*history, window])
    if off is not None:
        return CanaryVerdict("inconclusive", (off,), is_ratio_off=True)
    open_ends = _open_ends(rules, window) + _find_lost_samples(rules, [*history, window])
    few = _find_few_samples(rules, [*pool, window])
    judge = _JUDGES[rules.judge]
    verdicts = tuple(
        judge(rules, name, rule, [*history, window]) for name, rule in sorted(rules.metrics.items())
    )
    reasons = [f"{v.metric}: {v.reason}" for v in verdicts if v.state in ("warn", "breach")]
    states = {verdict.state for verdict in verdicts}
    # Certain harm counts even if something else is still undecided.
    if "breach" in states:
        return CanaryVerdict("breach", tuple(reasons), verdicts)
    if "warn" in states:
        return CanaryVerdict("warn", tuple(reasons), verdicts)
    unjudged = [f"{v.metric}: {v.reason}" for v in verdicts if v.state == "unjudged"]
    if open_ends or few or unjudged:
        is_pooled = not open_ends and bool(few)
        reasons = [*open_ends, *few, *unjudged]
        return CanaryVerdict("inconclusive", tuple(reasons), verdicts, is_pooled=is_pooled)
    return CanaryVerdict("clean", (f"{len(verdicts)} metrics show no harm",), verdicts)


def _check_ratio(rules: CanaryRules, windows: Sequence[CanaryWindow]) -> str | None:
    seen = [window.traffic for window in windows if window.traffic is not None]
    canary = sum(traffic.canary for traffic in seen)
    baseline = sum(traffic.baseline for traffic in seen)
    ratio = sample_ratio(canary, baseline)
    if ratio.log_e_value < -math.log(rules.ratio_alpha):
        return None
    return (
        f"traffic is split {canary} to {baseline} where it should be even "
        f"(chi-square p {ratio.p_value:.2g})"
    )


def _open_ends(rules: CanaryRules, window: CanaryWindow) -> list[str]:
    found = []
    if window.traffic is None:
        found.append("no traffic counts, so that the split cannot be checked")
    for name in rules.invariants:
        checked, _ = window.invariants.get(name, (0, 0))
        if checked == 0:
            found.append(f"invariant {name} was not checked")
    return found


def _find_lost_samples(rules: CanaryRules, windows: Sequence[CanaryWindow]) -> list[str]:
    """Return the metrics for which the canary has clearly fewer samples per key than the baseline.

    Requests that crash before they are measured would otherwise leave the denominator.
    """
    found = []
    for name in rules.metrics:
        samples, keys = {"canary": 0, "baseline": 0}, {"canary": 0, "baseline": 0}
        for window in windows:
            moments = window.moments.get(name, {})
            if window.traffic is not None and len(moments) == len(samples):
                keys["canary"] += window.traffic.canary
                keys["baseline"] += window.traffic.baseline
                for arm, seen in moments.items():
                    samples[arm] += seen.n
        if not all(keys.values()):
            continue
        own, other = (samples[arm] / keys[arm] for arm in ("canary", "baseline"))
        ratio = sample_ratio(
            samples["canary"], samples["baseline"], keys["canary"] / sum(keys.values())
        )
        if own < KEPT_MIN * other and ratio.log_e_value >= -math.log(rules.ratio_alpha):
            found.append(
                f"{name}: the canary has {own:.3g} samples per key, the baseline {other:.3g}; "
                "requests that crashed may be missing"
            )
    return found


def _find_few_samples(rules: CanaryRules, windows: Sequence[CanaryWindow]) -> list[str]:
    found = []
    for name in rules.metrics:
        for arm in ("canary", "baseline"):
            seen = (window.moments.get(name, {}).get(arm) for window in windows)
            n = sum(moments.n for moments in seen if moments is not None)
            if n < rules.min_samples:
                found.append(f"{name}: {arm} must have {rules.min_samples} samples, got {n}")
    return found


def _pair_arms(name: str, windows: Sequence[CanaryWindow]) -> list[ArmPair]:
    pairs = []
    for window in windows:
        arms = window.moments.get(name, {})
        if "canary" in arms and "baseline" in arms:
            pairs.append(
                ArmPair(_convert_moments(arms["canary"]), _convert_moments(arms["baseline"]))
            )
    return pairs


def _convert_moments(moments: SampleMoments) -> ArmMoments:
    return ArmMoments(moments.n, moments.sum, moments.sum_squares)


def _judge_sequential(
    rules: CanaryRules, name: str, rule: MetricRule, windows: Sequence[CanaryWindow]
) -> MetricVerdict:
    """Judge all windows of the rollout so far; the error rates hold for the whole rollout."""
    count = len(rules.metrics)
    breach, warn = rules.breach_alpha / count, rules.warn_alpha / count
    harm = measure_harm(
        _pair_arms(name, windows),
        towards=1 if rule.harm == "up" else -1,
        tolerance=rule.tolerance,
        rho=mixture_variance(rules.tuned_for, breach),
        alpha=warn,
    )
    if isinstance(harm, str):
        return MetricVerdict(metric=name, state="unjudged", reason=harm)
    shown = f"harm {harm.difference:.4g} (n={harm.canary_n}+{harm.baseline_n})"
    state: MetricState = "ok"
    reason = shown
    levels: tuple[tuple[MetricState, float], ...] = (("breach", breach), ("warn", warn))
    for level, alpha in levels:
        if harm.log_e_value >= -math.log(alpha):
            state = level
            words = f"{shown}, log e-value {harm.log_e_value:.2f} must stay below"
            reason = f"{words} {-math.log(alpha):.2f}"
            break
    else:
        if rule.noninferior is not None and harm.upper > rule.noninferior:
            state = "unjudged"
            reason = f"{shown} may be up to {harm.upper:.4g}, must be <= {rule.noninferior:g}"
    return MetricVerdict(
        metric=name,
        state=state,
        reason=reason,
        statistic=harm.log_e_value,
        difference=harm.difference,
    )


def _judge_ranks(
    rules: CanaryRules, name: str, rule: MetricRule, windows: Sequence[CanaryWindow]
) -> MetricVerdict:
    """Compare the values of this window alone by ranks; every window is a new test."""
    from gatemark.statistics.rank_shift import MIN_VALUES, rank_shift  # noqa: PLC0415 - numpy

    arms = windows[-1].values.get(name, {})
    canary, baseline = arms.get("canary", ()), arms.get("baseline", ())
    if min(len(canary), len(baseline)) < MIN_VALUES:
        reason = f"needs {MIN_VALUES} single values per arm, got {len(canary)} and {len(baseline)}"
        return MetricVerdict(metric=name, state="unjudged", reason=reason)
    shift = rank_shift(canary, baseline, rules.rank_level)
    estimate, low = shift.estimate, shift.low
    if rule.harm == "down":
        estimate, low = -shift.estimate, -shift.high
    reason = f"shift towards harm {estimate:.4g}, at least {low:.4g}"
    state: MetricState = "ok"
    if low > rule.tolerance:
        state = "breach" if low > rules.rank_tolerance * abs(estimate) else "warn"
    return MetricVerdict(
        metric=name, state=state, reason=reason, statistic=low, difference=estimate
    )


def _judge_sigma(
    rules: CanaryRules, name: str, rule: MetricRule, windows: Sequence[CanaryWindow]
) -> MetricVerdict:
    """Compare the canary's mean in this window with the baseline arm's window means."""
    pairs = _pair_arms(name, windows)
    means = [pair.baseline.sum / pair.baseline.n for pair in pairs if pair.baseline.n]
    if len(means) < rules.sigma_min_windows:
        reason = f"needs {rules.sigma_min_windows} baseline windows, got {len(means)}"
        return MetricVerdict(metric=name, state="unjudged", reason=reason)
    last = pairs[-1].canary
    if last.n == 0:
        return MetricVerdict(metric=name, state="unjudged", reason="the canary has no samples")
    centre = math.fsum(means) / len(means)
    spread = math.sqrt(math.fsum((one - centre) ** 2 for one in means) / (len(means) - 1))
    gap = (last.sum / last.n - centre) * (1 if rule.harm == "up" else -1)
    if spread == 0:
        if gap == 0:
            return MetricVerdict(metric=name, state="ok", reason="constant", difference=0.0)
        reason = "the baseline never varies and the canary differs"
        degenerate: MetricState = "warn" if gap > rule.tolerance else "unjudged"
        return MetricVerdict(metric=name, state=degenerate, reason=reason, difference=gap)
    sigma = gap / spread
    state: MetricState = "ok"
    if gap > rule.tolerance:
        state = "breach" if sigma >= 3 else "warn" if sigma >= 2 else "ok"
    return MetricVerdict(
        metric=name,
        state=state,
        reason=f"{sigma:.2f} sigma towards harm over {len(means)} windows",
        statistic=sigma,
        difference=gap,
    )


_JUDGES: Final[
    dict[Judge, Callable[[CanaryRules, str, MetricRule, Sequence[CanaryWindow]], MetricVerdict]]
] = {"sequential": _judge_sequential, "mann_whitney": _judge_ranks, "sigma": _judge_sigma}
