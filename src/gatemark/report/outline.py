"""The content of a human-readable report as plain strings, before escaping and layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Final

import msgspec

from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Finding, Rule
from gatemark.core.result import (
    Curves,
    Figure,
    Forest,
    Matrix,
    Reliability,
    ReliabilityBin,
    Result,
    Shifts,
    Stacks,
    Table,
    Timeline,
)
from gatemark.report import words

MATRIX_LABELS_MAX: Final = 16


class Grid(msgspec.Struct, frozen=True):
    """A table: texts, which columns are numeric, and how many rows were cut."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    more_rows: int = 0
    row_heads: bool = False


class MeasurementLine(msgspec.Struct, frozen=True):
    """One measurement as text; ``value`` is None if ``reason`` says why it is missing."""

    source: Measurement
    name: str
    scope: str | None
    direction: str
    arrow: str
    n: str
    value: str | None
    reason: str | None
    interval: str | None
    interval_source: str | None
    notes: tuple[str, ...]


class BenchLine(msgspec.Struct, frozen=True):
    """A weighted number over the whole pack; ``reason`` is used if there is no value."""

    name: str
    value: str | None
    reason: str
    bound: str | None


def measurement_lines(result: Result) -> tuple[MeasurementLine, ...]:
    """Return every measurement of the result as text."""
    return tuple(_make_measurement_line(item) for item in result.measurements)


def _make_measurement_line(item: Measurement) -> MeasurementLine:
    shown = item.interval
    return MeasurementLine(
        source=item,
        name=item.name,
        scope=item.scope,
        direction=words.DIRECTION_WORDS[item.direction],
        arrow=words.DIRECTION_ARROWS[item.direction],
        n=f"{item.n:,}",
        value=None if item.value is None else words.amount(item.value, item.unit),
        reason=None if item.reason is None else str(item.reason),
        interval=None if shown is None else words.interval(shown, item.unit),
        interval_source=None if shown is None else words.interval_source(shown),
        notes=_list_notes(item),
    )


def _list_notes(item: Measurement) -> tuple[str, ...]:
    others = [
        f"also {words.interval(other, item.unit)}, {words.interval_source(other)}"
        for other in item.other_intervals
    ]
    excluded = [f"{count:,} {reason}" for reason, count in item.excluded.items() if count]
    return (*others, *(["excluded: " + ", ".join(excluded)] if excluded else []))


def findings_about(result: Result, item: Measurement) -> tuple[Finding, ...]:
    """Return the findings about this measurement; those of another scope are left out."""
    scopes = {rule.id: rule.scope for rule in _walk_rules(result.policy.rules)}
    return tuple(
        finding
        for finding in result.findings
        if finding.metric == item.name and scopes.get(finding.rule, item.scope) == item.scope
    )


def _walk_rules(rules: Iterable[Rule]) -> Iterable[Rule]:
    for rule in rules:
        yield rule
        yield from _walk_rules(rule.fallback_rules)


def bench_lines(result: Result) -> tuple[BenchLine, ...]:
    """Return the bench score and the regression that counts, if the result has them."""
    floor, top = result.policy.score_min, result.policy.regression_max
    is_pooled = any(rule.metric == "bench_regression" for rule in result.policy.rules)
    return tuple(
        BenchLine(
            name=name,
            value=None if bench.value is None else words.number(bench.value),
            reason=str(bench.reason or "no reason was recorded"),
            bound=None if limit is None else f"{sign} {words.shortest(limit)}",
        )
        for name, bench, sign, limit in (
            ("Bench score", result.bench, "≥", floor),
            ("Pooled regression" if is_pooled else "Worst regression", result.regression, "≤", top),
        )
        if bench is not None
    )


def waiver_lines(result: Result) -> tuple[tuple[str, str, str, str], ...]:
    """Return rule, owner, reason and expiry of every waiver."""
    return tuple(
        (
            waiver.rule,
            waiver.owner,
            waiver.reason,
            words.moment(waiver.expires_at)
            + (" (already over)" if waiver.expired(result.finished_at) else ""),
        )
        for waiver in result.waivers
    )


def describe_subject(result: Result) -> tuple[tuple[str, str, str | None], ...]:
    """Return label, text and digest of what was judged, when and by whom."""
    lines: list[tuple[str, str, str | None]] = [
        ("Pack", f"{result.pack.name} version {result.pack.version}", result.pack.digest)
    ]
    for label, asset in (("Candidate", result.candidate), ("Baseline", result.baseline)):
        if asset is not None:
            lines.append((label, asset.id, asset.digest))
    lines.append(("Judged", f"{words.moment(result.finished_at)} by {result.actor}", None))
    lines.append(("Took", f"{words.duration(result)}; {words.cost(result.cost)}", None))
    return tuple(lines)


def tabulate_account(evidence: Sequence[Evidence]) -> Grid:
    """Return how many records arrived, and how many were used, left out or missing."""
    counts = ("received", "accepted", "rejected", "missing", "duplicates")
    return Grid(
        title="Evidence account",
        columns=("Evidence", *(count.capitalize() for count in counts), "Expected"),
        rows=tuple(
            (
                str(position),
                *(f"{getattr(body, count):,}" for count in counts),
                "not pinned" if body.expected is None else f"{body.expected:,}",
            )
            for position, body in enumerate(evidence, start=1)
        ),
        numeric=(False, *(True,) * 6),
        row_heads=True,
    )


def evidence_files(evidence: Sequence[Evidence]) -> tuple[tuple[str, str, str, str], ...]:
    """Return evidence number, name, size and digest of every input file."""
    return tuple(
        (str(position), file.name, f"{file.byte_count:,}", file.digest)
        for position, body in enumerate(evidence, start=1)
        for file in body.files
    )


def evidence_checks(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """Return the checks that the evidence passed through."""
    return tuple(
        f"evidence {position}, {name}: {outcome}"
        for position, body in enumerate(evidence, start=1)
        for name, outcome in body.checks.items()
    )


def figure_grid(figure: Figure, *, rows_max: int) -> Grid:
    """Return a figure as a table with at most ``rows_max`` rows."""
    if isinstance(figure, Table):
        shown = figure.rows[:rows_max]
        width = range(len(figure.columns))
        return Grid(
            title=figure.title,
            columns=figure.columns,
            rows=tuple(tuple(words.cell(value) for value in row) for row in shown),
            numeric=tuple(_are_all_numbers(row[at] for row in shown) for at in width),
            more_rows=figure.total_rows - len(shown),
        )
    whole = _make_whole_grid(figure)
    more = max(0, len(whole.rows) - rows_max)
    return msgspec.structs.replace(whole, rows=whole.rows[:rows_max], more_rows=more)


def _are_all_numbers(values: Iterable[object]) -> bool:
    kept = [value for value in values if value is not None]
    return bool(kept) and all(type(value) in (int, float) for value in kept)


@singledispatch
def _make_whole_grid(figure: Figure) -> Grid:
    raise TypeError(type(figure))


@_make_whole_grid.register
def _make_matrix_grid(matrix: Matrix) -> Grid:
    labels = tuple(words.cell(label) for label in matrix.labels)
    if len(labels) <= MATRIX_LABELS_MAX:
        return Grid(
            title=matrix.title,
            columns=(f"{matrix.row_axis} ↓ {matrix.column_axis} →", *labels),
            rows=tuple(
                (label, *(f"{count:,}" for count in row))
                for label, row in zip(labels, matrix.counts, strict=True)
            ),
            numeric=(False, *(True,) * len(labels)),
            row_heads=True,
        )
    # A wide matrix does not fit on a page: list its non-empty cells, largest first.
    filled = sorted(
        (
            (count, row, column)
            for row, counts in enumerate(matrix.counts)
            for column, count in enumerate(counts)
            if count
        ),
        key=lambda entry: (-entry[0], entry[1], entry[2]),
    )
    return Grid(
        title=matrix.title,
        columns=(matrix.row_axis, matrix.column_axis, "Count"),
        rows=tuple((labels[row], labels[column], f"{count:,}") for count, row, column in filled),
        numeric=(False, False, True),
    )


@_make_whole_grid.register
def _make_reliability_grid(figure: Reliability) -> Grid:
    return Grid(
        title=figure.title,
        columns=("Confidence", "Answers", "Mean confidence", "Accuracy", "Interval of accuracy"),
        rows=tuple(_format_bin(bin_) for bin_ in figure.bins),
        numeric=(False, True, True, True, True),
        row_heads=True,
    )


def _format_bin(bin_: ReliabilityBin) -> tuple[str, ...]:
    # The first bin includes a confidence of zero, so it is closed at both ends.
    opening = "[" if bin_.low == 0 else "("
    name = f"{opening}{bin_.low:.3f}, {bin_.high:.3f}]"
    if bin_.confidence is None or bin_.accuracy is None:
        return (name, "0", *(words.NO_ANSWERS,) * 3)
    interval = (
        "no interval"
        if bin_.interval_low is None or bin_.interval_high is None
        else f"[{words.number(bin_.interval_low)}, {words.number(bin_.interval_high)}]"
    )
    rates = (words.number(bin_.confidence), words.number(bin_.accuracy))
    return (name, f"{bin_.n:,}", *rates, interval)


@_make_whole_grid.register
def _shift_grid(figure: Shifts) -> Grid:
    """List single windows by position, and neighbouring ones grouped by range."""
    single = all(bin_.first == bin_.last for bin_ in figure.bins)
    parts = ("middle",) if single else ("low", "middle", "high")
    return Grid(
        title=f"{figure.title} ({figure.axis})",
        columns=("Window", "Shift") if single else ("Windows", "Lowest", "Middle", "Highest"),
        rows=tuple(
            (
                str(bin_.first) if bin_.first == bin_.last else f"{bin_.first} to {bin_.last}",
                *(words.number(getattr(bin_, part)) for part in parts),
            )
            for bin_ in figure.bins
        ),
        numeric=(False, *(True,) * len(parts)),
        row_heads=True,
    )


@_make_whole_grid.register
def _make_curves_grid(figure: Curves) -> Grid:
    places = sorted({x for line in figure.lines for x, _ in line.points})
    heights = [dict(line.points) for line in figure.lines]
    return Grid(
        title=figure.title,
        columns=(figure.x_axis, *(words.cell(line.name) for line in figure.lines)),
        rows=tuple(
            (
                words.shortest(place),
                *(words.number(line[place]) if place in line else "none" for line in heights),
            )
            for place in places
        ),
        numeric=(True,) * (len(heights) + 1),
        row_heads=True,
    )


@_make_whole_grid.register
def _make_stacks_grid(figure: Stacks) -> Grid:
    return Grid(
        title=figure.title,
        columns=(figure.axis, *(words.cell(part) for part in figure.parts), "total"),
        rows=tuple(
            (
                words.cell(bar.name),
                *(words.number(amount) for amount in (*bar.amounts, sum(bar.amounts))),
            )
            for bar in figure.bars
        ),
        numeric=(False, *(True,) * (len(figure.parts) + 1)),
        row_heads=True,
    )


@_make_whole_grid.register
def _make_forest_grid(figure: Forest) -> Grid:
    return Grid(
        title=figure.title,
        columns=("What", "How to read it", "Of", figure.axis, "Low", "High"),
        rows=tuple(
            (
                words.cell(group.name),
                words.cell(group.note),
                words.cell(row.name),
                *(words.number(value) for value in (row.value, row.low, row.high)),
            )
            for group in figure.groups
            for row in group.rows
        ),
        numeric=(False, False, False, True, True, True),
        row_heads=True,
    )


@_make_whole_grid.register
def _make_timeline_grid(figure: Timeline) -> Grid:
    ordered = sorted(figure.spans, key=lambda span: (span.start, span.end, span.lane))
    return Grid(
        title=figure.title,
        columns=("Lane", "What", f"Start, {figure.axis}", f"End, {figure.axis}", "Note"),
        rows=tuple(
            (
                words.cell(span.lane),
                words.cell(span.kind),
                words.number(span.start),
                words.number(span.end),
                words.cell(span.label),
            )
            for span in ordered
        ),
        numeric=(False, False, True, True, False),
    )
