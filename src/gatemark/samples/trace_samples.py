"""Turn traces into samples: one per trace, with every span accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from gatemark.samples.gathering import Gathering, make_error, shorten_value
from gatemark.samples.importer import (
    ForeignFile,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
    Refusal,
)
from gatemark.samples.read_samples import LABEL, VERDICTS
from gatemark.samples.spans import (
    TraceEvaluation,
    TraceScore,
    TraceSpan,
    UnreadRecords,
    find_root,
    group_by_trace,
)

TraceItem = TraceSpan | TraceEvaluation | UnreadRecords | Refusal
ReadSpans = Callable[[ForeignFile], Iterator[tuple[str, TraceItem]]]
SpanKey = tuple[str, str]
NO_ROOT: Final = "has no single root span that holds all others; some may be in another file"
ELSEWHERE: Final = "which is in none of these files; name the file that holds it too"


class Traces(NamedTuple):
    """Spans by trace, what could not be read, and what else there is to say about the files.

    ``contradictions`` are spans that have two values of one score, by their trace.
    """

    found: dict[str, list[TraceSpan]]
    refused: list[Refusal]
    notes: list[str]
    contradictions: dict[str, str]


def read_all(files: Sequence[ForeignFile], reader: ReadSpans) -> Traces:
    """Every span of some files, each with the evaluations that name it in any of the files.

    Collectors deliver at least once, so a span can occur twice. A trace with two different spans
    under one id is refused.
    """
    known: dict[SpanKey, TraceSpan] = {}
    torn: set[str] = set()
    refused: list[Refusal] = []
    evaluations: list[tuple[str, TraceEvaluation]] = []
    repeats = others = 0
    for file in files:
        for place, item in reader(file):
            if isinstance(item, Refusal):
                refused.append(item)
            elif isinstance(item, UnreadRecords):
                others += item.count
            elif isinstance(item, TraceEvaluation):
                evaluations.append((place, item))
            else:
                before = known.setdefault((item.trace, item.id), item)
                repeats += before is not item and before == item
                if before != item and item.trace not in torn:
                    problem = (
                        f"trace {shorten_value(item.trace)} has two spans {shorten_value(item.id)}"
                    )
                    refused.append(Refusal(place, problem))
                    torn.add(item.trace)
    notes = [f"{repeats} spans are repeated and counted once"] if repeats else []
    if others:
        notes.append(f"{others} log records are not evaluations and were not read")
    if evaluations:
        known, orphans, again = _join_evaluations(known, evaluations)
        refused += orphans
        if again:
            notes.append(f"{again} evaluations are repeated and counted once")
    whole = [span for span in known.values() if span.trace not in torn]
    return Traces(group_by_trace(whole), refused, notes, _find_contradictions(whole))


def _join_evaluations(
    known: Mapping[SpanKey, TraceSpan], evaluations: Sequence[tuple[str, TraceEvaluation]]
) -> tuple[dict[SpanKey, TraceSpan], list[Refusal], int]:
    """The spans with the evaluations that name them, those that name none, and repeats."""
    places = _Places(known)
    added: dict[SpanKey, list[TraceScore]] = {}
    orphans: list[Refusal] = []
    repeats = 0
    for place, evaluation in evaluations:
        key = places.of(evaluation)
        if isinstance(key, str):
            name = shorten_value(evaluation.score.name)
            orphans.append(Refusal(place, f"evaluation {name} {key}"))
            continue
        scores = added.setdefault(key, list(known[key].evaluations))
        if evaluation.score in scores:
            repeats += 1
        else:
            scores.append(evaluation.score)
    changed = {key: replace(known[key], evaluations=tuple(scores)) for key, scores in added.items()}
    return {**known, **changed}, orphans, repeats


class _Places:
    """Where evaluations belong.

    Ids of spans are hexadecimal, and their case says nothing. An evaluation that names a
    response belongs to the span with that response: the span around the record may be the
    evaluator's own.
    """

    def __init__(self, known: Mapping[SpanKey, TraceSpan]) -> None:
        self._known = known
        self._keys = {(trace.casefold(), span.casefold()): (trace, span) for trace, span in known}
        self._responses: dict[str, list[SpanKey]] = {}
        self._traces: dict[str, list[TraceSpan]] = {}
        for key, span in known.items():
            self._traces.setdefault(span.trace.casefold(), []).append(span)
            if span.response is not None:
                self._responses.setdefault(span.response, []).append(key)

    def of(self, evaluation: TraceEvaluation) -> SpanKey | str:
        """The span of an evaluation, or what is wrong with what it names."""
        trace, span = evaluation.trace, evaluation.span
        around = None
        if trace is not None and span is not None:
            around = self._keys.get((trace.casefold(), span.casefold()))
        if evaluation.response is not None:
            return self._find_by_response(evaluation.response, around)
        if around is not None:
            return around
        if trace is None:
            return "names neither a span nor a gen_ai.response.id, so it belongs to no trace"
        if span is not None:
            return f"names span {shorten_value(span)} of trace {shorten_value(trace)}, {ELSEWHERE}"
        root = find_root(self._traces.get(trace.casefold(), ()))
        if root is None:
            return f"names trace {shorten_value(trace)}, whose root is in none of these files"
        return root.trace, root.id

    def _find_by_response(self, response: str, around: SpanKey | None) -> SpanKey | str:
        keys = self._responses.get(response, [])
        if around in keys:
            return around
        own = None if around is None else self._known[around]
        if own is not None and own.response is not None:
            return (
                f"names response {shorten_value(response)} and span {shorten_value(own.id)}, "
                f"whose response is {shorten_value(own.response)}"
            )
        if own is not None and not keys and own.kind != "verifier":
            return own.trace, own.id
        if not keys:
            return f"names response {shorten_value(response)}, {ELSEWHERE}"
        if len({trace for trace, _ in keys}) > 1:
            return f"names response {shorten_value(response)}, which several traces have"
        return max(keys, key=lambda key: (self._known[key].start_ns, key))


def _find_contradictions(spans: Iterable[TraceSpan]) -> dict[str, str]:
    """One sentence for each trace in which a span has two different values of one score."""
    found: dict[str, str] = {}
    for span in spans:
        values: dict[str, TraceScore] = {}
        for one in span.evaluations:
            if one.number is None:
                continue
            first = values.setdefault(one.name, one)
            verdicts = {first.passed, one.passed} - {None}
            if first.number != one.number or len(verdicts) > 1:
                found.setdefault(
                    span.trace,
                    f"trace {shorten_value(span.trace)}: span {shorten_value(span.id)} has two "
                    f"different results of {shorten_value(one.name)}",
                )
    return found


def make_trace_importer(
    name: str, summary: str, sniff: Callable[[bytes, str], bool], reader: ReadSpans
) -> Importer:
    """Return an importer of one sample per trace; spans of a trace can be in several files."""
    return Importer(
        name=name,
        summary=summary,
        sniff=sniff,
        arms=lambda files, _options: read_trace_arms(files, reader),
        read=lambda files, options: read_trace_samples(name, files, options, reader),
        joint=True,
    )


def read_trace_arms(files: Sequence[ForeignFile], reader: ReadSpans) -> tuple[LogExperiment, ...]:
    """Return the only experiment of traces."""
    return (LogExperiment("traces", len(read_all(files, reader).found)),)


def read_trace_samples(
    tool: str, files: Sequence[ForeignFile], options: ReadOptions, reader: ReadSpans
) -> Imported:
    """Read one sample per trace: the input and output of its root, with the trace's scores."""
    place = files[0].name
    gathering = Gathering(tool, place, options)
    traces = read_all(files, reader)
    for refusal in traces.refused:
        gathering.refuse(refusal)
    for note in traces.notes:
        gathering.note(note)
    for reason in traces.contradictions.values():
        gathering.note_contradiction(reason)
    mixed = 0
    for trace, spans in traces.found.items():
        root = find_root(spans)
        if root is None:
            gathering.refuse(Refusal(place, f"trace {shorten_value(trace)} {NO_ROOT}"))
            continue
        scores, unclear = _collect_scores(root, spans)
        mixed += unclear
        gathering.add(
            place,
            item=gathering.choose_id(place, {"trace": trace, **root.tags}, trace),
            given=root.input,
            target=root.target,
            output=root.output,
            scores=scores,
            error=None if root.error is None else make_error(root.error, "trace"),
            latency_ms=root.latency_ms,
            tags={**_collect_tags(root, spans), **_collect_labels(root, spans, scores)},
        )
    if mixed:
        gathering.note(f"{mixed} scores have several values in one trace and are left out")
    return gathering.finish(headline=gathering.only_score())


def _collect_scores(
    root: TraceSpan, spans: Sequence[TraceSpan]
) -> tuple[dict[str, float | None], int]:
    """The root's own scores, and others where all spans of the trace say the same.

    A score that has no number, because its evaluation failed, is null.
    """
    own, elsewhere = _collect_values([root]), _collect_values(spans)
    found: dict[str, float | None] = {}
    mixed = 0
    for name in elsewhere:
        values = own.get(name) or elsewhere[name]
        mixed += len(values) > 1
        if len(values) <= 1:
            found[name] = next(iter(values), None)
    return found, mixed


def _collect_values(spans: Sequence[TraceSpan]) -> dict[str, set[float]]:
    values: dict[str, set[float]] = {}
    for span in spans:
        for one in span.evaluations:
            values.setdefault(one.name, set()).update([] if one.number is None else [one.number])
    return values


def _collect_labels(
    root: TraceSpan, spans: Sequence[TraceSpan], scores: Mapping[str, float | None]
) -> dict[str, str]:
    """The verdicts that stand beside graded scores: they say which scores are the better ones."""
    found: dict[str, set[bool]] = {}
    for span in (*spans, root):
        for one in span.evaluations:
            if one.passed is not None and scores.get(one.name) not in (None, float(one.passed)):
                found.setdefault(one.name, set()).add(one.passed)
    words = {passed: word for word, passed in VERDICTS.items()}
    return {
        f"{LABEL}{name}": words[next(iter(verdicts))]
        for name, verdicts in found.items()
        if len(verdicts) == 1
    }


def _collect_tags(root: TraceSpan, spans: Sequence[TraceSpan]) -> dict[str, str]:
    models = sorted({span.model for span in spans if span.model})
    tags = {"name": root.name, **root.tags}
    if models:
        tags["model"] = ", ".join(models)
    return tags
