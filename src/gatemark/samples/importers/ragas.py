"""Ragas results: `result.to_pandas()` written as CSV or JSON; metrics are the other columns.

The columns of a sample are those of `SingleTurnSample` in Ragas 0.2 and 0.3, and the older names
`question`, `answer` and `ground_truth` of 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import NOT_FINITE, find_key_paths
from gatemark.samples.gathering import (
    Gathering,
    find_repeats,
    make_log_importer,
    read_id,
    score_number,
)
from gatemark.samples.importer import ForeignError, Imported, LogExperiment
from gatemark.samples.tables import ForeignTable, read_foreign_table, read_header

_INPUTS: Final = ("user_input", "question")
_OUTPUTS: Final = ("response", "answer")
_TARGETS: Final = ("reference", "ground_truth", "ground_truths")
_CONTEXTS: Final = ("retrieved_contexts", "contexts")
_OTHERS: Final = frozenset(
    {"reference_contexts", "rubrics", "rubric", "reference_tool_calls", "multi_responses"}
    | {"reference_topics", "index", "Unnamed: 0", ""}
    | {"retrieved_context_ids", "reference_context_ids"}
    | {"persona_name", "query_style", "query_length"}
)
_IDS: Final = ("id", "sample_id")
_LOWER_IS_BETTER: Final = "noise_sensitivity"
"""Begins the names of the only metrics that count errors."""
_WORDS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _sniff(head: bytes, filename: str) -> bool:
    """Recognise a table with the columns of a single turn and at least one metric."""
    paths = find_key_paths(head)
    for names in (
        set(read_header(head, filename)) if filename.endswith((".csv", ".tsv")) else set(),
        {path for path in paths if "." not in path and "[" not in path},
        {path[3:] for path in paths if path.startswith("[].")},
    ):
        new = {"user_input", "response"} <= names
        old = {"question", "answer"} <= names and bool(names & {"contexts", "ground_truth"})
        if (new or old) and "trace_id" not in names and _find_metrics(sorted(names)):
            return True
    return False


def _read_arms(table: ForeignTable) -> tuple[LogExperiment, ...]:
    return (LogExperiment("run", len(table.rows)),)


def _read(table: ForeignTable, gathering: Gathering) -> Imported:
    """Read one sample per row; a metric without a number is null."""
    arm = gathering.choose_arm(_read_arms(table))
    if not set(table.columns) & {*_INPUTS, *_OUTPUTS}:
        raise BadInputError(
            f"{gathering.place}: not a Ragas result: no user_input or response column"
        )
    metrics = _find_metrics(table.columns)
    gathering.lower_is_better |= {name for name in metrics if name.startswith(_LOWER_IS_BETTER)}
    rows = [(place, row) for place, row, _ in gathering.read_typed(table.rows, dict[str, object])]
    keys = _choose_keys(table, [row for _, row in rows], gathering)
    for (place, row), (item, epoch) in zip(rows, keys, strict=True):
        scores = {name: _read_number(row.get(name)) for name in metrics}
        unscored = all(score_number(score) is None for score in scores.values())
        gathering.add(
            place,
            item=gathering.choose_id(place, row, item),
            epoch=epoch,
            given=_read_input(row),
            target=_read_first(row, _TARGETS),
            output=_read_first(row, _OUTPUTS),
            scores=scores,
            error=ForeignError("unscored", "no metric gave this row a number")
            if unscored
            else None,
        )
    gathering.note("the table has neither a time nor a Ragas version: lineage is incomplete")
    return gathering.finish(arm=arm, headline=gathering.only_score())


def _find_metrics(columns: Sequence[str]) -> list[str]:
    known = {*_INPUTS, *_OUTPUTS, *_TARGETS, *_CONTEXTS, *_IDS, *_OTHERS}
    return [name for name in columns if name not in known]


def _choose_keys(
    table: ForeignTable, rows: list[dict[str, object]], gathering: Gathering
) -> list[tuple[str, int]]:
    for name in _IDS:
        own = [read_id(row.get(name)) for row in rows]
        if name in table.columns and None not in own and len(set(own)) == len(own):
            return [(text or "", 1) for text in own]
    gathering.by_position = True
    gathering.note("rows have no ids: their position is used")
    same = find_repeats(
        {n: [_read_input(row), _read_first(row, _TARGETS)] for n, row in enumerate(rows)}
    )
    return [(str(same[n][0]), same[n][1]) for n in range(len(rows))]


def _read_input(row: dict[str, object]) -> object:
    """Return the question; retrieved passages belong to the answer and may change."""
    return _read_first(row, _INPUTS)


def _read_first(row: dict[str, object], names: Sequence[str]) -> object:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _read_number(value: object) -> object:
    """Return a cell as a score: text in CSV, a number or null in JSON."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text) if text else None
    except ValueError:
        return value if value in NOT_FINITE else None


IMPORTER: Final = make_log_importer(
    "ragas",
    "Ragas results (data frame as .csv or .json)",
    sniff=_sniff,
    load=lambda file, _: read_foreign_table(file),
    arms=_read_arms,
    read=_read,
)
