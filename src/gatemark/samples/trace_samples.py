"""Turn traces into samples: one per trace, with every span accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from gatemark.samples.gathering import Gathering, error_of, short_text
from gatemark.samples.importer import (
    ForeignFile,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
    Refusal,
)
from gatemark.samples.spans import TraceSpan, by_trace, root_of

ReadSpans = Callable[[ForeignFile], Iterator[tuple[str, TraceSpan | Refusal]]]
NO_ROOT: Final = "has no single root span; some spans may be in another file"


class Traces(NamedTuple):
    """Spans by trace, refused spans, and the number of repeated spans."""

    found: dict[str, list[TraceSpan]]
    refused: list[Refusal]
    repeats: int


def read_all(files: Sequence[ForeignFile], reader: ReadSpans) -> Traces:
    """Read every span of some files.

    Collectors deliver at least once, so a span can occur twice. A trace with two different spans
    under one id is refused.
    """
    known: dict[tuple[str, str], TraceSpan] = {}
    torn: set[str] = set()
    refused: list[Refusal] = []
    repeats = 0
    for file in files:
        for place, span in reader(file):
            if isinstance(span, Refusal):
                refused.append(span)
                continue
            before = known.setdefault((span.trace, span.id), span)
            repeats += before is not span and before == span
            if before != span and span.trace not in torn:
                problem = f"trace {short_text(span.trace)} has two spans {short_text(span.id)}"
                refused.append(Refusal(place, problem))
                torn.add(span.trace)
    whole = (span for span in known.values() if span.trace not in torn)
    return Traces(by_trace(whole), refused, repeats)


def trace_importer(
    name: str, summary: str, sniff: Callable[[bytes, str], bool], reader: ReadSpans
) -> Importer:
    """Return an importer of one sample per trace; spans of a trace can be in several files."""
    return Importer(
        name=name,
        summary=summary,
        sniff=sniff,
        arms=lambda files, _options: trace_arms(files, reader),
        read=lambda files, options: trace_samples(name, files, options, reader),
        joint=True,
    )


def trace_arms(files: Sequence[ForeignFile], reader: ReadSpans) -> tuple[LogExperiment, ...]:
    """Return the only experiment of traces."""
    return (LogExperiment("traces", len(read_all(files, reader).found)),)


def trace_samples(
    tool: str, files: Sequence[ForeignFile], options: ReadOptions, reader: ReadSpans
) -> Imported:
    """Read one sample per trace: the input and output of its root, with the trace's scores."""
    place = files[0].name
    gathering = Gathering(tool, place, options)
    traces = read_all(files, reader)
    for refusal in traces.refused:
        gathering.refuse(refusal)
    if traces.repeats:
        gathering.note(f"{traces.repeats} spans are repeated and counted once")
    mixed = 0
    for trace, spans in traces.found.items():
        root = root_of(spans)
        if root is None:
            gathering.refuse(Refusal(place, f"trace {short_text(trace)} {NO_ROOT}"))
            continue
        scores, unclear = _scores(root, spans)
        mixed += unclear
        gathering.add(
            place,
            item=gathering.chosen_id(place, {"trace": trace, **root.tags}, trace),
            given=root.input,
            target=root.target,
            output=root.output,
            scores=scores,
            error=None if root.error is None else error_of(root.error, "trace"),
            latency_ms=root.latency_ms,
            tags=_tags(root, spans),
        )
    if mixed:
        gathering.note(f"{mixed} scores have several values in one trace and are left out")
    return gathering.finish(headline=gathering.only_score())


def _scores(root: TraceSpan, spans: Sequence[TraceSpan]) -> tuple[dict[str, float | None], int]:
    """Return the root's own scores, and others on which all spans agree."""
    own = {one.name: one.value for one in root.evaluations if one.value is not None}
    values: dict[str, set[float]] = {}
    for span in spans:
        for one in span.evaluations:
            if one.value is not None and one.name not in own:
                values.setdefault(one.name, set()).add(one.value)
    agreed: dict[str, float | None] = {
        name: next(iter(said)) for name, said in values.items() if len(said) == 1
    }
    return agreed | own, len(values) - len(agreed)


def _tags(root: TraceSpan, spans: Sequence[TraceSpan]) -> dict[str, str]:
    models = sorted({span.model for span in spans if span.model})
    tags = {"name": root.name, **root.tags}
    if models:
        tags["model"] = ", ".join(models)
    return tags
