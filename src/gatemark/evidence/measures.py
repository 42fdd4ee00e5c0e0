"""The measures, found by name."""

from __future__ import annotations

from functools import cache

from gatemark.core.fold import AnyMeasure, Measure
from gatemark.core.registry import Registry, feature_modules


@cache
def measures() -> Registry[AnyMeasure]:
    """Return the registry of measures."""
    return Registry(
        kind="measure",
        places=feature_modules("measure"),
        attribute="MEASURE",
        plugin_type=Measure,
        name_of=lambda measure: measure.name,
    )
