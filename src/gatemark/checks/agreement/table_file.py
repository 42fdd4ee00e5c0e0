"""Read a table of labels: CSV or TSV, with a column per rater or a line per rating.

In the wide form every line is an item, and every other column a rater. In the long form, whose
header has the columns ``rater`` and ``label``, every line is one rating. An empty cell is a missing
rating. Blanks around a cell do not count.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gatemark.checks.agreement.records import ABSTAIN
from gatemark.checks.agreement.rules import MAX_LABEL_CHARS, AgreementOptions
from gatemark.core.errors import BadInputError
from gatemark.core.text import did_you_mean, is_one_line
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.input_problems import refuse_input
from gatemark.evidence.inputs import SameInput, normalize_id
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source
from gatemark.evidence.strict_json import quoted

RATER, LABEL = "rater", "label"
MAX_RATERS: Final = 256
MAX_LABELS: Final = 256
MAX_ID_CHARS: Final = 512
_SEPARATORS: Final = (",", "\t", ";")
_LIKE_MISSING: Final = frozenset(("na", "n/a", "#n/a", "nan", "null", "nil", "none", "missing"))
_MISSING_MARKS: Final = frozenset(("-", "--", "?", ".", "*"))


class LabelTable(NamedTuple):
    """The items with the labels of every rater, in order; None where a rater gave none."""

    raters: tuple[str, ...]
    rows: dict[str, list[str | None]]
    accepted: int
    rejected: int
    duplicates: int


class _Columns(NamedTuple):
    """Where a line has its item and its labels; ``rater`` is the column of the long form."""

    width: int
    item: int
    names: tuple[str, ...]
    places: tuple[int, ...]
    rater: int | None


def read_label_table(
    source: Source, options: AgreementOptions, choices: ReadingChoices
) -> LabelTable:
    """Return the labels of a file; refuse what cannot be read with its line."""
    reader = _TableReader(source, options, choices)
    try:
        return reader.read()
    except csv.Error as error:
        where = f"{source.name}:{reader.line}"
        if "new-line character" in str(error):
            raise BadInputError(
                f"{where}: a line ends in a carriage return alone; save the file with usual line "
                "ends (LF or CRLF)"
            ) from error
        raise BadInputError(
            f"{where}: is not readable as a table: {error}; "
            "look for a quotation mark that is not closed"
        ) from error


class _TableReader:
    """Reads one file, and notes what is wrong with its lines."""

    def __init__(self, source: Source, options: AgreementOptions, choices: ReadingChoices) -> None:
        self._source, self._options, self._choices = source, options, choices
        self._problems: list[str] = []
        self._repeated: list[str] = []
        self._rows: dict[str, list[str | None]] = {}
        self._row_lines: dict[str, int] = {}
        self._first_items: dict[str, tuple[str, int]] = {}
        self._look_alikes: list[str] = []
        self._label_lines: dict[str, int] = {}
        self._rater_lines: dict[str, int] = {}
        self._rater_places: dict[str, int] = {}
        self._wanted = _list_names(options.raters)
        self.line = 1
        self._accepted = self._rejected = self._duplicates = 0

    def read(self) -> LabelTable:
        lines = _read_text_lines(self._source, self._choices)
        header = next((line for line in lines if line.strip()), "")
        separator = _choose_separator(header, self._source.name)
        (names,) = csv.reader([header], delimiter=separator, strict=True)
        columns = self._assign_columns([name.strip() for name in names])
        reader = csv.reader(lines, delimiter=separator, strict=True)
        for cells in reader:
            self.line = reader.line_num + 1
            if any(cell.strip() for cell in cells):
                self._take([cell.strip() for cell in cells], columns)
        return self._finish_table(columns)

    def _assign_columns(self, names: Sequence[str]) -> _Columns:
        """Return what each column is for."""
        where = f"{self._source.name}:1"
        if names and names[0].casefold().startswith("sep="):
            raise BadInputError(f"{where}: remove this line; the first line must be the header")
        if len(names) < 2:
            raise BadInputError(
                f"{where}: expected a header with the item's column and the raters' columns, "
                f"separated by commas, semicolons or tabs; got {quoted(', '.join(names))}"
            )
        for name in names:
            if not name or names.count(name) > 1:
                problem = "appears twice" if name else "has no name"
                raise BadInputError(f"{where}: a column {problem}: {quoted(', '.join(names))}")
        small = [name.casefold() for name in names]
        item = self._place(self._options.item_column, names, where)
        if RATER in small and LABEL in small:
            rater, label = small.index(RATER), small.index(LABEL)
            if self._options.item_column is None:
                left = [place for place in range(len(names)) if place not in {rater, label}]
                item = left[0] if left else item
            if item in {rater, label}:
                raise BadInputError(
                    f"{where}: the long form needs columns for the item, the rater and the label"
                )
            return _Columns(len(names), item, (), (label,), rater)
        chosen = [self._place(name, names, where) for name in self._wanted] or [
            place for place in range(len(names)) if place != item
        ]
        if item in chosen:
            raise BadInputError(f"{where}: {names[item]!r} is the column of the items")
        raters = tuple(names[place] for place in chosen)
        _check_raters(raters, where)
        return _Columns(len(names), item, raters, tuple(chosen), None)

    def _place(self, name: str | None, names: Sequence[str], where: str) -> int:
        if name is None:
            return 0
        if name not in names:
            raise BadInputError(
                f"{where}: has no column {name!r}{did_you_mean(name, names)}; "
                f"its columns are {', '.join(names)}"
            )
        return names.index(name)

    def _take(self, cells: Sequence[str], columns: _Columns) -> None:
        problem = self._find_problem(cells, columns)
        if problem is not None:
            self._rejected += 1
            self._problems.append(f"{self._source.name}:{self.line}: {problem}")
            return
        self._accepted += 1
        item = cells[columns.item]
        self._check_item(item)
        labels = [self._label(cells[place]) for place in columns.places]
        for label in labels:
            if label is not None:
                self._label_lines.setdefault(label, self.line)
        if columns.rater is None:
            self._add(item, labels)
        else:
            self._add_rating(item, cells[columns.rater], labels[0])

    def _check_item(self, item: str) -> None:
        """Note an item that only looks like another one: it would count twice."""
        first, line = self._first_items.setdefault(normalize_id(item), (item, self.line))
        if first != item:
            same = SameInput.named(f"item {item!r}", f"item {first!r}", f"on line {line}")
            self._look_alikes.append(f"{self._source.name}:{self.line}: {same.describe()}")

    def _find_problem(self, cells: Sequence[str], columns: _Columns) -> str | None:
        if len(cells) != columns.width:
            return f"has {len(cells)} cells, expected {columns.width} as in the header"
        item = cells[columns.item]
        if not item or len(item) > MAX_ID_CHARS or not is_one_line(item):
            return f"an item is 1 to {MAX_ID_CHARS} characters on one line, got {quoted(item)}"
        if columns.rater is not None and not _is_name(cells[columns.rater]):
            return f"expected the name of a rater, got {quoted(cells[columns.rater])}"
        for place in columns.places:
            label, known = self._label(cells[place]), self._options.labels
            if label is None:
                continue
            if not _is_name(label):
                return (
                    f"a label is 1 to {MAX_LABEL_CHARS} printable characters, got {quoted(label)}"
                )
            if known is not None and label not in known:
                return (
                    f"label {label!r} is not among your labels ({', '.join(known)})"
                    f"{did_you_mean(label, known)}"
                )
            if known is None and _is_abstaining(label):
                return (
                    f"{label!r} looks like an abstention: write {ABSTAIN} for it, or give it a "
                    "role in --labels"
                )
            if known is None and (label.casefold() in _LIKE_MISSING or label in _MISSING_MARKS):
                return (
                    f"{label!r} often means that there is no label: pass --missing-text "
                    f"{quoted(label)} if it does here, or list it in --labels if it is a label"
                )
        return None

    def _label(self, cell: str) -> str | None:
        return None if not cell or cell == self._options.missing_text else cell

    def _add(self, item: str, labels: list[str | None]) -> None:
        if item in self._rows:
            self._note_repeated(f"item {item!r}", self._row_lines[item])
            if self._choices.on_duplicate != "last":
                return
        self._row_lines[item] = self.line
        self._rows[item] = labels

    def _add_rating(self, item: str, rater: str, label: str | None) -> None:
        if self._wanted and rater not in self._wanted:
            return
        if rater not in self._rater_lines:
            if len(self._rater_lines) == MAX_RATERS:
                raise BadInputError(f"{self._source.name}: has more than {MAX_RATERS} raters")
            self._rater_lines[rater] = self.line
        place = self._rater_places.setdefault(rater, len(self._rater_places))
        row = self._rows.setdefault(item, [])
        row.extend([None] * (place + 1 - len(row)))
        if row[place] is not None:
            self._note_repeated(f"the label of {rater!r} for item {item!r}", None)
            if self._choices.on_duplicate != "last":
                return
        row[place] = label

    def _note_repeated(self, what: str, first: int | None) -> None:
        self._duplicates += 1
        where = "" if first is None else f" at line {first}"
        self._repeated.append(f"{self._source.name}:{self.line}: {what} was seen before{where}")

    def _finish_table(self, columns: _Columns) -> LabelTable:
        choices, name = self._choices, self._source.name
        if choices.on_bad_line == "error":
            refuse_input(self._problems, choices)
        if not self._rows:
            raise BadInputError(f"{name}: contains no items")
        if choices.on_duplicate == "error" and self._repeated:
            if columns.rater is None and self._options.item_column is None:
                self._repeated[0] += "; the first column must name the item, or see --item-column"
            refuse_input(self._repeated, choices)
        refuse_input(self._look_alikes, choices)
        raters = columns.names or tuple(self._rater_lines)
        if columns.rater is not None:
            self._check_long_raters(raters)
            if columns.width > 3:
                self._check_long_items(columns)
        if len(self._label_lines) > MAX_LABELS:
            self._refuse_free_text(raters)
        if self._options.labels is None:
            refuse_input(look_alikes("labels", self._label_lines, name), choices)
        for row in self._rows.values():
            row.extend([None] * (len(raters) - len(row)))
        for place, rater in enumerate(raters):
            if all(row[place] is None for row in self._rows.values()):
                raise BadInputError(f"{name}: {rater!r} gave no label; leave it out by --raters")
        return LabelTable(raters, self._rows, self._accepted, self._rejected, self._duplicates)

    def _check_long_raters(self, raters: tuple[str, ...]) -> None:
        name = self._source.name
        for wanted in self._wanted:
            if wanted not in raters:
                raise BadInputError(
                    f"{name}: has no rater {wanted!r}{did_you_mean(wanted, raters)}"
                )
        _check_raters(raters, name)
        refuse_input(look_alikes("raters", self._rater_lines, name), self._choices)

    def _check_long_items(self, columns: _Columns) -> None:
        """Refuse a column of items in which no item is rated twice, if there are others."""
        if all(sum(label is not None for label in row) < 2 for row in self._rows.values()):
            raise BadInputError(
                f"{self._source.name}: no item has two labels; items are named by column "
                f"{columns.item + 1}. Name the right one by --item-column"
            )

    def _refuse_free_text(self, raters: Sequence[str]) -> None:
        """Say which column does not belong to a rater."""
        different = {
            rater: len({row[place] for row in self._rows.values() if len(row) > place})
            for place, rater in enumerate(raters)
        }
        worst = max(different, key=lambda rater: different[rater])
        raise BadInputError(
            f"{self._source.name}: has {len(self._label_lines)} different labels, at most "
            f"{MAX_LABELS} are allowed; {worst!r} alone has {different[worst]}. "
            "Name the columns with labels: --raters NAME,NAME"
        )


def look_alikes(what: str, lines: Mapping[str, int], name: str) -> list[str]:
    """Return a message for each text that differs from another only to a machine."""
    first: dict[str, str] = {}
    messages = []
    for text, line in lines.items():
        twin = first.setdefault(strip_to_plain_form(text), text)
        if twin != text:
            advice = ": write them alike" + (", or list both in --labels" * (what == "labels"))
            messages.append(
                f"{name}:{line}: the {what} {text!a} and {twin!a} (line {lines[twin]}) "
                f"look alike{advice}"
            )
    return messages


def strip_to_plain_form(text: str) -> str:
    """Return a text without what the eye may miss: case, marks between words, similar letters."""
    return " ".join(normalize_id(text).replace("_", " ").replace("-", " ").split())


def _is_abstaining(label: str) -> bool:
    return label != ABSTAIN and strip_to_plain_form(label) in {"abstain", "abstained", "abstention"}


def _is_name(text: str) -> bool:
    return bool(text) and text.isprintable() and len(text) <= MAX_LABEL_CHARS


def _list_names(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip()) if names else ()


def _check_raters(raters: Sequence[str], where: str) -> None:
    if len(set(raters)) != len(raters):
        raise BadInputError(f"{where}: a rater is named twice: {', '.join(raters)}")
    if not 2 <= len(raters) <= MAX_RATERS:
        raise BadInputError(
            f"{where}: agreement needs 2 to {MAX_RATERS} raters, "
            f"got {len(raters)}: {quoted(', '.join(raters))}; put the labels of all raters into "
            "one file, with a column for each or with the columns item, rater and label"
        )


def _choose_separator(header: str, name: str) -> str:
    """Return what separates the cells: a tab in a ``.tsv`` file, else what the header has most."""
    if Path(name).suffix.lower() == ".tsv" and "\t" in header:
        return "\t"
    return max(_SEPARATORS, key=header.count)


def _read_text_lines(source: Source, choices: ReadingChoices) -> Iterator[str]:
    number = 0
    for block in read_blocks(whole_file(source), choices.limits):
        if block.overlong:
            limit = choices.limits.line_bytes
            raise BadInputError(f"{source.name}:{number + 1}: line is longer than {limit} bytes")
        for line in block.data.removesuffix(b"\n").split(b"\n"):
            number += 1
            try:
                yield line.decode() + "\n"
            except UnicodeDecodeError as error:
                raise BadInputError(
                    f"{source.name}:{number}: is not UTF-8; save the file as CSV UTF-8"
                ) from error
