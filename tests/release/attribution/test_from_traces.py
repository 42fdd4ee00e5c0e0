"""Decisions from traces: spans become steps, and nesting shows what each rests on."""

from __future__ import annotations

import json
from typing import Any, get_args

from gatemark.release.attribution.decision import PlannedDecision, StepKind
from gatemark.release.attribution.from_traces import make_decisions
from gatemark.samples.importer import ForeignFile
from gatemark.samples.importers.otlp import read_spans
from gatemark.samples.spans import SpanKind


def test_spans_and_steps_have_the_same_kinds() -> None:
    assert get_args(SpanKind) == get_args(StepKind)


def traced(*spans: tuple[str, str | None, str, int, int]) -> PlannedDecision:
    """The decision of one OpenInference trace, told as (id, parent, kind, start, end)."""
    told: list[dict[str, Any]] = [
        {
            "traceId": "t",
            "spanId": name,
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": [{"key": "openinference.span.kind", "value": {"stringValue": kind}}],
        }
        for name, parent, kind, start, end in spans
    ]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": told}]}]}
    file = ForeignFile(name="t.json", data=json.dumps(document).encode())
    (found,) = make_decisions([file], read_spans).decisions
    return found


def sources(decision: PlannedDecision) -> dict[str, tuple[str, ...]]:
    return {step.id: step.sources for step in decision.steps}


def test_steps_in_a_row_rest_on_each_other() -> None:
    found = traced(
        ("root", None, "AGENT", 0, 9),
        ("a", "root", "LLM", 1, 2),
        ("b", "root", "TOOL", 3, 4),
        ("c", "root", "LLM", 5, 6),
    )
    assert sources(found) == {"a": ("input",), "b": ("a",), "c": ("b",)}


def test_a_tool_rests_on_the_steps_inside_it_and_they_on_what_came_before_it() -> None:
    found = traced(
        ("root", None, "AGENT", 0, 20),
        ("ask", "root", "LLM", 1, 2),
        ("tool", "root", "TOOL", 3, 10),
        ("inner", "tool", "LLM", 4, 5),
        ("search", "tool", "RETRIEVER", 6, 7),
        ("answer", "root", "LLM", 11, 12),
    )
    assert [step.id for step in found.steps] == ["ask", "inner", "search", "tool", "answer"]
    assert sources(found) == {
        "ask": ("input",),
        "inner": ("ask",),
        "search": ("inner",),
        "tool": ("search",),
        "answer": ("tool",),
    }


def test_agents_side_by_side_do_not_rest_on_each_other_and_both_feed_what_follows() -> None:
    found = traced(
        ("root", None, "AGENT", 0, 30),
        ("plan", "root", "LLM", 1, 2),
        ("left", "root", "AGENT", 3, 12),
        ("right", "root", "AGENT", 3, 14),
        ("l1", "left", "LLM", 4, 5),
        ("r1", "right", "LLM", 4, 6),
        ("l2", "left", "TOOL", 8, 11),
        ("r2", "right", "TOOL", 9, 13),
        ("sum", "root", "LLM", 15, 16),
    )
    assert sources(found) == {
        "plan": ("input",),
        "l1": ("plan",),
        "r1": ("plan",),
        "l2": ("l1",),
        "r2": ("r1",),
        "sum": ("l2", "r2"),
    }


def test_steps_without_any_duration_keep_an_order_in_which_sources_come_first() -> None:
    found = traced(
        ("root", None, "AGENT", 0, 0),
        ("b", "root", "LLM", 0, 0),
        ("a", "root", "LLM", 0, 0),
        ("tool", "root", "TOOL", 0, 0),
        ("inner", "tool", "LLM", 0, 0),
    )
    seen = {"input"}
    for step in found.steps:
        assert set(step.sources) <= seen
        seen.add(step.id)
