"""``exaid.trace``: the schema of traces."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import RecordSchema
from gatemark.plugins.runlog.records.examples import ExamplesOf
from gatemark.plugins.runlog.records.forms import make_form
from gatemark.plugins.runlog.records.trace import StreamDelta, TraceMeta, TurnBoundary
from gatemark.plugins.runlog.records.trace_file_rules import TRACE_RULES, TraceRules
from gatemark.plugins.runlog.records.trace_rules import BOUNDARY_RULES

_EXAMPLES: Final = ExamplesOf("trace", "2.0")

SCHEMA: Final = RecordSchema(
    name="exaid.trace",
    summary="What several agents said about one case, delta by delta, with the bounds of turns.",
    tag="record_type",
    across=TraceRules,
    file_rules=TRACE_RULES,
    forms=(
        make_form(TraceMeta, _EXAMPLES),
        make_form(StreamDelta, _EXAMPLES, identity="agent_id"),
        make_form(TurnBoundary, _EXAMPLES, BOUNDARY_RULES, identity="agent_id"),
    ),
    good_files=_EXAMPLES.good_files,
    bad_files=_EXAMPLES.bad_files,
)
