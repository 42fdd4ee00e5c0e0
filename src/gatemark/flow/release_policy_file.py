"""Reading a release policy from YAML: what it leaves out is as by default, and shown so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from gatemark.core.errors import BadInputError
from gatemark.intake.source import inspect_source
from gatemark.lifecycle.release_policy import DEFAULT_GATES, ReleasePolicy, policy_from

MAX_POLICY_BYTES: Final = 1024 * 1024


def read_release_policy(path: str) -> ReleasePolicy:
    """The policy of a file. Gates that it does not name stay as they are by default."""
    source = inspect_source(path)
    if source.byte_count > MAX_POLICY_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_POLICY_BYTES} bytes")
    try:
        value: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict) or value.get("gatemark_release") != 1:
        raise BadInputError(f"{path}: must start with gatemark_release: 1")
    gates = value.get("gates", {})
    if isinstance(gates, dict):
        value = {**value, "gates": {**msgspec.to_builtins(DEFAULT_GATES), **gates}}
    try:
        return policy_from(value)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error


def policy_text(policy: ReleasePolicy) -> str:
    """A policy as YAML, every default written out."""
    return str(yaml.safe_dump(msgspec.to_builtins(policy), sort_keys=False, allow_unicode=True))
