"""How the logs of one variant were made, and what to tell when they were not all made alike.

A run that was stopped half way and started again with other settings leaves logs of both in one
folder. Each of them is fine by itself; their mean is the mean of nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.runlog.metrics.case import size_of
from gatemark.exams.runlog.records.names import ctu, tokengate_config_hash
from gatemark.exams.runlog.records.run import RunLog

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


SETTINGS: Final = ("history_k", "trigger_policy", "compat", "chunk_size_ctu")
"""What must not differ between the logs of one variant."""
CIRCUMSTANCES: Final = ("eval_run_id", "backend")
"""What may differ, and is reported when it does."""
_NO_EXTRACTOR: Final = "none"


class LogOrigin(msgspec.Struct, frozen=True):
    """What one log tells about how it was made.

    ``extractor`` is the linker that the log names; ``other_sizes`` counts summaries whose stated
    size is not that of their text, and ``turned_windows`` those that end before they start.
    """

    made: dict[str, Any]
    extractor: str
    other_sizes: int
    turned_windows: int


def origin_of(log: RunLog) -> LogOrigin:
    """How a log was made; what an older one does not tell is left out."""
    meta: Any = log.meta
    fields = ((name, getattr(meta, name)) for name in (*SETTINGS, *CIRCUMSTANCES))
    named = getattr(meta.concept_extractor, "linker_name", _NO_EXTRACTOR)
    return LogOrigin(
        made={name: value for name, value in fields if value is not UNSET},
        extractor=named if isinstance(named, str) else _NO_EXTRACTOR,
        other_sizes=sum(
            size_of(event) != ctu(event.summary_semantics_text) for event in log.events
        ),
        turned_windows=sum(event.start_seq > event.end_seq for event in log.events),
    )


Origins = Mapping[str, Mapping[str, LogOrigin]]
"""Origins by variant and case."""


def by_variant(cases: Mapping[str, Mapping[str, LogOrigin]]) -> Origins:
    """Origins by case and variant the other way round."""
    variants = sorted({variant for found in cases.values() for variant in found})
    return {
        variant: {case: found[variant] for case, found in cases.items() if variant in found}
        for variant in variants
    }


def mixed_settings(origins: Origins) -> Iterator[str]:
    """Variants whose logs were made under several settings: no mean of theirs means anything."""
    for variant, cases in origins.items():
        for name in SETTINGS:
            found = _by_value(cases, name)
            if len(found) > 1:
                words = ", ".join(f"{value} in {_names(names)}" for value, names in found.items())
                yield f"{variant}: its logs were made with different {name} ({words})"


def origin_caveats(origins: Origins, compat: str) -> Iterator[str]:
    """What a reader should know about where the measured logs come from."""
    for variant, cases in origins.items():
        for name in CIRCUMSTANCES:
            found = _by_value(cases, name)
            if len(found) > 1:
                yield f"the logs of {variant} come from {len(found)} runs that differ in {name}"
        made = {origin.made["compat"] for origin in cases.values() if "compat" in origin.made}
        if made - {compat}:
            yield f"the logs of {variant} were made with compat {made.pop()}, not {compat}"
        sizes = sum(origin.other_sizes for origin in cases.values())
        if sizes:
            yield (
                f"{sizes} summaries of {variant} state another size than their text has; M2 and "
                "M7b count the stated one"
            )
        turned = sum(origin.turned_windows for origin in cases.values())
        if turned:
            yield (
                f"{turned} summaries of {variant} have a window that ends before it starts; it "
                "supports nothing"
            )


def extractor_caveats(origins: Origins, differing: Mapping[str, list[str]]) -> Iterator[str]:
    """Variants whose logs name an extractor, and another one ran."""
    for variant, names in differing.items():
        extractors = {origin.extractor for origin in origins[variant].values()} - {_NO_EXTRACTOR}
        if extractors:
            yield (
                f"the logs of {variant} name another concept extractor than the one that ran "
                f"({', '.join(names)})"
            )


def _by_value(cases: Mapping[str, LogOrigin], name: str) -> dict[str, list[str]]:
    """The cases by what their logs say; logs that say nothing take no part."""
    found: dict[str, list[str]] = {}
    for case, origin in sorted(cases.items()):
        if name in origin.made:
            value = origin.made[name]
            packed = msgspec.json.encode(value, order="sorted").decode()
            found.setdefault(value if isinstance(value, str) else packed, []).append(case)
    return found


def _names(cases: list[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"
