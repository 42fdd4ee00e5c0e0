"""Settings of a guard-overhead policy: profiles, justified overrides, and what loosens a profile.

An override that loosens its profile needs a reason, an owner and a reference to evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import OnUnmeasured, Setting

Mode = Literal["point", "interval"]
ProfileName = Literal["release", "ci", "dev"]
RELEASE_WINDOWS: Final = 200
RELEASE_TOKENS: Final = 10_000
MAX_BUDGET: Final = 0.5
MAX_COST_BUDGET: Final = 10.0
MAX_INSTALL_MS: Final = 1e9
MAX_TOLERANCE: Final = 1e-6
STRICTEST: Final[ProfileName] = "release"
PROFILE: Final = "profile"
"""The override that justifies a profile looser than ``release``."""

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


def is_looser_profile(profile: str) -> bool:
    """Whether a profile could pass what ``release`` would not.

    Fewer resamples alone do not count: they make an interval coarser, not narrower.
    """
    found = next(settings for name, settings in PROFILES.items() if name == profile)
    fields = set(OverheadSettings.__struct_fields__) - {"resamples"}
    return any(loosens(PROFILES[STRICTEST], found, field) for field in fields)


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
