"""Profiles, justified overrides, and the rules of a guard-overhead policy.

An override that loosens its profile needs a reason, an owner and a reference to evidence. All
settings and overrides are part of the policy and its digest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.core.policy import Against, OnUnmeasured, Policy, Rule, Setting, Severity
from gatemark.evidence.exam import file_option, option
from gatemark.evidence.settings_file import about, read_settings
from gatemark.exams.overhead.measure import IMPROVEMENT, OVERHEAD, P95, WORST

Mode = Literal["point", "interval"]
ProfileName = Literal["release", "ci", "dev"]

FIRST_RULES: Final = 1
SECOND_RULES: Final = 2
RULES: Final = 3
RulesVersion = Literal[1, 2, 3]
"""The version of the rules.

Version 1 took a looser profile in a pack without a reason, passed guards that change nothing, and
had no rule on damage that no window shows. Version 2 passed a single window, refused a loss of 0,
and judged latency by its value.
"""
SETTINGS_SINCE: Final = {
    "observer_guards": SECOND_RULES,
    "unseen_damage": SECOND_RULES,
    "min_tokens": RULES,
}
"""The first version of the rules that reads a setting."""
RELEASE_WINDOWS: Final = 200
RELEASE_TOKENS: Final = 10_000

MAX_BUDGET: Final = 0.5
MAX_COST_BUDGET: Final = 10.0
MAX_INSTALL_MS: Final = 1e9
MAX_TOLERANCE: Final = 1e-6
INTERVAL_WINDOWS: Final = 8
"""Minimum number of windows for a verdict by interval."""
MAX_POLICY_BYTES: Final = 1024 * 1024
STRICTEST: Final = "release"
PROFILE: Final = "profile"
"""The override that justifies a profile looser than ``release``."""
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


_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "budget": (0, MAX_BUDGET),
    "tolerance": (0, MAX_TOLERANCE),
    "improvement_max": (0, 1),
    "level": (0.5, 0.9999),
    "resamples": (99, 999_999),
    "min_windows": (1, 10_000_000),
    "min_tokens": (1, 2**53 - 1),
    "unseen_damage": (0, 1000),
    "latency_budget": (0, MAX_COST_BUDGET),
    "memory_budget": (0, MAX_COST_BUDGET),
    "install_budget": (0, MAX_INSTALL_MS),
    "tail_p95_max": (0, 1000),
    "tail_worst_max": (0, 1000),
}


class OverheadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a policy. A limit of null is not gated.

    Budgets are fractions: 0.01 is one percent of perplexity, time or memory, or one point of
    accuracy. Limits of the tail are nats of a window's loss, or its drop of accuracy, and so is
    ``unseen_damage``: the damage to allow for in kinds of windows that are too rare to be among the
    measured ones. ``observer_guards`` declares guards that are meant to change nothing.
    ``min_tokens`` applies to perplexity kinds only. ``install_budget`` is the maximum time to
    switch the guards on, in milliseconds.
    """

    budget: float
    resamples: int
    mode: Mode = "point"
    on_unmeasured: OnUnmeasured = "inconclusive"
    tolerance: float = 1e-12
    level: float = 0.95
    improvement_max: float = 0.10
    min_windows: int = 1
    tail_p95_max: float | None = None
    tail_worst_max: float | None = None
    latency_budget: float | None = None
    memory_budget: float | None = None
    observer_guards: bool = False
    unseen_damage: float = 1.5
    min_tokens: int = 1
    install_budget: float | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                hint = "; it is a fraction: 0.01 is one percent" if name == "budget" else ""
                raise InvalidValueError(f"{name} must be in [{low:g}, {high:g}], got {value}{hint}")


PROFILES: Final[dict[ProfileName, OverheadSettings]] = {
    "release": OverheadSettings(
        budget=0.01, resamples=9_999, min_windows=RELEASE_WINDOWS, min_tokens=RELEASE_TOKENS
    ),
    "ci": OverheadSettings(
        budget=0.01, resamples=1_999, min_windows=RELEASE_WINDOWS, min_tokens=RELEASE_TOKENS
    ),
    "dev": OverheadSettings(budget=0.05, resamples=999),
}
_UNMEASURED_BY_STRICTNESS: Final[tuple[OnUnmeasured, ...]] = ("soft_pass", "inconclusive", "fail")
_LOWER_IS_STRICTER: Final = frozenset(
    {
        "budget",
        "improvement_max",
        "tail_p95_max",
        "tail_worst_max",
        "latency_budget",
        "memory_budget",
        "install_budget",
    }
)
_HIGHER_IS_STRICTER: Final = frozenset({"resamples", "min_windows", "min_tokens", "unseen_damage"})


class Override(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One setting that differs from its profile, with reason, owner and evidence."""

    field: str
    value: Setting
    reason: str = ""
    owner: str = ""
    evidence: str = ""
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.field != PROFILE and self.field not in OverheadSettings.__struct_fields__:
            known = ", ".join(OverheadSettings.__struct_fields__)
            raise InvalidValueError(f"unknown setting {self.field!r} (known: {known})")
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise InvalidValueError(f"override of {self.field}: expires_at needs a time zone")

    @property
    def is_justified(self) -> bool:
        """Whether it has a reason, an owner and evidence."""
        return all(text.strip() for text in (self.reason, self.owner, self.evidence))


class OverheadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the exam; ``noise`` and ``repeat`` are set by a second run of an arm."""

    profile: Annotated[ProfileName, about("Named set of budgets.")] = "release"
    overrides: Annotated[
        tuple[Override, ...],
        about(
            "Settings that differ from the profile, each with `field` and `value`; a looser one "
            "needs `reason`, `owner` and `evidence`."
        ),
    ] = ()
    noise: Annotated[bool, about("Set when there is a second bare run.")] = False
    repeat: Annotated[bool, about("Set when there is a second guarded run.")] = False
    rules: Annotated[RulesVersion, about("Version of the rules; packs always set the newest.")] = (
        FIRST_RULES
    )

    def __post_init__(self) -> None:
        if self.rules != FIRST_RULES and is_looser_profile(self.profile):
            stated = (one for one in self.overrides if one.field == PROFILE)
            if not any(override.is_justified for override in stated):
                raise InvalidValueError(
                    f"profile {self.profile} is looser than {STRICTEST}: it needs an override of "
                    "the field profile with a reason, an owner and an evidence reference"
                )
        fields = [override.field for override in self.overrides]
        repeated = sorted({field for field in fields if fields.count(field) > 1})
        if repeated:
            raise InvalidValueError(f"{repeated[0]} is overridden more than once")
        for override in self.overrides:
            if override.field == PROFILE and override.value != self.profile:
                raise InvalidValueError(
                    f"override of profile must be {self.profile}, got {override.value}"
                )
        resolve(self)


def profile_settings(options: OverheadOptions) -> OverheadSettings:
    """Return the settings of the profile, as the version of the rules has them."""
    found = PROFILES[options.profile]
    if options.rules >= RULES:
        return found
    return msgspec.structs.replace(found, min_windows=1, min_tokens=1)


def resolve(options: OverheadOptions) -> OverheadSettings:
    """Return the settings after all overrides; refuse a looser one without justification."""
    base = profile_settings(options)
    values: dict[str, Setting] = msgspec.to_builtins(base)
    overrides = [override for override in options.overrides if override.field != PROFILE]
    for override in overrides:
        values[override.field] = override.value
    try:
        settings = msgspec.convert(values, OverheadSettings)
    except msgspec.ValidationError as error:
        raise InvalidValueError(f"policy: {error}") from error
    for override in overrides:
        if not override.is_justified and loosens(base, settings, override.field):
            raise InvalidValueError(
                f"{override.field} {getattr(settings, override.field)} loosens profile "
                f"{options.profile} ({getattr(base, override.field)}): it needs a reason, an owner "
                "and an evidence reference"
            )
    return settings


def is_looser_profile(profile: str) -> bool:
    """Whether a profile could pass what ``release`` would not.

    Fewer resamples alone do not count: they make an interval coarser, not narrower.
    """
    found = next(settings for name, settings in PROFILES.items() if name == profile)
    fields = set(OverheadSettings.__struct_fields__) - {"resamples"}
    return any(loosens(PROFILES[STRICTEST], found, field) for field in fields)


def profile_value(options: OverheadOptions, field: str) -> Setting:
    """Return the value of a setting before any override."""
    value: Setting = STRICTEST if field == PROFILE else getattr(profile_settings(options), field)
    return value


def is_loosened(options: OverheadOptions, field: str) -> bool:
    """Whether the override of a field could pass what the profile would not."""
    if field == PROFILE:
        return is_looser_profile(options.profile)
    return loosens(profile_settings(options), resolve(options), field)


def loosens(base: OverheadSettings, settings: OverheadSettings, field: str) -> bool:
    """Whether a setting could pass what the profile would not."""
    before, after = getattr(base, field), getattr(settings, field)
    if before == after:
        return False
    if field == "mode":
        return bool(after == "point")
    if field == "on_unmeasured":
        order = _UNMEASURED_BY_STRICTNESS
        return order.index(after) < order.index(before)
    if field in _LOWER_IS_STRICTER:
        return after is None or (before is not None and after > before)
    if field in _HIGHER_IS_STRICTER:
        return bool(after < before)
    return True


def refuse_expired(options: OverheadOptions, now: datetime) -> None:
    """Refuse expired overrides."""
    problems = tuple(
        f"override of {override.field} by {override.owner or 'nobody'} expired at "
        f"{override.expires_at.isoformat()}"
        for override in options.overrides
        if override.expires_at is not None and override.expires_at.astimezone(UTC) <= now
    )
    if problems:
        raise BadInputError(problems)


def judging_policy(options: OverheadOptions) -> Policy:
    """Return the rules, with every setting and override alongside them."""
    settings = resolve(options)
    return Policy(
        name="overhead",
        rules=tuple(_rules(settings, options)),
        settings={
            "profile": options.profile,
            **_stated_settings(settings, options.rules),
            **_override_settings(options),
            "contract.ppl": "guarded / bare - 1 of exp(token-weighted mean loss); lower is better",
            "contract.accuracy": "bare - guarded share of correct answers; higher is better",
            "contract.version": 1,
        },
    )


def _stated_settings(settings: OverheadSettings, rules: RulesVersion) -> dict[str, Setting]:
    stated: dict[str, Setting] = {
        name: value
        for name, value in msgspec.to_builtins(settings).items()
        if SETTINGS_SINCE.get(name, FIRST_RULES) <= rules
        # Policies from before this setting keep their digest.
        and not (name == "install_budget" and value is None)
    }
    return stated if rules == FIRST_RULES else {**stated, "overhead_rules": rules}


def _rules(settings: OverheadSettings, options: OverheadOptions) -> Iterator[Rule]:
    is_interval, is_newest = settings.mode == "interval", options.rules >= RULES
    against: Against = "interval" if is_interval else "value"
    least = INTERVAL_WINDOWS if is_interval else 1
    if not is_newest:
        least = max(settings.min_windows, least)
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
        by = "interval" if is_newest else against
        yield Rule("overhead.latency", LATENCY, "<=", settings.latency_budget, against=by)
    if options.rules != FIRST_RULES and not settings.observer_guards:
        yield Rule("overhead.acts", CHANGED, ">=", 1.0, severity="hold")
    if options.rules != FIRST_RULES and is_interval:
        yield Rule("overhead.unseen", UNSEEN, "<=", settings.budget, severity="hold")
    if is_newest:
        # Thin evidence holds what would pass; what is over the budget still fails.
        thin: Severity = "block" if settings.on_unmeasured == "fail" else "hold"
        yield Rule("overhead.windows", WINDOWS, ">=", float(settings.min_windows), severity=thin)
        yield Rule("overhead.tokens", MISSING_TOKENS, "<=", 0.0, severity=thin)
    if options.noise:
        yield Rule("overhead.noise", NOISE, "<=", settings.budget, severity="hold")
    if options.repeat:
        yield Rule("overhead.repeat", REPEAT, "<=", settings.budget, severity="hold")


def _override_settings(options: OverheadOptions) -> dict[str, Setting]:
    documented: dict[str, Setting] = {}
    for override in options.overrides:
        name = f"override.{override.field}"
        documented[f"{name}.from"] = profile_value(options, override.field)
        documented[f"{name}.to"] = override.value
        for word in ("reason", "owner", "evidence"):
            if text := getattr(override, word):
                documented[f"{name}.{word}"] = text
        if override.expires_at is not None:
            documented[f"{name}.expires_at"] = override.expires_at.astimezone(UTC).isoformat()
    return documented


class OverheadParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy that a command asks for: a profile, and changes to it."""

    budget: Annotated[
        float | None,
        option(
            "Maximum overhead as a fraction: 0.01 is one percent of perplexity or one point of "
            "accuracy (default: from the profile).",
            low=0,
            high=0.5,
            hint="; it is a fraction: 0.01 is one percent",
        ),
    ] = None
    mode: Annotated[
        Mode | None,
        option("Judge the measured value, or its whole interval (default: point)."),
    ] = None
    profile: Annotated[ProfileName | None, option("Profile to start from (default: release).")] = (
        None
    )
    policy: Annotated[str | None, file_option("YAML with a profile and overrides.")] = None
    reason: Annotated[str, option("Reason for a flag that loosens the profile.")] = ""
    owner: Annotated[str, option("Person who answers for the override.")] = ""
    evidence: Annotated[str, file_option("Evidence for the override.", metavar="REF")] = ""


def overhead_options(request: OverheadParameters, now: datetime) -> dict[str, object]:
    """Return the options of the exam from a profile, a policy file and flags."""
    options = _options(request)
    settings = resolve(options)
    overrides = list(options.overrides)
    why = (request.reason, request.owner, request.evidence)
    if is_looser_profile(options.profile):
        stated = next((one for one in overrides if one.field == PROFILE), None)
        if stated is None:
            stated = Override(PROFILE, options.profile, *why)
            overrides.insert(0, stated)
        if not stated.is_justified:
            raise UsageError(
                f"profile {options.profile} is looser than {STRICTEST}: it needs a reason, an "
                "owner and an evidence reference (--reason, --owner, --evidence, or an override "
                "of the field profile in the policy file)"
            )
    for field in ("budget", "mode"):
        value = getattr(request, field)
        if value is None or value == getattr(settings, field):
            continue
        if any(override.field == field for override in overrides):
            raise UsageError(f"{request.policy} already overrides {field}; change it there")
        overrides.append(Override(field, value, *why))
    try:
        changed = msgspec.structs.replace(options, overrides=tuple(overrides), rules=RULES)
    except InvalidValueError as error:
        hint = " (--reason, --owner, --evidence)" if "needs a reason" in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    refuse_expired(changed, now)
    plain: dict[str, object] = msgspec.to_builtins(changed)
    return plain


def _options(request: OverheadParameters) -> OverheadOptions:
    profile = request.profile
    value = {"profile": profile} if profile else {}
    if request.policy is not None:
        value = read_settings(request.policy, max_bytes=MAX_POLICY_BYTES)
    try:
        options = msgspec.convert(value, OverheadOptions)
    except (msgspec.ValidationError, InvalidValueError) as error:
        raise BadInputError(
            f"{request.policy}: {error}" if request.policy else str(error)
        ) from error
    for name, arm in (("noise", "bare"), ("repeat", "guarded")):
        if getattr(options, name):
            raise BadInputError(
                f"{request.policy}: {name} cannot be set; give a second {arm} run instead"
            )
    if options.rules != FIRST_RULES:
        raise BadInputError(f"{request.policy}: rules cannot be set; the newest are always used")
    if profile is not None and profile != options.profile:
        raise UsageError(f"{request.policy} is for profile {options.profile}, not for {profile}")
    return options
