"""Waivers as a file gives them: a list of rule, owner, reason and expires_at."""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.policy import Waiver


def waivers_from(value: object, path: str) -> tuple[Waiver, ...]:
    """The waivers in what a file holds; a file without any is a mistake."""
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
