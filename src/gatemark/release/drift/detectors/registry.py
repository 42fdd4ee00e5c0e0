"""The registry of drift detectors: built-in ones, one file each, and plugins.

Their interface is ``release.drift.judging.detector``.
"""

from __future__ import annotations

from functools import cache

from gatemark.core.registry import Registry
from gatemark.release.drift.judging.detector import Detector


@cache
def detectors() -> Registry[Detector]:
    """Return the registry of drift detectors."""
    return Registry(
        kind="detector",
        places=("gatemark.release.drift.detectors.*",),
        attribute="DETECTOR",
        plugin_type=Detector,
        name_of=lambda detector: detector.name,
    )
