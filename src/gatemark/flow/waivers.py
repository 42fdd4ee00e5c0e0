"""Reading waivers from YAML: a list of rule, owner, reason and expires_at."""

from __future__ import annotations

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.policy import Waiver
from gatemark.intake.settings_file import read_settings

MAX_WAIVER_BYTES = 1024 * 1024


def read_waivers(path: str) -> tuple[Waiver, ...]:
    """The waivers of a file; a file without any is a mistake."""
    value = read_settings(path, MAX_WAIVER_BYTES)
    try:
        waivers = msgspec.convert(value, tuple[Waiver, ...])
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not waivers:
        raise BadInputError(f"{path}: holds no waivers")
    return waivers
