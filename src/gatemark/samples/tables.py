"""Tables of other tools: CSV, TSV, JSON Lines, and data frames as JSON records or columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, read_json_lines, strip_bom
from gatemark.samples.importer import ForeignFile, Refusal

MAX_CELL_CHARS: Final = 16 << 20
MAX_COLUMNS: Final = 10_000

TableRow = tuple[str, dict[str, object] | Refusal]


class ForeignTable(msgspec.Struct, frozen=True):
    """The columns of a file, and each row with its place, or a refusal."""

    columns: tuple[str, ...]
    rows: list[TableRow]


def read_foreign_table(file: ForeignFile) -> ForeignTable:
    """Read the table of a file; the first character and the name decide the format."""
    start = strip_bom(file.data).lstrip()[:1]
    if start == b"[":
        return _build_table(read_records(file))
    if start == b"{":
        return _read_by_columns(file) or _build_table(
            list(read_json_lines(file, dict[str, object]))
        )
    return _read_delimited(file)


def read_header(head: bytes, filename: str) -> list[str]:
    """Return the header of a CSV or TSV file; empty for other files."""
    text = strip_bom(head).decode("utf-8", "replace")
    if text.lstrip()[:1] in ("{", "[", "", "\x00"):
        return []
    csv.field_size_limit(MAX_CELL_CHARS)
    try:
        delimiter = _choose_delimiter(filename, text)
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []


def read_cells(file: ForeignFile) -> Iterator[list[str]]:
    """Yield every line of a CSV or TSV file as cells, the header first."""
    csv.field_size_limit(MAX_CELL_CHARS)
    try:
        text = strip_bom(file.data).decode()
        delimiter = _choose_delimiter(file.name, text)
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInputError(f"{file.name}: not readable CSV: {error}") from error


def _choose_delimiter(filename: str, text: str) -> str:
    if filename.lower().endswith((".tsv", ".tab")):
        return "\t"
    first = text.split("\n", 1)[0]
    return "\t" if first.count("\t") > first.count(",") else ","


def _read_delimited(file: ForeignFile) -> ForeignTable:
    found = read_cells(file)
    header = next(found, [])
    if len(header) > MAX_COLUMNS:
        raise BadInputError(f"{file.name}: has {len(header)} columns, at most {MAX_COLUMNS}")
    doubled = {name for name in header if header.count(name) > 1} if len(header) < 1000 else set()
    if doubled:
        raise BadInputError(f"{file.name}: two columns are called {sorted(doubled)[0]!r}")
    rows: list[TableRow] = []
    for number, cells in enumerate(found, start=1):
        place = f"{file.name}: row {number}"
        if not any(cells):
            continue
        if len(cells) != len(header):
            rows.append((place, Refusal(place, f"has {len(cells)} cells, expected {len(header)}")))
        else:
            rows.append((place, dict(zip(header, cells, strict=True))))
    return ForeignTable(tuple(header), rows)


def _read_by_columns(file: ForeignFile) -> ForeignTable | None:
    """Read a data frame written as one object of columns; return None for other files."""
    try:
        columns = decode(file.data, dict[str, dict[str, object]], file.name)
    except BadInputError:
        return None
    keys = list(next(iter(columns.values()), {}))
    if keys != [str(number) for number in range(len(keys))] or not keys:
        return None
    uneven = [name for name, cells in columns.items() if list(cells) != keys]
    if uneven:
        raise BadInputError(f"{file.name}: column {uneven[0]!r} does not have the same rows")
    return ForeignTable(tuple(columns), read_columns(columns, keys, file))


def read_columns(
    columns: Mapping[str, Mapping[str, object]], keys: Sequence[str], file: ForeignFile
) -> list[TableRow]:
    """Return the rows of a data frame that was written by columns."""
    return [
        (f"{file.name}: row {key}", {name: cells[key] for name, cells in columns.items()})
        for key in keys
    ]


def _build_table(rows: list[TableRow]) -> ForeignTable:
    names: dict[str, None] = {}
    for _, row in rows:
        if not isinstance(row, Refusal):
            names.update(dict.fromkeys(row))
    return ForeignTable(tuple(names), rows)


def read_records(file: ForeignFile) -> list[TableRow]:
    """Return the rows of a file that is one list of objects."""
    rows: list[TableRow] = []
    for number, record in enumerate(decode(file.data, list[object], file.name)):
        place = f"{file.name}: [{number}]"
        if isinstance(record, dict):
            rows.append((place, record))
        else:
            reason = f"a row must be an object, got {type(record).__name__}"
            rows.append((place, Refusal(place, reason)))
    return rows
