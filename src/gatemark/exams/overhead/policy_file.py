"""From a profile, a policy file and flags to the options of the guard-overhead exam."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError, UsageError
from gatemark.evidence.settings_file import read_settings

if TYPE_CHECKING:
    from gatemark.exams.overhead.policy import OverheadOptions

MAX_POLICY_BYTES: Final = 1024 * 1024


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The policy options of a command; ``changes`` are settings given as flags."""

    profile: str | None = None
    file: str | None = None
    changes: Mapping[str, Any] = {}
    reason: str = ""
    owner: str = ""
    evidence: str = ""


def overhead_options(request: PolicyRequest, now: datetime) -> dict[str, Any]:
    """Plain options for the exam, checked; what is not allowed is refused with its reason."""
    from gatemark.exams.overhead.policy import (  # noqa: PLC0415
        Override,
        refuse_expired,
        resolve,
    )

    options = _base(request)
    settings = resolve(options)
    overrides = list(options.overrides)
    for field, value in request.changes.items():
        if value is None or value == getattr(settings, field):
            continue
        if any(override.field == field for override in overrides):
            raise UsageError(f"{request.file} already overrides {field}; change it there")
        overrides.append(Override(field, value, request.reason, request.owner, request.evidence))
    try:
        changed = msgspec.structs.replace(options, overrides=tuple(overrides))
    except InvalidValueError as error:
        hint = " (--reason, --owner, --evidence)" if "needs a reason" in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    refuse_expired(changed, now)
    plain: dict[str, Any] = msgspec.to_builtins(changed)
    return plain


def _base(request: PolicyRequest) -> OverheadOptions:
    from gatemark.exams.overhead.policy import OverheadOptions  # noqa: PLC0415

    if request.file is None:
        return _converted(
            {"profile": request.profile} if request.profile else {}, "", OverheadOptions
        )
    value = read_settings(request.file, max_bytes=MAX_POLICY_BYTES)
    options = _converted(value, f"{request.file}: ", OverheadOptions)
    if options.noise:
        raise BadInputError(f"{request.file}: noise is measured with a second bare run")
    if request.profile is not None and request.profile != options.profile:
        raise UsageError(
            f"{request.file} is for profile {options.profile}, not for {request.profile}"
        )
    return options


def _converted(value: Any, place: str, kind: type[OverheadOptions]) -> OverheadOptions:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, InvalidValueError) as error:
        raise BadInputError(f"{place}{error}") from error
