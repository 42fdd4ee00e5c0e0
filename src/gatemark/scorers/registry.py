"""The registry of scorers: ours, one file each, and those of other packages."""

from __future__ import annotations

from functools import cache

from gatemark.core.registry import Registry
from gatemark.scorers.scorer import Scorer


@cache
def scorers() -> Registry[Scorer]:
    """The scorers."""
    return Registry(
        kind="scorer",
        places=("gatemark.scorers.*",),
        attribute="SCORER",
        plugin_type=Scorer,
        name_of=lambda scorer: scorer.name,
    )
