"""The forms in which promptfoo writes one evaluation, all read into the same rows.

JSON comes from `promptfoo eval -o`, `promptfoo export`, a share link or the Node API; YAML is the
same document. Versions 1 and 2 have a table with a row per test and a cell per column; later ones
have a list of results. JSON Lines have one result per line; CSV is the table shown to users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import parse_settings
from gatemark.samples.foreign_json import (
    decode,
    find_key_paths,
    read_json_lines,
    read_json_rows,
    strip_bom,
)
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.tables import read_cells, read_header

MAX_YAML_BYTES: Final = 16 << 20
_ERROR: Final = 2
_STATUS: Final = ("Status", "Score", "Grader Reason")
_CELL: Final = re.compile(r"\[(PASS|FAIL|ERROR)\]\s*(?:\(([-0-9.]{1,20})\)\s*)?", re.ASCII)
_COLUMN: Final = re.compile(r"\[(?P<provider>[^\]]{1,500})\] ?(?P<label>.*)", re.DOTALL)
_METRIC: Final = "Metric: "


class _Camel(msgspec.Struct, rename="camel"):
    pass


class PromptfooProvider(msgspec.Struct):
    """The provider that answered."""

    id: str = ""
    label: str | None = None


class PromptfooPrompt(msgspec.Struct):
    """The prompt; versions 1 and 2 call the label ``display``."""

    raw: object = None
    label: str | None = None
    display: str | None = None


class PromptfooAssertion(msgspec.Struct):
    """One assertion about an output."""

    type: str = ""
    value: object = None
    metric: str | None = None
    threshold: object = None
    provider: object = None
    asserted: list[PromptfooAssertion] | None = msgspec.field(name="assert", default=None)
    """The assertions of a set."""


class PromptfooTestOptions(msgspec.Struct):
    """The options of a test; ``provider`` is the model that grades."""

    provider: object = None


class PromptfooTest(msgspec.Struct):
    """A test as written in the config."""

    options: PromptfooTestOptions | None = None
    threshold: object = None
    description: str | None = None
    metadata: dict[str, object] | None = None
    vars: object = None
    asserted: list[PromptfooAssertion] | None = msgspec.field(name="assert", default=None)


class PromptfooResponse(msgspec.Struct):
    """The response of the provider."""

    output: object = None
    error: object = None
    cached: bool | None = None


class PromptfooGrading(_Camel):
    """The fields that are read from a grading."""

    named_score_weights: dict[str, float | None] | None = None


class _Outcome(_Camel):
    """What every form says about one test in one column."""

    success: bool | None = None
    score: object = None
    named_scores: dict[str, object] | None = None
    grading_result: PromptfooGrading | None = None
    failure_reason: int | None = None
    error: object = None
    latency_ms: float | None = None
    cost: object = None
    token_usage: dict[str, object] | None = None


class PromptfooRow(_Outcome, kw_only=True):
    """One test in one column."""

    test_idx: int
    prompt_idx: int
    provider: PromptfooProvider | str = ""
    prompt: PromptfooPrompt | None = None
    vars: object = None
    test_case: PromptfooTest = msgspec.field(default_factory=PromptfooTest)
    response: PromptfooResponse | None = None

    @property
    def ran(self) -> bool:
        """Whether the row ran; `error` alone does not decide, since a failed assertion sets it."""
        if self.failure_reason is not None:
            return self.failure_reason != _ERROR
        return self.grading_result is not None or not self.error


class PromptfooMetrics(_Camel):
    """The metrics of one column."""

    test_pass_count: int | None = None
    test_fail_count: int | None = None
    test_error_count: int | None = None
    named_scores: dict[str, float | None] = {}
    named_score_weights: dict[str, float | None] = {}


class PromptfooColumn(PromptfooPrompt):
    """A prompt with a provider, and its metrics."""

    provider: str | None = None
    metrics: PromptfooMetrics | None = None


class PromptfooStats(msgspec.Struct):
    """The overall statistics."""

    successes: int | None = None
    failures: int | None = None
    errors: int | None = None


class _Cell(_Outcome):
    success: bool | None = msgspec.field(name="pass", default=None)
    text: object = None


class _TableRow(_Camel):
    outputs: list[_Cell | str | None]
    vars: list[object] = []
    description: str | None = None
    test: PromptfooTest = msgspec.field(default_factory=PromptfooTest)
    test_idx: int | None = None


class _Head(msgspec.Struct):
    prompts: list[PromptfooColumn | str] = []
    vars: list[str] = []


class _Table(msgspec.Struct):
    head: _Head
    body: list[msgspec.Raw] = []


class _Repeat(msgspec.Struct):
    repeat: int | None = None


class _Config(_Camel):
    tests: object = None
    evaluate_options: _Repeat | None = None


class _Versions(_Camel):
    promptfoo_version: str | None = None


class _Document(_Camel):
    """The members of all JSON forms, at the top or under ``results``."""

    results: msgspec.Raw = msgspec.Raw()
    table: _Table | None = None
    prompts: list[PromptfooColumn] = []
    stats: PromptfooStats | None = None
    eval_id: str | None = None
    id: str | None = None
    config: _Config | None = None
    runtime_options: _Repeat | None = None
    metadata: _Versions | None = None
    data: msgspec.Raw = msgspec.Raw()


class PromptfooLog(msgspec.Struct, frozen=True):
    """An evaluation without its rows; ``repeat`` is how often every test was run."""

    version: str | None
    eval_id: str
    columns: list[PromptfooColumn]
    stats: PromptfooStats
    test_count: int | None
    repeat: int


PlacedRow = tuple[str, msgspec.Raw, PromptfooRow]
_Found = Iterator[tuple[str, msgspec.Raw, PromptfooRow | Refusal]]


def is_promptfoo(head: bytes, filename: str) -> bool:
    """Return whether the first bytes of a file look like one of promptfoo's forms."""
    if filename.endswith(".csv"):
        return _find_columns(read_header(head, filename)) != {}
    if filename.endswith((".yaml", ".yml")):
        return b"promptIdx:" in head or (b"\nresults:" in head and b"evalId:" in head)
    paths = find_key_paths(head)
    if paths >= {"promptIdx", "promptId", "gradingResult"}:
        return True
    if any(f"{at}table.head" in paths and f"{at}table.body" in paths for at in _NESTED):
        return True
    if any(paths >= {f"{at}results[].promptIdx", f"{at}results[].vars"} for at in _NESTED):
        return True
    if paths >= {"data.version", "data.results.version", "data.results.prompts"}:
        return True  # a shared file of version 3 or later; its rows lie deeper than paths go
    known = ("results.prompts", "results.results")
    return "evalId" in paths and any(path.startswith(known) for path in paths)


_NESTED: Final = ("", "results.", "data.", "data.results.")


def load_promptfoo(file: ForeignFile) -> tuple[PromptfooLog | None, _Found]:
    """Return the evaluation (None if a file has only rows), and every row with its place."""
    if file.name.endswith(".csv"):
        return None, _read_csv_rows(file)
    data = strip_bom(file.data)
    if not data.lstrip().startswith(b"{"):
        data = _convert_yaml(file)
    elif find_key_paths(file.head) >= {"promptIdx", "testIdx"}:
        return None, _read_line_rows(file)
    top = decode(data, _Document, file.name)
    if bytes(top.data) and not bytes(top.results) and top.table is None:
        top = decode(bytes(top.data), _Document, f"{file.name}: data")
    body, place = top, f"{file.name}: results"
    if bytes(top.results) and not bytes(top.results).startswith(b"["):
        body = decode(bytes(top.results), _Document, place)
        place = f"{place}.results"
    listed = decode(bytes(body.results or b"[]"), list[msgspec.Raw], place)
    log = _build_log(top, body)
    if body.table is not None and not any(b'"testIdx"' in bytes(raw) for raw in listed[:1]):
        return log, _read_table_rows(body.table, file.name)
    if not listed:
        raise BadInputError(f"{file.name}: contains no evaluation results")
    return log, read_json_rows(listed, PromptfooRow, place)


def _build_log(top: _Document, body: _Document) -> PromptfooLog:
    config = top.config or _Config()
    tests = config.tests
    counted = isinstance(tests, list) and all(isinstance(test, dict) for test in tests)
    columns: list[PromptfooColumn] = body.prompts or top.prompts
    if not columns and body.table is not None:
        columns = [one for one in body.table.head.prompts if not isinstance(one, str)]
    options = (top.runtime_options, config.evaluate_options)
    return PromptfooLog(
        version=(top.metadata or _Versions()).promptfoo_version,
        eval_id=top.eval_id or top.id or "",
        columns=columns,
        stats=body.stats or PromptfooStats(),
        test_count=len(tests) if isinstance(tests, list) and counted else None,
        repeat=max([1, *(one.repeat or 1 for one in options if one is not None)]),
    )


def _convert_yaml(file: ForeignFile) -> bytes:
    if len(file.data) > MAX_YAML_BYTES:
        raise BadInputError(
            f"{file.name}: YAML must be at most {MAX_YAML_BYTES} bytes; write .json instead"
        )
    try:
        value = parse_settings(strip_bom(file.data).decode(), file.name)
        return msgspec.json.encode(value)
    except (UnicodeDecodeError, TypeError, RecursionError) as error:
        raise BadInputError(f"{file.name}: not a promptfoo document: {error}") from error


def _read_line_rows(file: ForeignFile) -> _Found:
    for place, raw in read_json_lines(file, msgspec.Raw):
        if isinstance(raw, Refusal):
            yield place, msgspec.Raw(), raw
        else:
            for _, _, row in read_json_rows([raw], PromptfooRow, place):
                yield place, raw, Refusal(place, row.reason) if isinstance(row, Refusal) else row


def _read_table_rows(table: _Table, name: str) -> _Found:
    heads = [
        PromptfooColumn(label=one) if isinstance(one, str) else one for one in table.head.prompts
    ]
    for number, (place, raw, row) in enumerate(
        read_json_rows(table.body, _TableRow, f"{name}: table.body")
    ):
        if isinstance(row, Refusal):
            yield place, raw, row
            continue
        if len(row.outputs) > len(heads):
            yield (
                place,
                raw,
                Refusal(place, f"has {len(row.outputs)} outputs, expected {len(heads)}"),
            )
            continue
        given = dict(zip(table.head.vars, row.vars, strict=False))
        if row.test.description is None:
            row.test.description = row.description
        for column, cell in enumerate(row.outputs):
            if cell is not None:
                index = number if row.test_idx is None else row.test_idx
                yield place, raw, _build_row(cell, (index, column), heads[column], given, row.test)


def _build_row(
    cell: _Cell | str,
    at: tuple[int, int],
    head: PromptfooColumn,
    given: dict[str, object],
    test: PromptfooTest,
) -> PromptfooRow:
    if isinstance(cell, str):
        cell = _parse_written_cell(cell)
    # Before failure reasons were stored, an output without a grading was the error's text.
    ungraded = cell.success is False and cell.grading_result is None
    outcome = {name: getattr(cell, name) for name in _Outcome.__struct_fields__}
    outcome["error"] = cell.error or (cell.text if ungraded else None)
    return PromptfooRow(
        test_idx=at[0],
        prompt_idx=at[1],
        provider=head.provider or "",
        prompt=PromptfooPrompt(raw=head.raw, label=head.label or head.display),
        vars=given or test.vars,
        test_case=test,
        response=PromptfooResponse(output=cell.text),
        **outcome,
    )


def _parse_written_cell(text: str) -> _Cell:
    """Return an output of the first version, which starts with its verdict."""
    found = _CELL.match(text)
    if found is None:
        return _Cell(text=text, failure_reason=_ERROR, error="the cell has no [PASS] or [FAIL]")
    passed = found[1] == "PASS"
    return _Cell(
        success=passed,
        score=_parse_number(found[2]) if found[2] else float(passed),
        text=text[found.end() :],
        failure_reason={"PASS": 0, "FAIL": 1, "ERROR": _ERROR}[found[1]],
    )


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _find_columns(header: list[str]) -> dict[int, int]:
    """Return where each column of outputs begins and ends."""
    starts = [
        place - 1
        for place, name in enumerate(header)
        if place > 0 and name == _STATUS[0] and header[place + 1 : place + 2] == [_STATUS[1]]
    ]
    return dict(zip(starts, [*starts, len(header)][1:], strict=True))


def _read_csv_rows(file: ForeignFile) -> _Found:
    """Yield the rows of a CSV table, whose scores have two decimals."""
    found = read_cells(file)
    header = next(found, [])
    columns = _find_columns(header)
    if not columns:
        raise BadInputError(f"{file.name}: not a promptfoo table: it has no Status and Score")
    first = min(columns)
    described = header[0] == "Description"
    names = header[int(described) : first]
    for number, cells in enumerate(found):
        place = f"{file.name}: row {number + 1}"
        if len(cells) != len(header):
            yield (
                place,
                msgspec.Raw(),
                Refusal(place, f"has {len(cells)} cells, expected {len(header)}"),
            )
            continue
        given: dict[str, object] = dict(zip(names, cells[int(described) : first], strict=True))
        test = PromptfooTest(description=(cells[0] or None) if described else None)
        raw = msgspec.Raw(msgspec.json.encode(dict(zip(header, cells, strict=True))))
        for column, (start, end) in enumerate(columns.items()):
            cell = _build_csv_cell(header[start:end], cells[start:end])
            if cell is not None:
                head = _parse_csv_head(header[start])
                yield place, raw, _build_row(cell, (number, column), head, given, test)


def _parse_csv_head(title: str) -> PromptfooColumn:
    found = _COLUMN.fullmatch(title)
    if found is None:
        return PromptfooColumn(label=title)
    return PromptfooColumn(label=found["label"], provider=found["provider"])


def _build_csv_cell(header: list[str], cells: list[str]) -> _Cell | None:
    named = dict(zip(header[1:], cells[1:], strict=True))
    status = named.get("Status", "").strip()
    if status not in ("PASS", "FAIL", "ERROR"):
        if not any(cells):
            return None
        return _Cell(failure_reason=_ERROR, error=f"its status is {status!r}", text=cells[0])
    return _Cell(
        success=status == "PASS",
        score=_parse_number(named.get("Score", "")),
        text=cells[0],
        named_scores={
            name.removeprefix(_METRIC): _parse_number(text)
            for name, text in named.items()
            if name.startswith(_METRIC) and text
        },
        failure_reason={"PASS": 0, "FAIL": 1, "ERROR": _ERROR}[status],
        error=named.get("Grader Reason") or None,
    )
