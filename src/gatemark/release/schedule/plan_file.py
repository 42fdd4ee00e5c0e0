"""The file of schedules."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.release.schedule.cadence import (
    DEFAULT_PLAN,
    SchedulePlan,
)

HEAD: Final = "gatemark_schedules"


def read_schedules(path: str | None) -> SchedulePlan:
    """Read the schedules of a file; they replace built-in ones with the same id."""
    if path is None:
        return DEFAULT_PLAN
    value = read_settings(path)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    keeps_defaults = value.pop("defaults", True)
    if not isinstance(keeps_defaults, bool):
        raise BadInputError(f"{path}: defaults must be true or false, got {keeps_defaults!r}")
    try:
        plan = msgspec.convert(value, SchedulePlan)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not keeps_defaults:
        if not plan.schedules:
            raise BadInputError(f"{path}: has no schedules, and the built-in ones are off")
        return plan
    named = {schedule.id for schedule in plan.schedules}
    kept = tuple(schedule for schedule in DEFAULT_PLAN.schedules if schedule.id not in named)
    return SchedulePlan((*plan.schedules, *kept))
