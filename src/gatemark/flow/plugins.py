"""The registries of everything that is one file per thing."""

from __future__ import annotations

from functools import cache
from typing import Any

from gatemark.core.exam import Suite
from gatemark.core.fold import Measure
from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry
from gatemark.core.scoring import Scorer
from gatemark.runlog.concepts.port import ExtractorPlugin


@cache
def schemas() -> Registry[RecordSchema]:
    """The evidence schemas."""
    return Registry(
        kind="schema",
        package="gatemark.records",
        attribute="SCHEMA",
        plugin_type=RecordSchema,
        name_of=lambda schema: schema.name,
    )


@cache
def measures() -> Registry[Measure[Any]]:
    """The measures."""
    return Registry(
        kind="measure",
        package="gatemark.measures",
        attribute="MEASURE",
        plugin_type=Measure,
        name_of=lambda measure: measure.name,
    )


@cache
def suites() -> Registry[Suite]:
    """The suite kinds."""
    return Registry(
        kind="suite",
        package="gatemark.suites",
        attribute="SUITE",
        plugin_type=Suite,
        name_of=lambda suite: suite.kind,
    )


@cache
def scorers() -> Registry[Scorer]:
    """The scorers."""
    return Registry(
        kind="scorer",
        package="gatemark.scorers",
        attribute="SCORER",
        plugin_type=Scorer,
        name_of=lambda scorer: scorer.name,
    )


@cache
def extractors() -> Registry[ExtractorPlugin]:
    """The concept extractors."""
    return Registry(
        kind="extractor",
        package="gatemark.runlog.concepts.extractors",
        attribute="EXTRACTOR",
        plugin_type=ExtractorPlugin,
        name_of=lambda extractor: extractor.name,
    )
