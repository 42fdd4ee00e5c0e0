"""The registry of concept extractors, and how to name one so that any process loads the same."""

from __future__ import annotations

from functools import cache

import msgspec

from gatemark.core.registry import Registry
from gatemark.plugins.runlog.concepts.port import (
    ConceptExtractor,
    ConceptSettings,
    ExtractorPlugin,
    SourceChoices,
    Stoplists,
)
from gatemark.plugins.runlog.concepts.stoplists import read_stoplists


@cache
def extractors() -> Registry[ExtractorPlugin]:
    """Return the registry of concept extractors."""
    return Registry(
        kind="extractor",
        places=("gatemark.plugins.runlog.concepts.extractors.*",),
        attribute="EXTRACTOR",
        plugin_type=ExtractorPlugin,
        name_of=lambda extractor: extractor.name,
    )


class ExtractorSpec(msgspec.Struct, frozen=True):
    """An extractor by name, with its files and settings."""

    name: str = "lexicon"
    choices: SourceChoices = SourceChoices()
    settings: ConceptSettings = ConceptSettings()
    stoplists: str | None = None


def find_extractor(spec: ExtractorSpec) -> ExtractorPlugin:
    """Return the plugin that a spec names; raise with the known names otherwise."""
    return extractors().get(spec.name)


@cache
def load_extractor(spec: ExtractorSpec) -> ConceptExtractor:
    """Return the extractor of a spec, cached per process; raise if it cannot be loaded."""
    source = find_extractor(spec).load(spec.choices)
    stoplists = Stoplists() if spec.stoplists is None else read_stoplists(spec.stoplists)
    return ConceptExtractor(source, spec.settings, stoplists)
