"""promptfoo output: `.json`, and `.jsonl` with one row per line.

Baseline and candidate usually lie in one file as two columns; each column is an arm. Only the
fields named here are read: the resolved config beside them may hold secrets.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from gatemark.samples.foreign_json import decode, key_paths, lines, rows
from gatemark.samples.gathering import (
    Gathering,
    check_count,
    check_mean,
    choose_arm,
    error_of,
    only,
    refuse_partial,
    score_number,
    text_tags,
    usable_id,
)
from gatemark.samples.importer import (
    ClaimCheck,
    ForeignError,
    ForeignFile,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
    Refusal,
)

NAME: Final = "promptfoo"
_ERROR: Final = 2


class _Camel(msgspec.Struct, rename="camel"):
    pass


class _Provider(msgspec.Struct):
    id: str = ""
    label: str | None = None


class _Prompt(msgspec.Struct):
    raw: Any = None
    label: str | None = None


class _Assertion(msgspec.Struct):
    type: str = ""
    value: Any = None
    metric: str | None = None


class _TestCase(msgspec.Struct):
    description: str | None = None
    metadata: dict[str, Any] | None = None
    asserted: list[_Assertion] | None = msgspec.field(name="assert", default=None)


class _Response(msgspec.Struct):
    output: Any = None
    error: Any = None
    cached: bool | None = None


class _Grading(_Camel):
    named_score_weights: dict[str, float | None] | None = None


class _Row(_Camel):
    test_idx: int
    prompt_idx: int
    success: bool | None = None
    score: float | None = None
    named_scores: dict[str, float | None] | None = None
    grading_result: _Grading | None = None
    failure_reason: int | None = None
    error: Any = None
    provider: _Provider | str = ""
    prompt: _Prompt | None = None
    vars: Any = None
    test_case: _TestCase = msgspec.field(default_factory=_TestCase)
    response: _Response | None = None
    latency_ms: float | None = None

    @property
    def ran(self) -> bool:
        """Whether the row is no error; `error` alone says nothing, a failed assertion sets it."""
        if self.failure_reason is not None:
            return self.failure_reason != _ERROR
        return self.grading_result is not None or not self.error


class _Metrics(_Camel):
    score: float | None = None
    test_pass_count: int | None = None
    test_fail_count: int | None = None
    test_error_count: int | None = None
    named_scores: dict[str, float | None] = {}
    named_score_weights: dict[str, float | None] = {}


class _Column(msgspec.Struct):
    metrics: _Metrics | None = None


class _Stats(msgspec.Struct):
    successes: int | None = None
    failures: int | None = None
    errors: int | None = None


class _Body(msgspec.Struct):
    results: list[msgspec.Raw]
    prompts: list[_Column] = []
    stats: _Stats = msgspec.field(default_factory=_Stats)


class _Repeat(msgspec.Struct):
    repeat: int | None = None


class _Config(_Camel):
    tests: Any = None
    evaluate_options: _Repeat | None = None


class _Versions(_Camel):
    promptfoo_version: str | None = None


class _Log(_Camel):
    results: _Body
    eval_id: str | None = None
    config: _Config = msgspec.field(default_factory=_Config)
    runtime_options: _Repeat | None = None
    metadata: _Versions = msgspec.field(default_factory=_Versions)


_Placed = tuple[str, msgspec.Raw, _Row]


def sniff(head: bytes, _filename: str) -> bool:
    """An eval with results, or one row of it."""
    paths = key_paths(head)
    if "evalId" in paths and "results" in paths:
        return any(path.startswith(("results.prompts", "results.results")) for path in paths)
    return paths >= {"promptIdx", "promptId", "gradingResult"}


def arms(files: Sequence[ForeignFile], options: ReadOptions) -> tuple[LogExperiment, ...]:
    """One arm per column, named by its provider, and by its prompt where that is not enough."""
    gathering = Gathering(NAME, only(files, NAME).name, options)
    _, placed = _load(only(files, NAME), gathering)
    return _arms(placed, _arm_names(placed))


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """The rows of one column; rows that failed to run are errors, whatever score they carry."""
    file = only(files, NAME)
    gathering = Gathering(NAME, file.name, options)
    log, placed = _load(file, gathering)
    names = _arm_names(placed)
    arm = choose_arm(_arms(placed, names), options.arm, file.name) if placed else ""
    keys = _keys(placed, _repeats(log), gathering, named=options.id_path is not None)
    _refuse_filtered(log, placed, gathering, file, options)
    mine = [entry for entry in placed if names[entry[2].prompt_idx] == arm]
    for place, raw, row in mine:
        item, epoch = keys[row.test_idx]
        _add(gathering, place, gathering.chosen_id(place, raw, item), epoch, row)
    if log is None:
        gathering.note("one row per line: the file holds no aggregates to check against")
    else:
        _check(gathering, log, mine, placed)
        gathering.lineage |= {
            "eval_id": log.eval_id or "",
            "promptfoo": log.metadata.promptfoo_version or "",
        }
    absent = len({row.test_idx for _, _, row in placed} - {row.test_idx for _, _, row in mine})
    if absent:
        gathering.note(f"arm {arm!r} has no row for {absent} tests that other arms have")
    return gathering.finish(arm=arm, headline="success")


def _load(file: ForeignFile, gathering: Gathering) -> tuple[_Log | None, list[_Placed]]:
    log = None
    found: Iterator[tuple[str, msgspec.Raw, _Row | Refusal]]
    if "results" in key_paths(file.head):
        log = decode(file.data, _Log, file.name)
        found = rows(log.results.results, _Row, f"{file.name}: results.results")
    else:
        found = _line_rows(file)
    placed = []
    for place, raw, row in found:
        if isinstance(row, Refusal):
            gathering.refuse(row)
        else:
            placed.append((place, raw, row))
    return log, placed


def _line_rows(file: ForeignFile) -> Iterator[tuple[str, msgspec.Raw, _Row | Refusal]]:
    for place, raw in lines(file, msgspec.Raw):
        if isinstance(raw, Refusal):
            yield place, msgspec.Raw(), raw
        else:
            for _, _, row in rows([raw], _Row, place):
                yield place, raw, Refusal(place, row.reason) if isinstance(row, Refusal) else row


def _arms(placed: list[_Placed], names: Mapping[int, str]) -> tuple[LogExperiment, ...]:
    counts = Counter(row.prompt_idx for _, _, row in placed)
    return tuple(LogExperiment(names[index], counts[index]) for index in sorted(counts))


def _arm_names(placed: list[_Placed]) -> dict[int, str]:
    columns: dict[int, tuple[str, str]] = {}
    for _, _, row in placed:
        provider = row.provider if isinstance(row.provider, str) else ""
        if isinstance(row.provider, _Provider):
            provider = row.provider.label or row.provider.id
        columns.setdefault(row.prompt_idx, (provider, (row.prompt and row.prompt.label) or ""))
    providers = Counter(provider for provider, _ in columns.values())
    pairs = Counter(columns.values())
    names = {}
    for index, (provider, prompt) in columns.items():
        name = provider
        if providers[provider] > 1 or not provider:
            name = f"{provider} / {prompt}"
        names[index] = name if pairs[provider, prompt] == 1 else f"{name} #{index}"
    return names


def _repeats(log: _Log | None) -> int:
    if log is None:
        return 1
    named = (log.runtime_options, log.config.evaluate_options)
    return max([1, *(option.repeat or 1 for option in named if option is not None)])


def _keys(
    placed: list[_Placed], repeats: int, gathering: Gathering, *, named: bool
) -> dict[int, tuple[str, int]]:
    """The id and epoch of every test: the case's own id where each has one, else its position."""
    cases: dict[int, _TestCase] = {}
    for _, _, row in placed:
        cases.setdefault(row.test_idx, row.test_case)
    for candidate in (
        {index: (case.metadata or {}).get("case_id") for index, case in cases.items()},
        {index: (case.metadata or {}).get("id") for index, case in cases.items()},
        {index: case.description for index, case in cases.items()},
    ):
        keys = _numbered(candidate, repeats)
        if keys is not None:
            return keys
    if not named:
        gathering.note("tests carry no unique id of their own: testIdx, their position, is used")
    return {index: (str(index), 1) for index in cases}


def _numbered(candidate: dict[int, Any], repeats: int) -> dict[int, tuple[str, int]] | None:
    seen: Counter[str] = Counter()
    keys = {}
    for index in sorted(candidate):
        name = usable_id(candidate[index])
        if name is None:
            return None
        seen[name] += 1
        keys[index] = (name, seen[name])
    return keys if max(seen.values(), default=0) <= repeats else None


def _refuse_filtered(
    log: _Log | None,
    placed: list[_Placed],
    gathering: Gathering,
    file: ForeignFile,
    options: ReadOptions,
) -> None:
    tests = log.config.tests if log else None
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        return
    ran = len({row.test_idx for _, _, row in placed})
    if ran < len(tests):
        reason = f"results cover {ran} of the {len(tests)} tests in the config (filtered run)"
        gathering.note(refuse_partial(file.name, reason, options))


def _add(gathering: Gathering, place: str, item: object, epoch: int, row: _Row) -> None:
    scores: dict[str, float | None] = {
        "success": score_number(row.success),
        "score": score_number(row.score),
    }
    for name, value in (row.named_scores or {}).items():
        scores[f"named/{name}" if name in ("success", "score") else name] = score_number(value)
    tags = text_tags(row.test_case.metadata)
    cached = row.response is not None and row.response.cached is True
    if cached:
        tags["cached"] = "true"
        gathering.note("answers from the cache have no latency")
    error: ForeignError | None = None
    if not row.ran:
        error = error_of(row.error or (row.response and row.response.error) or "", "row_error")
    gathering.add(
        place,
        item=item,
        epoch=epoch,
        given=row.vars if row.vars else (row.prompt and row.prompt.raw),
        target=_target(row.test_case.asserted or []),
        output=row.response and row.response.output,
        scores=scores,
        error=error,
        latency_ms=None if cached else row.latency_ms,
        tags=tags,
    )


def _target(asserted: list[_Assertion]) -> Any:
    if len(asserted) == 1:
        return asserted[0].value
    return [
        {"type": one.type, "value": one.value, "metric": one.metric} for one in asserted
    ] or None


def _check(gathering: Gathering, log: _Log, mine: list[_Placed], placed: list[_Placed]) -> None:
    stats = log.results.stats
    _check_outcomes(gathering, "stats", (stats.successes, stats.failures, stats.errors), placed)
    column = mine[0][2].prompt_idx if mine else -1
    columns = log.results.prompts
    metrics = columns[column].metrics if 0 <= column < len(columns) else None
    if metrics is None:
        return
    counts = (metrics.test_pass_count, metrics.test_fail_count, metrics.test_error_count)
    _check_outcomes(gathering, "arm", counts, mine)
    values = [float(row.success) for _, _, row in mine if row.ran and row.success is not None]
    gathering.note_left_out("success", values, len(mine), "rows failed to run")
    for name, weight in metrics.named_score_weights.items():
        claimed = metrics.named_scores.get(name)
        if claimed is not None and weight:
            gathering.check(_check_named(name, claimed / weight, mine))


def _check_outcomes(
    gathering: Gathering,
    label: str,
    claimed: tuple[int | None, int | None, int | None],
    placed: list[_Placed],
) -> None:
    found: dict[str, int] = defaultdict(int)
    for _, _, row in placed:
        outcome = "errors" if not row.ran else "successes" if row.success else "failures"
        found[outcome] += 1
    for name, count in zip(("successes", "failures", "errors"), claimed, strict=True):
        if count is not None:
            gathering.check(check_count(f"{label} {name}", count, found[name]))


def _check_named(name: str, claimed: float, mine: list[_Placed]) -> ClaimCheck:
    """A claimed weighted mean beside the rows' values under their own weights."""
    values, weights = [], []
    for _, _, row in mine:
        value = (row.named_scores or {}).get(name)
        if not row.ran or value is None:
            continue
        given = (row.grading_result and row.grading_result.named_score_weights) or {}
        weight = given.get(name)
        weights.append(1.0 if weight is None else weight)
        values.append(value)
    total = math.fsum(weights)
    share = len(values) / total if total else 0.0
    weighted = [value * weight * share for value, weight in zip(values, weights, strict=True)]
    return check_mean(f"{name} mean", claimed, weighted, len(mine), "rows have no such score")


IMPORTER: Final = Importer(
    name=NAME,
    summary="promptfoo output (.json, .jsonl)",
    sniff=sniff,
    arms=arms,
    read=read,
)
