"""Specify a concept extractor so that any process can load the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from gatemark.exams.runlog.concepts.port import (
    ConceptExtractor,
    ConceptSettings,
    ExtractorPlugin,
    SourceChoices,
    Stoplists,
    settings_from,
)
from gatemark.exams.runlog.concepts.registry import extractors
from gatemark.exams.runlog.concepts.stoplists import read_stoplists


class ExtractorSpec(msgspec.Struct, frozen=True):
    """An extractor by name, with its files and settings."""

    name: str = "lexicon"
    choices: SourceChoices = SourceChoices()
    settings: ConceptSettings = ConceptSettings()
    stoplists: str | None = None


def extractor_spec(
    name: str,
    *,
    lexicons: Sequence[str] = (),
    model: str | None = None,
    stoplists: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> ExtractorSpec:
    """Return a spec from plain values."""
    return ExtractorSpec(
        name=name,
        choices=SourceChoices(lexicons=tuple(lexicons), model=model),
        settings=settings_from(dict(settings or {})),
        stoplists=stoplists,
    )


def find_extractor(spec: ExtractorSpec) -> ExtractorPlugin:
    """Return the plugin that a spec names; raise with the known names otherwise."""
    return extractors().get(spec.name)


@cache
def load_extractor(spec: ExtractorSpec) -> ConceptExtractor:
    """Return the extractor of a spec, cached per process; raise if it cannot be loaded."""
    source = find_extractor(spec).load(spec.choices)
    stoplists = Stoplists() if spec.stoplists is None else read_stoplists(spec.stoplists)
    return ConceptExtractor(source, spec.settings, stoplists)
