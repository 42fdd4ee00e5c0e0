"""Any table (CSV, TSV or JSON Lines), with a map from sample fields to columns."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.samples.foreign_json import NOT_FINITE, find_value
from gatemark.samples.gathering import (
    Gathering,
    digest_or_none,
    make_log_importer,
    read_id,
    shorten_value,
)
from gatemark.samples.importer import ForeignError, Imported, LogExperiment, Refusal
from gatemark.samples.tables import ForeignTable, read_foreign_table

PLAIN_FIELDS: Final = (
    *("id", "epoch", "input", "target", "output", "score"),
    *("confidence", "error", "latency_ms", "cluster"),
)
"""Field names of a map, besides ``score.NAME`` and ``tag.NAME``."""
_NAMED: Final = ("score.", "tag.")
_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("false", "no", "fail", "failed", "incorrect"), 0.0),
}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_MISSING: Final = {
    **{text.lower(): text for text in NOT_FINITE},
    "+infinity": "Infinity",
    "inf": "Infinity",
    "+inf": "Infinity",
    "-inf": "-Infinity",
}
_SHOWN: Final = 30


class _BadCellError(ValueError):
    """A cell with a value that its field does not allow."""


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """Return columns by field, from ``--map id=question,score=correct``."""
    found: dict[str, str] = {}
    for pair in (part for text in texts for part in text.split(",")):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not field or not column:
            raise UsageError(f"--map takes FIELD=COLUMN, separated by commas, got {pair.strip()!r}")
        known = field in PLAIN_FIELDS or any(
            field.startswith(prefix) and len(field) > len(prefix) for prefix in _NAMED
        )
        if not known:
            close = difflib.get_close_matches(field, PLAIN_FIELDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            allowed = ", ".join((*PLAIN_FIELDS, "score.NAME", "tag.NAME"))
            raise UsageError(f"--map: a sample has no field {field!r}{hint} (fields: {allowed})")
        if field in found:
            raise UsageError(f"--map: {field!r} is given twice, as {found[field]!r} and {column!r}")
        found[field] = column
    return found


def _read_arms(table: ForeignTable) -> tuple[LogExperiment, ...]:
    return (LogExperiment("table", len(table.rows)),)


def _read(table: ForeignTable, gathering: Gathering) -> Imported:
    """Read one sample per row; a column with the name of a field needs no map."""
    options = gathering.options
    gathering.choose_arm(_read_arms(table))
    mapped = _map_fields(table, options.columns, gathering.place)
    if "id" not in mapped and options.id_path is None:
        if "input" not in mapped:
            raise BadInputError(
                f"{gathering.place}: no column for the id; name one with --map id=COLUMN "
                f"(columns: {_list_columns(table.columns)})"
            )
        gathering.note("no id column: the digest of the input is the id")
    seen: Counter[tuple[str, bytes]] = Counter()
    for place, row, _ in gathering.read_typed(table.rows, dict[str, object]):
        try:
            _add(gathering, place, row, mapped, seen)
        except _BadCellError as problem:
            gathering.refuse(Refusal(place, str(problem)))
    if any(count > 1 for count in seen.values()):
        gathering.note("rows with the same id and input are epochs of one item")
    return gathering.finish(headline=gathering.only_score())


def _map_fields(table: ForeignTable, given: Mapping[str, str], place: str) -> dict[str, str]:
    """Return the column of every field; raise for a column that does not exist."""
    for field, column in given.items():
        if column in table.columns or any(
            column.startswith(f"{known}.") for known in table.columns
        ):
            continue
        close = difflib.get_close_matches(column, table.columns, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise BadInputError(
            f"{place}: has no column {column!r} for {field}{hint} "
            f"(columns: {_list_columns(table.columns)})"
        )
    mapped = {
        name: name
        for name in table.columns
        if name in PLAIN_FIELDS or (name.startswith(_NAMED) and not name.endswith("."))
    }
    taken = set(given.values())
    own = {field: name for field, name in mapped.items() if name not in taken}
    if any(field == "score" or field.startswith("score.") for field in given):
        own = {f: name for f, name in own.items() if f != "score" and not f.startswith("score.")}
    return own | dict(given)


def _list_columns(columns: Sequence[str]) -> str:
    shown = ", ".join(shorten_value(name)[1:-1] for name in columns[:_SHOWN])
    more = len(columns) - _SHOWN
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"


def _add(
    gathering: Gathering,
    place: str,
    row: Mapping[str, object],
    mapped: Mapping[str, str],
    seen: Counter[tuple[str, bytes]],
) -> None:
    cells = {field: _read_cell(row, column) for field, column in mapped.items()}
    own = cells.get("id") if "id" in mapped else digest_or_none(cells.get("input"))
    item = gathering.choose_id(place, row, own)
    error = cells.get("error")
    scores = {
        _score_name(field, mapped): _read_score(value, mapped[field])
        for field, value in cells.items()
        if field == "score" or field.startswith("score.")
    }
    gathering.add(
        place,
        item=item,
        epoch=_choose_epoch(item, cells, mapped, seen),
        given=cells.get("input"),
        target=cells.get("target"),
        output=cells.get("output"),
        scores=scores,
        error=None if error in (None, False) else ForeignError("recorded", _to_text(error)),
        confidence=_read_bounded(cells.get("confidence"), "confidence", mapped, most=1.0),
        latency_ms=_read_bounded(cells.get("latency_ms"), "latency_ms", mapped),
        cluster=None if cells.get("cluster") is None else _to_text(cells["cluster"]),
        tags={
            field.removeprefix("tag."): _to_text(value)
            for field, value in cells.items()
            if field.startswith("tag.") and value is not None
        },
    )


def _read_cell(row: Mapping[str, object], column: str) -> object:
    """Return the value of a row in a column; None if the cell is blank."""
    value = find_value(dict(row), column)
    return None if isinstance(value, str) and not value.strip() else value


def _score_name(field: str, mapped: Mapping[str, str]) -> str:
    return mapped[field] if field == "score" else field.removeprefix("score.")


def _read_score(value: object, column: str) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.lower() in _MISSING:
        return _MISSING[text.lower()]
    if _NUMBER.fullmatch(text):
        return float(text)
    raise _BadCellError(
        f"column {column!r} has the score {shorten_value(value)}; expected a number, "
        "true or false, yes or no, pass or fail"
    )


def _read_bounded(
    value: object, field: str, mapped: Mapping[str, str], most: float | None = None
) -> float | None:
    if value is None:
        return None
    number = _read_score(value, mapped[field]) if not isinstance(value, bool) else None
    if isinstance(number, str):
        return None
    if not isinstance(number, int | float) or number < 0 or (most is not None and number > most):
        bound = "0 or more" if most is None else f"from 0 to {most:g}"
        raise _BadCellError(
            f"column {mapped[field]!r} has the {field} {shorten_value(value)}; "
            f"expected a number {bound}"
        )
    return float(number)


def _choose_epoch(
    item: object,
    cells: Mapping[str, object],
    mapped: Mapping[str, str],
    seen: Counter[tuple[str, bytes]],
) -> int:
    """Return the epoch of its column, or the row's number among rows with the same input."""
    value = cells.get("epoch")
    if value is not None:
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            raise _BadCellError(
                f"column {mapped['epoch']!r} has the epoch {shorten_value(value)}; "
                "expected a whole number from 1"
            )
        return int(text)
    asked = (read_id(item) or "", str(digest_or_none(cells.get("input"))).encode())
    seen[asked] += 1
    return seen[asked]


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else shorten_value(value)


IMPORTER: Final = make_log_importer(
    "csv",
    "Any table (CSV, TSV, JSON Lines), with --map FIELD=COLUMN",
    # A table cannot be recognised, so it is read only on request.
    sniff=lambda _head, _name: False,
    load=lambda file, _: read_foreign_table(file),
    arms=_read_arms,
    read=_read,
)
