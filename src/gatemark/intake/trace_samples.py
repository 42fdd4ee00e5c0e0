"""Traces as samples and as decisions: one of each per trace, and every span accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from gatemark.core.decision import MAX_STEPS, QUESTION, Decision, Pin, Step
from gatemark.core.errors import BadInputError
from gatemark.intake.foreign import Arm, ForeignFile, Imported, ReadOptions, Refusal
from gatemark.intake.gathering import Gathering, error_of
from gatemark.intake.spans import Span, by_trace, root_of

ReadSpans = Callable[[ForeignFile], Iterator[tuple[str, Span | Refusal]]]
UNVERSIONED: Final = "unversioned"
NO_ROOT: Final = "has no single root span; other spans may be in another file"


def read_all(files: Sequence[ForeignFile], reader: ReadSpans) -> tuple[list[Span], list[Refusal]]:
    """Every span of some files, and what could not be read."""
    found: list[Span] = []
    refused: list[Refusal] = []
    for file in files:
        for _, span in reader(file):
            if isinstance(span, Refusal):
                refused.append(span)
            else:
                found.append(span)
    return found, refused


def trace_arms(files: Sequence[ForeignFile], reader: ReadSpans) -> tuple[Arm, ...]:
    """Traces are one experiment."""
    found, _ = read_all(files, reader)
    return (Arm("traces", len(by_trace(found))),)


def trace_samples(
    tool: str, files: Sequence[ForeignFile], options: ReadOptions, reader: ReadSpans
) -> Imported:
    """One sample per trace: what its root was asked and answered, with the scores it carries."""
    place = files[0].name
    gathering = Gathering(tool, place, options)
    found, refused = read_all(files, reader)
    for refusal in refused:
        gathering.refuse(refusal)
    for trace, spans in by_trace(found).items():
        root = root_of(spans)
        if root is None:
            gathering.refuse(Refusal(place, f"trace {trace!r} {NO_ROOT}"))
            continue
        scores = {one.name: one.value for span in spans for one in span.evaluations}
        gathering.add(
            place,
            item=gathering.chosen_id(place, {"trace": trace, **root.tags}, trace),
            given=root.input,
            output=root.output,
            scores=dict(scores),
            error=None if root.error is None else error_of(root.error, "trace"),
            latency_ms=root.latency_ms,
            tags=_tags(root, spans),
        )
    return gathering.finish(headline=gathering.only_score())


def _tags(root: Span, spans: Sequence[Span]) -> dict[str, str]:
    models = sorted({span.model for span in spans if span.model})
    tags = {"name": root.name, **root.tags}
    if models:
        tags["model"] = ", ".join(models)
    return tags


def decisions(files: Sequence[ForeignFile], reader: ReadSpans) -> tuple[Decision, ...]:
    """One decision per trace, its steps the spans that did something, in the order they started.

    Traces tell what ran inside what, not what was read from where. A step is taken to rest on
    the step that ended last before it began, or on the question.
    """
    found, refused = read_all(files, reader)
    problems = [f"{refusal.place}: {refusal.reason}" for refusal in refused]
    made = []
    for trace, spans in by_trace(found).items():
        root = root_of(spans)
        steps = [] if root is None else [s for s in spans if s.kind not in (None, "plan")]
        if root is None:
            problems.append(f"trace {trace!r} {NO_ROOT}")
        elif not 0 < len(steps) <= MAX_STEPS:
            problems.append(f"trace {trace!r} has {len(steps)} steps, must have 1 to {MAX_STEPS}")
        else:
            made.append(_decision(trace, root, steps))
    if problems:
        raise BadInputError(tuple(problems[:20]), unlisted_count=max(0, len(problems) - 20))
    return tuple(made)


def _decision(trace: str, root: Span, steps: Sequence[Span]) -> Decision:
    last = steps[-1]
    return Decision(
        id=trace,
        input=root.input,
        output=root.output if root.output is not None else last.output,
        steps=tuple(_step(span, steps) for span in steps),
        schema="gatemark.decision/1",
    )


def _step(span: Span, steps: Sequence[Span]) -> Step:
    before = [one for one in steps if one.end_ns <= span.start_ns and one.id != span.id]
    source = max(before, key=lambda one: (one.end_ns, one.start_ns, one.id), default=None)
    kind: Any = span.kind
    return Step(
        id=span.id,
        kind=kind,
        name=span.name,
        sources=(QUESTION if source is None else source.id,),
        output=UNSET if span.error is not None else span.output,
        error=UNSET if span.error is None else span.error,
        model=UNSET if span.model is None else Pin(span.name, span.model),
        prompt=UNSET if span.prompt is None else Pin(*span.prompt),
        retrieval=UNSET if span.retrieval is None else Pin(span.name, span.retrieval),
        tool=UNSET if span.tool is None else Pin(span.tool, UNVERSIONED),
        latency_ms=span.latency_ms,
    )
