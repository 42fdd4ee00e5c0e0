"""The registries of everything that is one file per thing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gatemark.core.exam import Suite
from gatemark.core.fold import Measure
from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry
from gatemark.exams.runlog.concepts.port import ExtractorPlugin
from gatemark.scorers.scorer import Scorer

if TYPE_CHECKING:
    from gatemark.drift.judging.detector import Detector


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
        package="gatemark.packs.suites",
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
        package="gatemark.exams.runlog.concepts.extractors",
        attribute="EXTRACTOR",
        plugin_type=ExtractorPlugin,
        name_of=lambda extractor: extractor.name,
    )


@cache
def detectors() -> Registry[Detector]:
    """The detectors of drift."""
    # Its types need numpy, which most commands can do without.
    from gatemark.drift.judging.detector import Detector  # noqa: PLC0415

    return Registry(
        kind="detector",
        package="gatemark.drift.detectors",
        attribute="DETECTOR",
        plugin_type=Detector,
        name_of=lambda detector: detector.name,
    )
