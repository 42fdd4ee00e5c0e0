"""The configurations of variants, as far as metrics need them: their hashes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.runlog.records.names import tokengate_config_hash

SETTINGS_ENDS = ("*.yaml", "*.yml", "*.json")


class VariantHashes(msgspec.Struct, frozen=True):
    """What a variant's configuration file and its token gate hash to."""

    variant_config_hash: str
    tokengate_config_hash: str


def variant_hashes(folder: str | None) -> dict[str, VariantHashes]:
    """The hashes of every variant in a folder and the folders in it, or of the shipped ones.

    Only the token gate is looked at, so that configurations of other tools do as well.
    """
    place = (
        Path(folder)
        if folder
        else Path(str(files("gatemark.exams.runlog.replay").joinpath("defaults")))
    )
    if not place.is_dir():
        raise BadInputError(f"{place}: is no folder of variant configurations")
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
        found[variant] = VariantHashes(digest_bytes(path.read_bytes()), tokengate_config_hash(gate))
    if not found:
        raise BadInputError(f"{place}: holds no variant configurations")
    return found
