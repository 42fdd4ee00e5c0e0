"""Compare how the logs of one variant were made.

A run that was stopped and started again with other settings leaves logs of both in one folder. Each
is valid by itself, but their mean has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.runlog.records.names import tokengate_config_hash
from gatemark.exams.runlog.records.run import RunLog

SETTINGS_ENDS = ("*.yaml", "*.yml", "*.json")


class VariantHashes(msgspec.Struct, frozen=True):
    """The hashes of a variant's configuration file and of its token gate."""

    variant_config_hash: str
    tokengate_config_hash: str


def variant_hashes(folder: str | None) -> dict[str, VariantHashes]:
    """Return the hashes of every variant in a folder and its subfolders, or of the built-in ones.

    Only the token gate is read, so configurations of other tools work as well.
    """
    place = (
        Path(folder)
        if folder
        else Path(str(files("gatemark.exams.runlog.replay").joinpath("defaults")))
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
        found[variant] = VariantHashes(digest_bytes(path.read_bytes()), tokengate_config_hash(gate))
    if not found:
        raise BadInputError(f"{place}: holds no variant configurations")
    return found


SETTINGS: Final = ("history_k", "trigger_policy", "compat", "chunk_size_ctu")
"""Settings that must be equal in all logs of a variant."""
CIRCUMSTANCES: Final = ("eval_run_id", "backend")
"""Settings that may differ, and are reported if they do."""
_NO_EXTRACTOR: Final = "none"


class LogOrigin(msgspec.Struct, frozen=True):
    """How one log was made.

    ``extractor`` is the linker that the log names; ``turned_windows`` counts summaries whose window
    ends before it starts.
    """

    made: dict[str, object]
    extractor: str
    turned_windows: int


def origin_of(log: RunLog) -> LogOrigin:
    """Return how a log was made; fields that an older log lacks are left out."""
    meta = log.meta
    fields = ((name, getattr(meta, name)) for name in (*SETTINGS, *CIRCUMSTANCES))
    named = getattr(meta.concept_extractor, "linker_name", _NO_EXTRACTOR)
    return LogOrigin(
        made={name: value for name, value in fields if value is not UNSET},
        extractor=named if isinstance(named, str) else _NO_EXTRACTOR,
        turned_windows=sum(event.start_seq > event.end_seq for event in log.events),
    )


Origins = Mapping[str, Mapping[str, LogOrigin]]
"""Origins by variant and case."""


def by_variant(cases: Mapping[str, Mapping[str, LogOrigin]]) -> Origins:
    """Regroup origins by case as origins by variant."""
    variants = sorted({variant for found in cases.values() for variant in found})
    return {
        variant: {case: found[variant] for case, found in cases.items() if variant in found}
        for variant in variants
    }


def mixed_settings(origins: Origins) -> Iterator[str]:
    """Yield variants whose logs were made with different settings."""
    for variant, cases in origins.items():
        for name in SETTINGS:
            found = _by_value(cases, name)
            if len(found) > 1:
                words = ", ".join(f"{value} in {_names(names)}" for value, names in found.items())
                yield f"{variant}: its logs were made with different {name} ({words})"


def origin_caveats(origins: Origins, compat: str) -> Iterator[str]:
    """Yield caveats about the origin of the measured logs."""
    for variant, cases in origins.items():
        for name in CIRCUMSTANCES:
            found = _by_value(cases, name)
            if len(found) > 1:
                yield f"the logs of {variant} come from {len(found)} runs that differ in {name}"
        made = {origin.made["compat"] for origin in cases.values() if "compat" in origin.made}
        if made - {compat}:
            yield f"the logs of {variant} were made with compat {made.pop()}, not {compat}"
        turned = sum(origin.turned_windows for origin in cases.values())
        if turned:
            yield (
                f"{turned} summaries of {variant} have a window that ends before it starts; it "
                "supports nothing"
            )


def extractor_caveats(origins: Origins, differing: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield variants whose logs name another extractor than the one that ran."""
    for variant, names in differing.items():
        extractors = {origin.extractor for origin in origins[variant].values()} - {_NO_EXTRACTOR}
        if extractors:
            yield (
                f"the logs of {variant} name another concept extractor than the one that ran "
                f"({', '.join(names)})"
            )


def _by_value(cases: Mapping[str, LogOrigin], name: str) -> dict[str, list[str]]:
    """Group cases by a value of their logs; skip logs without the value."""
    found: dict[str, list[str]] = {}
    for case, origin in sorted(cases.items()):
        if name in origin.made:
            value = origin.made[name]
            packed = msgspec.json.encode(value, order="sorted").decode()
            found.setdefault(value if isinstance(value, str) else packed, []).append(case)
    return found


def _names(cases: list[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"
