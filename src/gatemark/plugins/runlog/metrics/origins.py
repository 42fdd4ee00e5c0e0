"""How run logs were made.

A run that was stopped and started again with other settings leaves logs of both in one folder. Each
is valid by itself, but their mean has no meaning, so how they were made is compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.plugins.runlog.records.run import RunLog

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


def describe_origin(log: RunLog) -> LogOrigin:
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


def group_by_variant(cases: Mapping[str, Mapping[str, LogOrigin]]) -> Origins:
    """Regroup origins by case as origins by variant."""
    variants = sorted({variant for found in cases.values() for variant in found})
    return {
        variant: {case: found[variant] for case, found in cases.items() if variant in found}
        for variant in variants
    }


def find_mixed_settings(origins: Origins) -> Iterator[str]:
    """Yield variants whose logs were made with different settings."""
    for variant, cases in origins.items():
        for name in SETTINGS:
            found = _group_by_value(cases, name)
            if len(found) > 1:
                words = ", ".join(
                    f"{value} in {_list_names(names)}" for value, names in found.items()
                )
                yield f"{variant}: its logs were made with different {name} ({words})"


def list_origin_caveats(origins: Origins, compat: str) -> Iterator[str]:
    """Yield caveats about the origin of the measured logs."""
    for variant, cases in origins.items():
        for name in CIRCUMSTANCES:
            found = _group_by_value(cases, name)
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


def list_extractor_caveats(origins: Origins, differing: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield variants whose logs name another extractor than the one that ran."""
    for variant, names in differing.items():
        extractors = {origin.extractor for origin in origins[variant].values()} - {_NO_EXTRACTOR}
        if extractors:
            yield (
                f"the logs of {variant} name another concept extractor than the one that ran "
                f"({', '.join(names)})"
            )


def _group_by_value(cases: Mapping[str, LogOrigin], name: str) -> dict[str, list[str]]:
    """Group cases by a value of their logs; skip logs without the value."""
    found: dict[str, list[str]] = {}
    for case, origin in sorted(cases.items()):
        if name in origin.made:
            value = origin.made[name]
            packed = msgspec.json.encode(value, order="sorted").decode()
            found.setdefault(value if isinstance(value, str) else packed, []).append(case)
    return found


def _list_names(cases: list[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{cases[0]} and {len(cases) - 1} more"
