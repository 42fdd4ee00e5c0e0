"""The numbers behind curves, stacks, forests and timelines, as cells of a table."""

from __future__ import annotations

import msgspec

from gatemark.core.figure import Curves, Forest, Stacks, Timeline
from gatemark.report import words

Pictured = Curves | Stacks | Forest | Timeline


class Cells(msgspec.Struct, frozen=True):
    """A table of texts; ``numeric`` tells which columns hold numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    row_heads: bool = True


def picture_cells(exhibit: Pictured) -> Cells:
    """Everything that a picture shows."""
    if isinstance(exhibit, Curves):
        return _curves(exhibit)
    if isinstance(exhibit, Stacks):
        return _stacks(exhibit)
    if isinstance(exhibit, Forest):
        return _forest(exhibit)
    return _timeline(exhibit)


def _curves(exhibit: Curves) -> Cells:
    places = sorted({x for line in exhibit.lines for x, _ in line.points})
    heights = [dict(line.points) for line in exhibit.lines]
    return Cells(
        columns=(exhibit.x_axis, *(words.cell(line.name) for line in exhibit.lines)),
        rows=tuple(
            (
                words.shortest(place),
                *(words.number(line[place]) if place in line else "none" for line in heights),
            )
            for place in places
        ),
        numeric=(True,) * (len(heights) + 1),
    )


def _stacks(exhibit: Stacks) -> Cells:
    return Cells(
        columns=(exhibit.axis, *(words.cell(part) for part in exhibit.parts), "total"),
        rows=tuple(
            (
                words.cell(bar.name),
                *(words.number(amount) for amount in (*bar.amounts, sum(bar.amounts))),
            )
            for bar in exhibit.bars
        ),
        numeric=(False, *(True,) * (len(exhibit.parts) + 1)),
    )


def _forest(exhibit: Forest) -> Cells:
    return Cells(
        columns=("What", "How to read it", "Of", exhibit.axis, "Low", "High"),
        rows=tuple(
            (
                words.cell(group.name),
                words.cell(group.note),
                words.cell(row.name),
                *(words.number(value) for value in (row.value, row.low, row.high)),
            )
            for group in exhibit.groups
            for row in group.rows
        ),
        numeric=(False, False, False, True, True, True),
    )


def _timeline(exhibit: Timeline) -> Cells:
    ordered = sorted(exhibit.spans, key=lambda span: (span.start, span.end, span.lane))
    return Cells(
        columns=("Lane", "What", f"Start, {exhibit.axis}", f"End, {exhibit.axis}", "Note"),
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
