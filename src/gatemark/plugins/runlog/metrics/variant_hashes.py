"""The hashes of the configurations of variants."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.plugins.runlog.records.names import hash_tokengate_config

SETTINGS_ENDS = ("*.yaml", "*.yml", "*.json")


class VariantHashes(msgspec.Struct, frozen=True):
    """The hashes of a variant's configuration file and of its token gate."""

    variant_config_hash: str
    tokengate_config_hash: str


def read_variant_hashes(folder: str | None) -> dict[str, VariantHashes]:
    """Return the hashes of every variant in a folder and its subfolders, or of the built-in ones.

    Only the token gate is read, so configurations of other tools work as well.
    """
    place = (
        Path(folder)
        if folder
        else Path(str(files("gatemark.plugins.runlog.replay").joinpath("defaults")))
    )
    if not place.is_dir():
        raise BadInputError(f"{place}: expected a folder of variant configurations")
    found: dict[str, VariantHashes] = {}
    for path in sorted(path for end in SETTINGS_ENDS for path in place.rglob(end)):
        raw = read_settings(str(path))
        if not isinstance(raw, dict) or "variant_id" not in raw:
            continue
        variant = str(raw["variant_id"])
        components = raw.get("components")
        gate = components.get("token_gate") if isinstance(components, dict) else None
        if not isinstance(gate, dict):
            raise BadInputError(f"{path}: components.token_gate of {variant} is missing")
        if variant in found:
            raise BadInputError(f"{path}: is a second configuration of {variant}")
        found[variant] = VariantHashes(digest_bytes(path.read_bytes()), hash_tokengate_config(gate))
    if not found:
        raise BadInputError(f"{place}: holds no variant configurations")
    return found
