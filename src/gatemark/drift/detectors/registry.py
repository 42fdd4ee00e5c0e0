"""The registry of drift detectors: ours, one file each, and those of other packages."""

from __future__ import annotations

from functools import cache

from gatemark.core.registry import Registry
from gatemark.drift.judging.detector import Detector


@cache
def detectors() -> Registry[Detector]:
    """The detectors of drift."""
    return Registry(
        kind="detector",
        places=("gatemark.drift.detectors.*",),
        attribute="DETECTOR",
        plugin_type=Detector,
        name_of=lambda detector: detector.name,
    )
