"""MLflow GenAI evaluation: the result data frame as JSON, by records, by columns or by lines.

`mlflow.genai.evaluate` writes no file; this is `result.result_df.to_json(...)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import (
    NOT_FINITE,
    decode,
    find_key_paths,
    read_json_lines,
    strip_bom,
)
from gatemark.samples.gathering import (
    Gathering,
    digest_or_none,
    is_same_number,
    make_error,
    make_log_importer,
    make_tags,
    read_id,
    score_number,
)
from gatemark.samples.importer import ForeignError, ForeignFile, Imported, LogExperiment
from gatemark.samples.tables import TableRow, read_columns, read_records

_VALUE: Final = "/value"
_RUN: Final = "mlflow.sourceRun"
_OWN_TAGS: Final = "mlflow."
_SCORER: Final = "mlflow.assessment.scorerDigest"
_JUDGE: Final = "LLM_JUDGE"
_WORDS: Final = {"yes": 1.0, "no": 0.0}


class _Problem(msgspec.Struct):
    error_code: str | None = None
    error_message: str | None = None


class _Feedback(msgspec.Struct):
    value: object = None
    error: _Problem | None = None


class _Source(msgspec.Struct):
    source_type: str = ""
    source_id: str = ""


class _Assessment(msgspec.Struct):
    source: _Source | None = None
    metadata: dict[str, object] | None = None
    assessment_name: str = ""
    feedback: _Feedback | None = None
    expectation: object = None
    valid: bool | None = None


class _Row(msgspec.Struct):
    request: object = None
    response: object = None
    state: str | None = None
    execution_duration: float | None = None
    tags: dict[str, object] | None = None
    trace_metadata: dict[str, object] | None = None
    assessments: list[_Assessment] | None = None

    @property
    def run(self) -> str:
        """The run of the row; one data frame can contain several."""
        named = (self.trace_metadata or {}).get(_RUN)
        return named if isinstance(named, str) and named else "run"


_Placed = tuple[str, dict[str, object], _Row]


def _sniff(head: bytes, _filename: str) -> bool:
    """Recognise a data frame with trace ids and at least one value column."""
    paths = find_key_paths(head)
    for prefix in ("", "[]."):
        columns = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
        if "trace_id" in columns and any(column.endswith(_VALUE) for column in columns):
            return True
    return False


def _load(file: ForeignFile, gathering: Gathering) -> list[_Placed]:
    return list(gathering.read_typed(_read_rows(file), _Row))


def _read_arms(placed: list[_Placed]) -> tuple[LogExperiment, ...]:
    """Return one arm per source run of the rows."""
    counts = Counter(row.run for _, _, row in placed)
    return tuple(LogExperiment(name, counts[name]) for name in sorted(counts))


def _read(placed: list[_Placed], gathering: Gathering) -> Imported:
    """Read one sample per trace; feedback columns are scores, expectations the target."""
    arm = gathering.choose_arm(_read_arms(placed)) if placed else ""
    mine = [entry for entry in placed if entry[2].run == arm]
    tagged = _has_case_ids(mine)
    if not tagged and gathering.options.id_path is None:
        gathering.note("rows have no tag case_id: the digest of the request is the id")
    seen: Counter[tuple[str, str | None]] = Counter()
    for place, whole, row in mine:
        own = (row.tags or {}).get("case_id") if tagged else digest_or_none(row.request)
        item = gathering.choose_id(place, whole, own)
        # A repeated request is another epoch of the same item.
        asked = (read_id(item) or "", digest_or_none(row.request))
        seen[asked] += 1
        _add(gathering, place, (item, seen[asked]), whole, row)
    if max(seen.values(), default=1) > 1:
        gathering.note("rows with the same id are epochs of one item")
    gathering.lineage["run"] = arm
    return gathering.finish(arm=arm, headline=gathering.only_score())


def _read_rows(file: ForeignFile) -> list[TableRow]:
    if strip_bom(file.data).lstrip().startswith(b"["):
        return read_records(file)
    paths = find_key_paths(file.head)
    if "trace_id" in paths and not any(path.startswith("trace_id.") for path in paths):
        return list(read_json_lines(file, dict[str, object]))
    columns = decode(file.data, dict[str, dict[str, object]], file.name)
    keys = list(columns.get("trace_id", {}))
    uneven = [name for name, cells in columns.items() if list(cells) != keys]
    if uneven:
        raise BadInputError(
            f"{file.name}: column {uneven[0]!r} does not have the same rows as 'trace_id'"
        )
    return read_columns(columns, keys, file)


def _has_case_ids(placed: list[_Placed]) -> bool:
    ids = [(row.tags or {}).get("case_id") for _, _, row in placed]
    return bool(ids) and all(read_id(one) is not None for one in ids)


def _add(
    gathering: Gathering,
    place: str,
    key: tuple[object, int],
    whole: dict[str, object],
    row: _Row,
) -> None:
    expected = _read_expectations(whole, row)
    scores: dict[str, float | None] = {}
    unknown: dict[str, object] = {}
    tags = {k: v for k, v in make_tags(row.tags).items() if not k.startswith(_OWN_TAGS)}
    for column, value in whole.items():
        name = column.removesuffix(_VALUE)
        if name == column or name in expected:
            continue
        scores[name] = _read_number(value)
        if isinstance(value, str) and value in NOT_FINITE:
            unknown[name] = value
        elif isinstance(value, str) and scores[name] is None:
            tags[f"label.{name}"] = value
            del scores[name]
    _note_scorers(gathering, row)
    problems = _find_problems(row)
    _compare(gathering, place, scores, row)
    for name, problem in problems.items():
        scores[name] = None
        tags[f"error.{name}"] = problem
    gathering.add(
        place,
        item=key[0],
        epoch=key[1],
        given=row.request,
        target=_read_target(expected),
        output=row.response,
        scores={**scores, **unknown},
        error=_read_error(row, scores, problems),
        latency_ms=row.execution_duration,
        tags=tags,
    )


def _note_scorers(gathering: Gathering, row: _Row) -> None:
    """Record the digest of each scorer, and the model of one that judges."""
    for one in row.assessments or []:
        if one.feedback is None or one.valid is False:
            continue
        is_judge = one.source is not None and one.source.source_type == _JUDGE
        gathering.scored_with(
            one.assessment_name,
            {
                "scorer": (one.metadata or {}).get(_SCORER),
                "judge model": one.source.source_id if is_judge and one.source else None,
            },
        )


def _read_number(value: object) -> float | None:
    return _WORDS.get(value.lower()) if isinstance(value, str) else score_number(value)


def _read_expectations(whole: Mapping[str, object], row: _Row) -> dict[str, object]:
    """Return the columns with expected values, by their assessment or else by name."""
    named = {one.assessment_name for one in row.assessments or [] if one.expectation is not None}
    judged = {one.assessment_name for one in row.assessments or [] if one.feedback is not None}
    columns = {
        column.removesuffix(_VALUE): value
        for column, value in whole.items()
        if column.endswith(_VALUE)
    }
    return {
        name: value
        for name, value in columns.items()
        if name in named or (name.startswith("expected_") and name not in judged)
    }


def _read_target(expected: Mapping[str, object]) -> object:
    if set(expected) <= {"expected_response"}:
        return expected.get("expected_response")
    return dict(expected)


def _find_problems(row: _Row) -> dict[str, str]:
    return {
        one.assessment_name: one.feedback.error.error_message or one.feedback.error.error_code or ""
        for one in row.assessments or []
        if one.feedback is not None and one.feedback.error is not None and one.valid is not False
    }


def _compare(
    gathering: Gathering, place: str, scores: Mapping[str, float | None], row: _Row
) -> None:
    """Compare a column with its assessment, which may have been edited later."""
    for one in row.assessments or []:
        if one.feedback is None or one.valid is False:
            continue
        kept = _read_number(one.feedback.value)
        shown = scores.get(one.assessment_name)
        if kept is not None and shown is not None and not is_same_number(kept, shown):
            gathering.note_contradiction(
                f"{place}: {one.assessment_name} is {shown:g} in its column and {kept:g} "
                "in its assessment"
            )


def _read_error(
    row: _Row, scores: Mapping[str, float | None], problems: Mapping[str, str]
) -> ForeignError | None:
    if row.state is not None and row.state not in ("OK", "TraceState.OK"):
        return ForeignError("trace_error", f"the trace ended in state {row.state}")
    if any(score is not None for score in scores.values()):
        return None
    if problems:
        return make_error(next(iter(problems.values())), "scorer_error")
    return ForeignError("unscored", "no scorer gave this row a number")


IMPORTER: Final = make_log_importer(
    "mlflow",
    "MLflow GenAI result data frames (.json)",
    sniff=_sniff,
    load=_load,
    arms=_read_arms,
    read=_read,
)
