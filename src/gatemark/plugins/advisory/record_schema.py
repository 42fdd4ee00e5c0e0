"""``npu_advisory_decision_v1``: one recommendation of an advisory service, and its comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.record_rules import publish, words_of_patterns
from gatemark.plugins.advisory.record import SCHEMA_NAME, AdvisoryDecision
from gatemark.plugins.advisory.record_columns import read_fields
from gatemark.plugins.advisory.record_examples import BAD, GOOD
from gatemark.plugins.advisory.record_rules import BREACHES, CONTRADICTIONS, FIELD_RULES


def are_all_sound(batch: Sequence[AdvisoryDecision]) -> bool:
    """Whether no record of a batch contradicts itself."""
    return CONTRADICTIONS.hold_for_all(read_fields(batch))


SCHEMA: Final = RecordSchema(
    name=SCHEMA_NAME,
    summary="One recommendation of an advisory service, with what it was compared to.",
    forms=(
        Form(
            name="decision",
            type=AdvisoryDecision,
            marks=frozenset({"schema_version", "decision_id"}),
            identity="decision_id",
            good=GOOD,
            bad=BAD,
            rules=(CONTRADICTIONS.find_problems,),
            breaches=(BREACHES.find_problems,),
            proof=are_all_sound,
            shows_values=False,
            looks=words_of_patterns(AdvisoryDecision),
            published=publish((*FIELD_RULES, *BREACHES.rules)),
        ),
    ),
)
