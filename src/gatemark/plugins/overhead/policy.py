"""The rules of a guard-overhead policy.

All settings and overrides are part of the policy and its digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Final

import msgspec

from gatemark.core.policy import Against, Policy, Rule, Setting, Severity
from gatemark.core.rules import RulesVersions
from gatemark.plugins.overhead.measure import IMPROVEMENT, OVERHEAD, P95, WORST
from gatemark.plugins.overhead.options import OverheadOptions, find_profile_value, resolve_settings
from gatemark.plugins.overhead.settings import OverheadSettings

OVERHEAD_RULES: Final = RulesVersions("overhead")
RULES_SETTING: Final = "overhead_rules"
"""The setting of a policy that names the version of its rules."""
INTERVAL_WINDOWS: Final = 8
"""Minimum number of windows for a verdict by interval."""
DEFECTS: Final = "pairing_defect_count"
LATENCY: Final = "latency_overhead"
MEMORY: Final = "memory_overhead"
INSTALL: Final = "install_ms"
CHANGED: Final = "changed_window_count"
UNSEEN: Final = "unseen_overhead"
WINDOWS: Final = "window_count"
MISSING_TOKENS: Final = "missing_token_count"
NOISE: Final = "noise_floor"
REPEAT: Final = "repeat_floor"
AXES: Final = {
    "quality": (OVERHEAD, "budget"),
    "latency": (LATENCY, "latency_budget"),
    "memory": (MEMORY, "memory_budget"),
    "install": (INSTALL, "install_budget"),
}
"""The number of each axis, and the setting that limits it."""


def build_policy(options: OverheadOptions) -> Policy:
    """Return the rules, with every setting and override alongside them."""
    settings = resolve_settings(options)
    return Policy(
        name="overhead",
        rules=tuple(_build_rules(settings, options)),
        settings={
            "profile": options.profile,
            RULES_SETTING: OVERHEAD_RULES.current,
            **msgspec.to_builtins(settings),
            **_state_overrides(options),
            "contract.ppl": "guarded / bare - 1 of exp(token-weighted mean loss); lower is better",
            "contract.accuracy": "bare - guarded share of correct answers; higher is better",
            "contract.version": 1,
        },
    )


def _build_rules(settings: OverheadSettings, options: OverheadOptions) -> Iterator[Rule]:
    is_interval = settings.mode == "interval"
    against: Against = "interval" if is_interval else "value"
    least = INTERVAL_WINDOWS if is_interval else 1
    yield Rule("overhead.pairing", DEFECTS, "<=", 0.0, severity="hold")
    yield Rule(
        "overhead.quality",
        OVERHEAD,
        "<=",
        settings.budget + settings.tolerance,
        against=against,
        min_n=least,
        on_unmeasured=settings.on_unmeasured,
    )
    # Too few windows hold the verdict even if the rule above may soft-pass.
    most = settings.improvement_max
    yield Rule("overhead.plausible", IMPROVEMENT, "<=", most, min_n=least, severity="hold")
    for rule_id, metric, bound in (
        ("overhead.tail_p95", P95, settings.tail_p95_max),
        ("overhead.tail_worst", WORST, settings.tail_worst_max),
        ("overhead.memory", MEMORY, settings.memory_budget),
        ("overhead.install", INSTALL, settings.install_budget),
    ):
        if bound is not None:
            yield Rule(rule_id, metric, "<=", bound)
    if settings.latency_budget is not None:
        # Time is noisy: only its interval shows whether it is within the budget.
        most = settings.latency_budget
        yield Rule("overhead.latency", LATENCY, "<=", most, against="interval")
    if not settings.observer_guards:
        yield Rule("overhead.acts", CHANGED, ">=", 1.0, severity="hold")
    if is_interval:
        yield Rule("overhead.unseen", UNSEEN, "<=", settings.budget, severity="hold")
    # Thin evidence holds what would pass; what is over the budget still fails.
    thin: Severity = "block" if settings.on_unmeasured == "fail" else "hold"
    yield Rule("overhead.windows", WINDOWS, ">=", float(settings.min_windows), severity=thin)
    yield Rule("overhead.tokens", MISSING_TOKENS, "<=", 0.0, severity=thin)
    if options.noise:
        yield Rule("overhead.noise", NOISE, "<=", settings.budget, severity="hold")
    if options.repeat:
        yield Rule("overhead.repeat", REPEAT, "<=", settings.budget, severity="hold")


def _state_overrides(options: OverheadOptions) -> dict[str, Setting]:
    documented: dict[str, Setting] = {}
    for override in options.overrides:
        name = f"override.{override.field}"
        documented[f"{name}.from"] = find_profile_value(options, override.field)
        documented[f"{name}.to"] = override.value
        for word in ("reason", "owner", "evidence"):
            if text := getattr(override, word):
                documented[f"{name}.{word}"] = text
        if override.expires_at is not None:
            documented[f"{name}.expires_at"] = override.expires_at.astimezone(UTC).isoformat()
    return documented
