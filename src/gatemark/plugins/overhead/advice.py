"""Explain a verdict in plain words, and what to do about one that is not a pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding, Verdict
from gatemark.plugins.overhead.facts import Facts, Numbers
from gatemark.plugins.overhead.measure import OVERHEAD
from gatemark.plugins.overhead.options import OverheadOptions, resolve_settings
from gatemark.plugins.overhead.policy import MISSING_TOKENS, UNSEEN
from gatemark.plugins.overhead.settings import OverheadSettings


def word_reasons(
    options: OverheadOptions, facts: Facts, numbers: Numbers, verdict: Verdict
) -> dict[str, str]:
    """Return plain words for the findings of failed rules, by rule."""
    open_findings = [one for one in verdict.findings if one.verdict in {"fail", "inconclusive"}]
    worded = {
        one.rule: _word_finding(one, resolve_settings(options), facts, numbers.get(one.metric))
        for one in open_findings
    }
    return {rule: text for rule, text in worded.items() if text is not None}


def _word_finding(
    finding: Finding, settings: OverheadSettings, facts: Facts, number: Measurement | None
) -> str | None:
    """Return the words of one finding; None leaves them as they are."""
    if number is None or number.value is None:
        return None
    unit = "points of accuracy" if facts.basis == "count" else "%"
    share, budget = f"{100 * number.value:.4g} {unit}", f"{100 * settings.budget:.4g} {unit}"
    windows = "1 window was" if facts.windows == 1 else f"{facts.windows:,} windows were"
    match finding.rule:
        case "overhead.quality" if finding.against == "value" and finding.observed is not None:
            return f"the guards cost {share}, the budget is {budget} (n={number.n})"
        case "overhead.windows":
            return f"{settings.min_windows:,} windows are needed, {windows} measured"
        case "overhead.tokens":
            return f"{settings.min_tokens:,} tokens are needed, {facts.weight:,} were measured"
        case "overhead.acts":
            return f"the guards changed nothing: {windows} the same in both arms"
        case "overhead.unseen":
            return (
                f"{windows} measured: too few to rule out rare damage, which may cost "
                f"{share}; the budget is {budget}"
            )
        case "overhead.noise" | "overhead.repeat":
            arm = "bare" if finding.rule == "overhead.noise" else "guarded"
            return (
                f"a second {arm} run differs from the first by up to {share}, "
                f"the budget is {budget}"
            )
        case "overhead.latency" if finding.observed is None:
            why = "; ".join(number.caveats) or "there is no interval"
            return f"the time cannot be judged by its budget: {why}"
        case "overhead.memory":
            return f"peak memory rose by {number.value:.2%}, the budget is {finding.bound:.2%}"
        case "overhead.install":
            return (
                f"switching the guards on took {number.value:,.4g} ms, "
                f"the budget is {finding.bound:,.4g} ms"
            )
        case _:
            return None


def find_remedies(
    options: OverheadOptions, facts: Facts, numbers: Numbers, verdict: Verdict
) -> tuple[str, ...]:
    """Return what to do about a verdict that is not a pass, from what was measured."""
    if verdict.outcome == "pass":
        return ()
    failed = {f.rule for f in verdict.findings if f.verdict in {"fail", "inconclusive"}}
    found = [*_advise_on_windows(resolve_settings(options), facts, numbers, failed)]
    if facts.defects:
        found.append(
            f"Run both arms again with the same plan, seeds, device and snapshot: "
            f"{facts.defects[0].check} does not hold."
        )
    if facts.worst and failed & {"overhead.quality", "overhead.tail_p95", "overhead.tail_worst"}:
        worst = ", ".join(f"{one.window_id} ({one.shift:+.3g})" for one in facts.worst[:3])
        found.append(f"Look at the windows that lost most: {worst}.")
        guards = facts.arms["guarded"].guards
        if guards and len(guards) > 1 and not facts.spent.guards:
            found.append(f"Find the guard that costs most: run {', '.join(guards)} one by one.")
    found.extend(_advise_on_guards(facts, failed))
    if "noise" not in facts.second_runs and failed & {"overhead.quality", "overhead.plausible"}:
        found.append(
            "Check that the bare arm is free of guards: give a second bare run with --noise."
        )
    for rule, text in _REMEDIES.items():
        if rule in failed:
            found.append(text)
    return tuple(found)


def _advise_on_guards(facts: Facts, failed: set[str]) -> Iterator[str]:
    """Yield the guard that costs most of the excess."""
    guards = facts.spent.guards
    if not guards:
        return
    harmed = [(one.shift, one) for one in guards if one.shift is not None]
    if harmed and failed & {"overhead.quality", "overhead.tail_p95", "overhead.tail_worst"}:
        shift, one = max(harmed, key=lambda pair: pair[0])
        unit = "points of accuracy" if facts.basis == "count" else "nats per token"
        shown = 100 * shift if facts.basis == "count" else shift
        yield f"Look at guard {one.name} first: alone it costs {shown:.3g} {unit}, the most of all."
    if "overhead.latency" in failed:
        one = max(guards, key=lambda found: found.latency_overhead)
        yield (
            f"Look at guard {one.name} first: alone it adds {one.latency_overhead:+.1%} to the "
            "time, the most of all."
        )


_REMEDIES: Final = {
    "overhead.acts": (
        "Check that the toggle switches the guards on. If they only observe, declare it: an "
        "override of observer_guards with a reason, an owner and evidence."
    ),
    "overhead.noise": (
        "Make the bare arm repeat: set every seed, use deterministic algorithms, and check that "
        "the guards come off."
    ),
    "overhead.repeat": "Check the guards for state that one pass leaves to the next.",
    "overhead.plausible": (
        "Check that both arms score the same tokens: guards rarely make a model this much better."
    ),
    "overhead.latency": (
        "Time on a machine without other load, or time more windows; then look at what the "
        "guards compute per window."
    ),
    "overhead.install": "Prepare what the guards need once, before they are switched on.",
    "overhead.memory": "Look for activations or copies of weights that the guards keep.",
}


def _advise_on_windows(
    settings: OverheadSettings, facts: Facts, numbers: Numbers, failed: set[str]
) -> Iterator[str]:
    """Yield how many windows or tokens would decide."""
    wanted = [settings.min_windows] if "overhead.windows" in failed else []
    unseen = numbers.get(UNSEEN)
    if "overhead.unseen" in failed and unseen is not None:
        yield from (f"Measure more windows: {caveat}." for caveat in unseen.caveats)
    overhead, interval = numbers[OVERHEAD].value, numbers[OVERHEAD].interval
    if "overhead.quality" in failed and overhead is not None and interval is not None:
        distance, half = abs(settings.budget - overhead), (interval.high - interval.low) / 2
        if interval.low <= settings.budget < interval.high and distance > 0:
            # Intervals shrink with the square root of the number of windows.
            wanted.append(math.ceil(facts.windows * (half / distance) ** 2))
    if wanted and max(wanted) > facts.windows:
        yield (
            f"Measure about {max(wanted):,} windows instead of {facts.windows:,}, "
            "the same ones in both arms."
        )
    missing = numbers.get(MISSING_TOKENS)
    if "overhead.tokens" in failed and missing is not None and missing.value:
        yield f"Measure {missing.value:,.0f} more tokens: use more or longer windows."
