"""What a recommendation is compared with: fixture, then a person, then Atlas, then nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from gatemark.advisory.fixtures import Code, Fixture
from gatemark.core.advisory import Taxonomy
from gatemark.core.advisory_record import TIME_PATTERN, ReferenceSource, Severity, Share
from gatemark.core.advisory_rules import is_a_day

LabelSource = Literal["human_label", "atlas_shadow"]
OpaqueRef = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]
Moment = Annotated[str, msgspec.Meta(pattern=TIME_PATTERN, max_length=40)]


class Given(msgspec.Struct, frozen=True):
    """A reference, or that there is none."""

    source: ReferenceSource
    label: str | None = None
    severity: Severity | None = None
    confidence: float | None = None
    decision_ref: str | None = None
    timestamp: str | None = None


class LabelLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a labels file: what a person or Atlas decided about a fixture."""

    fixture_id: Code
    source: LabelSource
    label: Code
    severity: Severity | None = None
    confidence: Share | None = None
    decision_ref: OpaqueRef | None = None
    timestamp: Moment | None = None


TaxonomyOf = Callable[[str], Taxonomy]
"""What the labels of a lane mean, by its input class."""
Labels = Mapping[tuple[str, LabelSource], LabelLine]
NOTHING = Given("missing")


def label_line_of(value: Any) -> LabelLine | str:
    """A line of a labels file, or what is wrong with it."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else "must be an object"
    try:
        line = msgspec.convert(value, LabelLine)
    except msgspec.ValidationError as error:
        return str(error)
    if line.timestamp is not None and not is_a_day(line.timestamp):
        return "timestamp is not a day of the calendar - at `$.timestamp`"
    return line


def reference_for(fixture: Fixture, labels: Labels) -> Given:
    """The first of: the fixture's own decision, a person's label, Atlas' decision, nothing."""
    if fixture.expected is not None:
        return Given(
            "fixture_expected",
            fixture.expected.label,
            fixture.expected.severity,
            decision_ref=fixture.fixture_id,
        )
    sources: tuple[LabelSource, ...] = ("human_label", "atlas_shadow")
    for source in sources:
        line = labels.get((fixture.fixture_id, source))
        if line is not None:
            return Given(
                source,
                line.label,
                line.severity,
                line.confidence,
                line.decision_ref or fixture.fixture_id,
                line.timestamp,
            )
    return NOTHING
