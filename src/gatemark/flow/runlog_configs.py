"""The configurations of variants, as far as metrics need them: their hashes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.core.runlog.names import tokengate_config_hash

FILE_BYTES_MAX = 1 << 20


class VariantHashes(msgspec.Struct, frozen=True):
    """What a variant's configuration file and its token gate hash to."""

    variant_config_hash: str
    tokengate_config_hash: str


def variant_hashes(folder: str | None) -> dict[str, VariantHashes]:
    """The hashes of every variant in a folder and the folders in it, or of the built-in ones."""
    place = Path(folder) if folder else Path(str(files("gatemark.runlog").joinpath("defaults")))
    if not place.is_dir():
        raise BadInputError(f"{place}: is no folder of variant configurations")
    found: dict[str, VariantHashes] = {}
    for path in sorted((*place.rglob("*.yaml"), *place.rglob("*.yml"))):
        raw, data = _read(path)
        if not isinstance(raw, dict) or "variant_id" not in raw:
            continue
        variant = str(raw["variant_id"])
        components = raw.get("components")
        gate = components.get("token_gate") if isinstance(components, dict) else None
        if not isinstance(gate, dict):
            raise BadInputError(f"{path}: components.token_gate of {variant} is missing")
        if variant in found:
            raise BadInputError(f"{path}: is a second configuration of {variant}")
        found[variant] = VariantHashes(digest_bytes(data), tokengate_config_hash(gate))
    if not found:
        raise BadInputError(f"{place}: holds no variant configurations")
    return found


def _read(path: Path) -> tuple[Any, bytes]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadInputError(f"{path}: holds more than {FILE_BYTES_MAX} bytes")
    try:
        return yaml.safe_load(data), data
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: is no YAML: {error}") from error
