"""What a recommendation is compared with: fixture, then a person, then Atlas, then nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from gatemark.advisory.fixtures import Code, Fixture
from gatemark.core.advisory import Taxonomy
from gatemark.core.advisory_record import ReferenceSource, Severity, Share

LabelSource = Literal["human_label", "atlas_shadow"]
OpaqueRef = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]
Moment = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$"
    ),
]


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


Labels = Mapping[tuple[str, LabelSource], LabelLine]
NOTHING = Given("missing")


def label_line_of(value: Any, taxonomy: Taxonomy) -> LabelLine | str:
    """A line of a labels file, or what is wrong with it."""
    if not isinstance(value, dict):
        return value if isinstance(value, str) else "must be an object"
    try:
        line = msgspec.convert(value, LabelLine)
    except msgspec.ValidationError as error:
        return str(error)
    if not taxonomy.knows(line.label):
        return f"label {line.label!r} must be one of {', '.join(taxonomy.labels)}"
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
