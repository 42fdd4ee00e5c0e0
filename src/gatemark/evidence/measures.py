"""The measures, found by name."""

from __future__ import annotations

from functools import cache

from gatemark.core.fold import AnyMeasure, Measure
from gatemark.core.registry import Registry


@cache
def measures() -> Registry[AnyMeasure]:
    """Return the registry of measures."""
    return Registry(
        kind="measure",
        places=("gatemark.*.measure", "gatemark.checks.*.measure"),
        attribute="MEASURE",
        plugin_type=Measure,
        name_of=lambda measure: measure.name,
    )
