"""Read an advisory policy from a file."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.plugins.advisory.exam import AdvisoryOptions

MAX_POLICY_BYTES: Final = 1024 * 1024


def read_advisory_policy(path: str) -> dict[str, Any]:
    """Read and check a policy file; missing keys have their defaults."""
    value = read_settings(path, max_bytes=MAX_POLICY_BYTES)
    if not isinstance(value, dict) or value.get("gatemark_advisory") != 1:
        raise BadInputError(f"{path}: must say gatemark_advisory: 1")
    try:
        msgspec.convert({"policy": value}, AdvisoryOptions)
    except msgspec.ValidationError as error:
        message = str(error).replace("$.policy", "$")
        raise BadInputError(f"{path}: {message}") from error
    return value
