"""Reading waivers from YAML: a list of rule, owner, reason and expires_at."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.policy import Waiver
from gatemark.evidence.settings_file import read_settings

MAX_WAIVER_BYTES: Final = 1024 * 1024


def read_waivers(path: str) -> tuple[Waiver, ...]:
    """The waivers of a file; a file without any is a mistake."""
    value = read_settings(path, MAX_WAIVER_BYTES)
    if not isinstance(value, list):
        raise BadInputError(f"{path}: must be a list of waivers, each with a dash before it")
    if not value:
        raise BadInputError(f"{path}: holds no waivers")
    for number, entry in enumerate(value):
        end = entry.get("expires_at") if isinstance(entry, dict) else None
        if isinstance(end, date) and not isinstance(end, datetime):
            raise BadInputError(
                f"{path}: expires_at needs a time and a zone, such as {end}T00:00:00Z"
                f" - at `$[{number}].expires_at`"
            )
    try:
        return msgspec.convert(value, tuple[Waiver, ...])
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
