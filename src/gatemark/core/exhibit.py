"""What a report shows beside the numbers: typed, so that every page can draw it."""

from __future__ import annotations

import msgspec

from gatemark.core.errors import InvalidValueError

Cell = str | int | float | bool | None


class Matrix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="matrix"):
    """Counts over two label axes, rows first."""

    title: str
    row_axis: str
    column_axis: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise InvalidValueError(f"matrix {self.title!r} must be {size} by {size}")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="table"):
    """Rows under named columns; ``total_rows`` tells how many there were before any cut."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InvalidValueError(f"table {self.title!r} has a row of another width")
        if self.total_rows < len(self.rows):
            raise InvalidValueError(f"table {self.title!r} shows more rows than it has")


Exhibit = Matrix | Table
