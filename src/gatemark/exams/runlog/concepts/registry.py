"""The registry of concept extractors: built-in ones, one file each, and those of other packages."""

from __future__ import annotations

from functools import cache

from gatemark.core.registry import Registry
from gatemark.exams.runlog.concepts.port import ExtractorPlugin


@cache
def extractors() -> Registry[ExtractorPlugin]:
    """Return the registry of concept extractors."""
    return Registry(
        kind="extractor",
        places=("gatemark.exams.runlog.concepts.extractors.*",),
        attribute="EXTRACTOR",
        plugin_type=ExtractorPlugin,
        name_of=lambda extractor: extractor.name,
    )
