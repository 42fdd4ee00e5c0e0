"""What a command asks for: a profile, a policy file and flags, as options of the exam."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.exam_options import file_option, option
from gatemark.evidence.settings_file import read_settings
from gatemark.plugins.overhead.options import OverheadOptions, refuse_expired, resolve_settings
from gatemark.plugins.overhead.settings import (
    PROFILE,
    STRICTEST,
    Mode,
    Override,
    ProfileName,
    is_looser_profile,
)

MAX_POLICY_BYTES: Final = 1024 * 1024


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


class PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy file: a profile, and settings that differ from it."""

    profile: ProfileName = "release"
    overrides: tuple[Override, ...] = ()


def build_overhead_options(request: OverheadParameters, now: datetime) -> dict[str, object]:
    """Return the options of the exam from a profile, a policy file and flags."""
    why = (request.reason, request.owner, request.evidence)
    options = _build_file_options(request, _read_policy(request), why)
    settings = resolve_settings(options)
    overrides = list(options.overrides)
    for field in ("budget", "mode"):
        value = getattr(request, field)
        if value is None or value == getattr(settings, field):
            continue
        if any(override.field == field for override in overrides):
            raise UsageError(f"{request.policy} already overrides {field}; change it there")
        overrides.append(Override(field, value, *why))
    try:
        changed = msgspec.structs.replace(options, overrides=tuple(overrides))
    except InvalidValueError as error:
        hint = " (--reason, --owner, --evidence)" if "needs a reason" in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    refuse_expired(changed, now)
    plain: dict[str, object] = msgspec.to_builtins(changed)
    return plain


def _read_policy(request: OverheadParameters) -> PolicyFile:
    """Return the profile and overrides of the policy file, or the profile of the command."""
    if request.policy is None:
        return PolicyFile(request.profile or STRICTEST)
    value = read_settings(request.policy, max_bytes=MAX_POLICY_BYTES)
    for name, arm in (("noise", "bare"), ("repeat", "guarded")):
        if name in value:
            raise BadInputError(
                f"{request.policy}: {name} cannot be set; give a second {arm} run instead"
            )
    try:
        policy = msgspec.convert(value, PolicyFile)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{request.policy}: {error}") from error
    if request.profile is not None and request.profile != policy.profile:
        raise UsageError(
            f"{request.policy} is for profile {policy.profile}, not for {request.profile}"
        )
    return policy


def _build_file_options(
    request: OverheadParameters, policy: PolicyFile, why: tuple[str, str, str]
) -> OverheadOptions:
    """Return the options of a policy file; a looser profile needs the file's reason or ``why``."""
    overrides = policy.overrides
    if is_looser_profile(policy.profile):
        stated = next((one for one in overrides if one.field == PROFILE), None)
        if stated is None:
            stated = Override(PROFILE, policy.profile, *why)
            overrides = (stated, *overrides)
        if not stated.is_justified:
            raise UsageError(
                f"profile {policy.profile} is looser than {STRICTEST}: it needs a reason, an "
                "owner and an evidence reference (--reason, --owner, --evidence, or an override "
                "of the field profile in the policy file)"
            )
    try:
        return OverheadOptions(policy.profile, overrides)
    except InvalidValueError as error:
        place = f"{request.policy}: " if request.policy else ""
        raise BadInputError(f"{place}{error}") from error
