"""Finding the configurations of variants: shipped ones, or a folder of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import parse_settings, read_settings
from gatemark.exams.runlog.records.run import Variant
from gatemark.exams.runlog.replay.config import VARIANTS, LoadedVariant, load_variant

_ENDS: Final = (".yaml", ".yml", ".json")


def load_variants(folder: str | None, wanted: Sequence[str] = ()) -> tuple[LoadedVariant, ...]:
    """The wanted variants in order; all there are when none is named."""
    unknown = [name for name in wanted if name not in VARIANTS]
    if unknown:
        raise UsageError(f"unknown variant {unknown[0]!r} (known: {', '.join(VARIANTS)})")
    found = [
        variant
        for name in VARIANTS
        if not wanted or name in wanted
        if (variant := _load(folder, name, must_exist=bool(wanted))) is not None
    ]
    if not found:
        raise BadInputError(f"{folder}: holds no variant configurations (such as V0.yaml)")
    return tuple(found)


def _load(folder: str | None, name: Variant, *, must_exist: bool) -> LoadedVariant | None:
    raw: Any
    if folder is None:
        text = (
            files("gatemark.exams.runlog.replay")
            .joinpath("defaults", f"{name}.yaml")
            .read_text("utf-8")
        )
        return load_variant(parse_settings(text, f"{name}.yaml"), f"{name}.yaml")
    for end in _ENDS:
        path = Path(folder) / f"{name}{end}"
        if path.is_file():
            raw = read_settings(str(path))
            variant = load_variant(raw, str(path))
            if variant.variant_id != name:
                raise BadInputError(f"{path}: variant_id must be {name}, got {variant.variant_id}")
            return variant
    if must_exist:
        raise BadInputError(f"{folder}: has no configuration of {name} ({name}.yaml)")
    return None
