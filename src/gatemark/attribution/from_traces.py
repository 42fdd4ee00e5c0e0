"""Decisions from traces: one per trace, its steps the spans that did something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from gatemark.attribution.decision import (
    MAX_STEPS,
    QUESTION,
    DecisionStep,
    Pin,
    PlannedDecision,
    StepCheck,
)
from gatemark.samples.gathering import short_text
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.spans import TraceSpan, root_of
from gatemark.samples.trace_samples import NO_ROOT, ReadSpans, read_all

UNVERSIONED: Final = "unversioned"
EVALUATION: Final = "evaluation"
"""The rule pack of verdicts that a trace carries without saying whose rules they are."""


class MadeDecisions(NamedTuple):
    """Decisions made of traces, and traces of which none could be made."""

    decisions: tuple[PlannedDecision, ...]
    refused: tuple[Refusal, ...]


def decisions(files: Sequence[ForeignFile], reader: ReadSpans) -> MadeDecisions:
    """One decision per trace, its steps the spans that did something, in the order they started.

    Traces tell what ran inside what, not what was read from where. A step is taken to rest on
    the step that ended last before it began, or on the question.
    """
    traces = read_all(files, reader)
    refused = list(traces.refused)
    made = []
    for trace, spans in traces.found.items():
        root = root_of(spans)
        steps = [] if root is None else [s for s in spans if s.kind not in (None, "plan")]
        if root is None:
            refused.append(Refusal(files[0].name, f"trace {short_text(trace)} {NO_ROOT}"))
        elif not 0 < len(steps) <= MAX_STEPS:
            problem = (
                f"trace {short_text(trace)} has {len(steps)} steps, must have 1 to {MAX_STEPS}"
            )
            refused.append(Refusal(files[0].name, problem))
        else:
            made.append(_decision(trace, root, steps))
    return MadeDecisions(tuple(made), tuple(refused))


def _decision(trace: str, root: TraceSpan, steps: Sequence[TraceSpan]) -> PlannedDecision:
    last = steps[-1]
    shared = _names_of_several(steps)
    return PlannedDecision(
        id=trace,
        input=root.input,
        output=root.output if root.output is not None else last.output,
        steps=tuple(_step(span, steps[:n], shared) for n, span in enumerate(steps)),
        schema="gatemark.decision/1",
    )


def _pins(span: TraceSpan) -> dict[str, Pin]:
    pins = {
        "model": None if span.model is None else Pin(span.name, span.model),
        "prompt": None if span.prompt is None else Pin(*span.prompt),
        "retrieval": None if span.retrieval is None else Pin(span.name, span.retrieval),
        "tool": None if span.tool is None else Pin(span.tool, UNVERSIONED),
    }
    return {kind: pin for kind, pin in pins.items() if pin is not None}


def _names_of_several(steps: Sequence[TraceSpan]) -> set[tuple[str, str]]:
    """Names under which one trace used several versions, such as a client of two models."""
    versions: dict[tuple[str, str], set[str]] = {}
    for span in steps:
        for kind, pin in _pins(span).items():
            versions.setdefault((kind, pin.name), set()).add(pin.version)
    return {name for name, found in versions.items() if len(found) > 1}


def _step(
    span: TraceSpan, earlier: Sequence[TraceSpan], shared: set[tuple[str, str]]
) -> DecisionStep:
    before = [one for one in earlier if one.end_ns <= span.start_ns]
    source = max(before, key=lambda one: (one.end_ns, one.start_ns, one.id), default=None)
    kind: Any = span.kind
    pins: dict[str, Any] = {
        what: Pin(f"{pin.name} ({pin.version})", pin.version) if (what, pin.name) in shared else pin
        for what, pin in _pins(span).items()
    }
    checks = tuple(
        StepCheck(EVALUATION, one.name, "pass" if one.passed else "fail")
        for one in span.evaluations
        if one.passed is not None
    )
    return DecisionStep(
        id=span.id,
        kind=kind,
        name=span.name,
        sources=(QUESTION if source is None else source.id,),
        output=UNSET if span.error is not None else span.output,
        error=UNSET if span.error is None else span.error,
        checks=checks or UNSET,
        latency_ms=span.latency_ms,
        **pins,
    )
