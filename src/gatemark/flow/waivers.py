"""Reading waivers from YAML: a list of rule, owner, reason and expires_at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from gatemark.core.errors import BadInputError
from gatemark.core.policy import Waiver
from gatemark.intake.source import inspect_source

MAX_WAIVER_BYTES = 1024 * 1024


def read_waivers(path: str) -> tuple[Waiver, ...]:
    """The waivers of a file; a file without any is a mistake."""
    source = inspect_source(path)
    if source.byte_count > MAX_WAIVER_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_WAIVER_BYTES} bytes")
    try:
        value = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        waivers = msgspec.convert(value, tuple[Waiver, ...])
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not waivers:
        raise BadInputError(f"{path}: holds no waivers")
    return waivers
