"""The numbers behind curves, stacks, forests and timelines, as table cells."""

from __future__ import annotations

import msgspec

from gatemark.core.result import Curves, Forest, Stacks, Timeline
from gatemark.report import words

Pictured = Curves | Stacks | Forest | Timeline


class Cells(msgspec.Struct, frozen=True):
    """A table of texts; ``numeric`` marks the columns with numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    row_heads: bool = True


def picture_cells(figure: Pictured) -> Cells:
    """Return all numbers of a figure as a table."""
    if isinstance(figure, Curves):
        return _curves(figure)
    if isinstance(figure, Stacks):
        return _stacks(figure)
    if isinstance(figure, Forest):
        return _forest(figure)
    return _timeline(figure)


def _curves(figure: Curves) -> Cells:
    places = sorted({x for line in figure.lines for x, _ in line.points})
    heights = [dict(line.points) for line in figure.lines]
    return Cells(
        columns=(figure.x_axis, *(words.cell(line.name) for line in figure.lines)),
        rows=tuple(
            (
                words.shortest(place),
                *(words.number(line[place]) if place in line else "none" for line in heights),
            )
            for place in places
        ),
        numeric=(True,) * (len(heights) + 1),
    )


def _stacks(figure: Stacks) -> Cells:
    return Cells(
        columns=(figure.axis, *(words.cell(part) for part in figure.parts), "total"),
        rows=tuple(
            (
                words.cell(bar.name),
                *(words.number(amount) for amount in (*bar.amounts, sum(bar.amounts))),
            )
            for bar in figure.bars
        ),
        numeric=(False, *(True,) * (len(figure.parts) + 1)),
    )


def _forest(figure: Forest) -> Cells:
    return Cells(
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
    )


def _timeline(figure: Timeline) -> Cells:
    ordered = sorted(figure.spans, key=lambda span: (span.start, span.end, span.lane))
    return Cells(
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
        row_heads=False,
    )
