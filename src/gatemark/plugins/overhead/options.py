"""Options of the guard-overhead exam: a profile, its overrides, and the settings they give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.policy import Setting
from gatemark.evidence.settings_file import about
from gatemark.plugins.overhead.settings import (
    PROFILE,
    PROFILES,
    STRICTEST,
    OverheadSettings,
    Override,
    ProfileName,
    is_looser_profile,
    loosens,
)


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

    def __post_init__(self) -> None:
        if is_looser_profile(self.profile):
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
        resolve_settings(self)


def resolve_settings(options: OverheadOptions) -> OverheadSettings:
    """Return the settings after all overrides; refuse a looser one without justification."""
    base = PROFILES[options.profile]
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


def find_profile_value(options: OverheadOptions, field: str) -> Setting:
    """Return the value of a setting before any override."""
    value: Setting = STRICTEST if field == PROFILE else getattr(PROFILES[options.profile], field)
    return value


def is_loosened(options: OverheadOptions, field: str) -> bool:
    """Whether the override of a field could pass what the profile would not."""
    if field == PROFILE:
        return is_looser_profile(options.profile)
    return loosens(PROFILES[options.profile], resolve_settings(options), field)


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
