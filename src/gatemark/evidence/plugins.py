"""The registries of what evidence brings: schemas, measures and suite kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

from gatemark.core.fold import Measure
from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam, Suite


@cache
def schemas() -> Registry[RecordSchema]:
    """The evidence schemas."""
    return Registry(
        kind="schema",
        places=(
            "gatemark.*.records",
            "gatemark.exams.*.records",
            "gatemark.exams.runlog.records.*",
        ),
        attribute="SCHEMA",
        plugin_type=RecordSchema,
        name_of=lambda schema: schema.name,
    )


def schema_of(exam: Exam[Any]) -> RecordSchema:
    """The schema of an exam's records; one beside the exam is found without loading all others."""
    return schemas().get(exam.schema, near=type(exam).__module__.split(".")[-2])


@cache
def measures() -> Registry[Measure[Any]]:
    """The measures."""
    return Registry(
        kind="measure",
        places=(
            "gatemark.*.measure",
            "gatemark.exams.*.measure",
            "gatemark.exams.agreement.*",
        ),
        attribute="MEASURE",
        plugin_type=Measure,
        name_of=lambda measure: measure.name,
    )


@cache
def suites() -> Registry[Suite]:
    """The suite kinds."""
    return Registry(
        kind="suite",
        places=("gatemark.packs.suites.*", "gatemark.exams.*.exam"),
        attribute="SUITE",
        plugin_type=Suite,
        name_of=lambda suite: suite.kind,
    )
