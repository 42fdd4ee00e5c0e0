"""Convert traces to decisions: one per trace, with the active spans as its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from gatemark.release.attribution.decision import (
    MAX_STEPS,
    QUESTION,
    DecisionJudgement,
    DecisionStep,
    Pin,
    PlannedDecision,
    StepCheck,
)
from gatemark.samples.gathering import shorten_value
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.spans import TraceSpan, find_root
from gatemark.samples.trace_samples import NO_ROOT, ReadSpans, read_all

UNVERSIONED: Final = "unversioned"
EVALUATION: Final = "evaluation"
"""The rule pack of verdicts in a trace that do not name their rules."""
LOG: Final = "log"
"""The reviewer of a decision that its own log calls right or wrong."""


class MadeDecisions(NamedTuple):
    """Decisions made from traces, and the traces that could not be converted."""

    decisions: tuple[PlannedDecision, ...]
    refused: tuple[Refusal, ...]


def make_decisions(files: Sequence[ForeignFile], reader: ReadSpans) -> MadeDecisions:
    """Return one decision per trace; its steps are the active spans, in the order they ended.

    Traces show what ran inside what, not what was read from where. A step is assumed to depend on
    the steps inside it, or else on what ended before it began; see `_find_sources`.
    """
    traces = read_all(files, reader)
    refused = list(traces.refused)
    made = []
    for trace, spans in traces.found.items():
        root = find_root(spans)
        steps = [] if root is None else [s for s in spans if s.kind not in (None, "plan")]
        if root is None:
            refused.append(Refusal(files[0].name, f"trace {shorten_value(trace)} {NO_ROOT}"))
        elif trace in traces.contradictions:
            refused.append(Refusal(files[0].name, traces.contradictions[trace]))
        elif not 0 < len(steps) <= MAX_STEPS:
            problem = (
                f"trace {shorten_value(trace)} has {len(steps)} steps, must have 1 to {MAX_STEPS}"
            )
            refused.append(Refusal(files[0].name, problem))
        else:
            made.append(_make_decision(trace, root, spans))
    return MadeDecisions(tuple(made), tuple(refused))


def _make_decision(trace: str, root: TraceSpan, spans: Sequence[TraceSpan]) -> PlannedDecision:
    above = _find_ancestors(spans)
    steps = sorted(
        (span for span in spans if span.kind not in (None, "plan")),
        key=lambda span: (span.end_ns, span.start_ns, -len(above[span.id]), span.id),
    )
    shared = _find_ambiguous_names(steps)
    sources = _find_sources(steps, above)
    output = root.output if root.output is not None else steps[-1].output
    return PlannedDecision(
        id=trace,
        input=root.input,
        output=output,
        steps=tuple(_make_step(span, sources[span.id], shared) for span in steps),
        schema="gatemark.decision/1",
        judgement=_read_judgement(root),
    )


def _read_judgement(root: TraceSpan) -> DecisionJudgement | UnsetType:
    """Return the log's own judgement of the decision, if it also has the right answer."""
    said = [one for one in root.evaluations if one.passed is not None]
    if root.target is None or len(said) != 1:
        return UNSET
    verdict: Literal["right", "wrong"] = "right" if said[0].passed else "wrong"
    return DecisionJudgement(verdict, reviewer=LOG, expected=root.target)


def _find_ancestors(spans: Sequence[TraceSpan]) -> dict[str, tuple[str, ...]]:
    """Return the spans that contain each span, innermost first."""
    parents = {span.id: span.parent for span in spans}
    found: dict[str, tuple[str, ...]] = {}
    for span in spans:
        path = []
        here = span.parent
        while here in parents:
            path.append(here)
            here = parents[here]
        found[span.id] = tuple(path)
    return found


def _find_sources(
    steps: Sequence[TraceSpan], above: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return what each step depends on, by how the spans are nested.

    A step with steps inside it depends on those. Any other depends on what ended before it began
    inside the same parent, or else inside the parent of that, and so on up; so of two agents that
    run in parallel, neither depends on the other. Of several such steps, only those count that none
    of the others has read already.
    """
    found: dict[str, tuple[str, ...]] = {}
    for place, span in enumerate(steps):
        earlier = steps[:place]
        candidates = [one for one in earlier if span.id in above[one.id]]
        if not candidates:
            ended = [one for one in earlier if one.end_ns <= span.start_ns]
            for scope in above[span.id]:
                candidates = [one for one in ended if scope in above[one.id]]
                if candidates:
                    break
        read = {source for one in candidates for source in found[one.id]}
        found[span.id] = tuple(one.id for one in candidates if one.id not in read) or (QUESTION,)
    return found


def _read_pins(span: TraceSpan) -> dict[str, Pin]:
    pins = {
        "model": None if span.model is None else Pin(span.name, span.model),
        "prompt": None if span.prompt is None else Pin(*span.prompt),
        "retrieval": None if span.retrieval is None else Pin(span.name, span.retrieval),
        "tool": None if span.tool is None else Pin(span.tool, UNVERSIONED),
    }
    return {kind: pin for kind, pin in pins.items() if pin is not None}


def _find_ambiguous_names(steps: Sequence[TraceSpan]) -> set[tuple[str, str]]:
    """Return names under which one trace used several versions, such as a client of two models."""
    versions: dict[tuple[str, str], set[str]] = {}
    for span in steps:
        for kind, pin in _read_pins(span).items():
            versions.setdefault((kind, pin.name), set()).add(pin.version)
    return {name for name, found in versions.items() if len(found) > 1}


def _make_step(
    span: TraceSpan, sources: tuple[str, ...], shared: set[tuple[str, str]]
) -> DecisionStep:
    kind: Any = span.kind
    pins: dict[str, Any] = {
        what: Pin(f"{pin.name} ({pin.version})", pin.version) if (what, pin.name) in shared else pin
        for what, pin in _read_pins(span).items()
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
        sources=sources,
        output=UNSET if span.error is not None else span.output,
        error=UNSET if span.error is None else span.error,
        checks=checks or UNSET,
        latency_ms=UNSET if span.latency_ms is None else span.latency_ms,
        **pins,
    )
