"""DeepEval runs: a file of the results folder, `.deepeval/.latest_test_run.json`, or a dump.

The dump is what `evaluate()` returns, written with `model_dump_json()`; it is the same data in
snake case. `.latest_test_run.json` has the run under the key `testRunData`, and
`.latest_run_full.json` has it as a results folder does. The shapes are those of DeepEval 4.3
(`deepeval/test_run/api.py`, `test_run.py`) and of the older versions that the tests name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gatemark.samples.foreign_json import decode, find_key_paths, read_json_rows, strip_bom
from gatemark.samples.gathering import (
    Gathering,
    check_count,
    find_repeats,
    make_error,
    make_log_importer,
    make_tags,
    score_number,
    sum_tokens,
)
from gatemark.samples.importer import ForeignError, ForeignFile, Imported, LogExperiment

_PASSED: Final = "success"
_LATEST: Final = "testRunData"
_DEFAULT_NAME: Final = re.compile(r"(?:conversational_)?test_case_[0-9]+")
_CASES: Final = ("testCases", "conversationalTestCases", "test_results")
_CAMEL: Final = {
    "actual_output": "actualOutput",
    "expected_output": "expectedOutput",
    "expected_outcome": "expectedOutcome",
    "metrics_data": "metricsData",
    "index": "order",
    "completion_time": "completionTime",
    "token_cost": "tokenCost",
    "input_token_count": "inputTokenCount",
    "output_token_count": "outputTokenCount",
}
_MARKS: Final = ("metricsData", "metricsMetadata", "actualOutput", "metrics_data", "actual_output")
_LATEST_FILE: Final = ".latest_test_run.json"
_FULL_COPY: Final = ".latest_run_full.json"
_FILES: Final = re.compile(
    r"test_run_[0-9_]+\.json|\.latest_(?:test_run|run_full)\.json|[0-9]{8}_[0-9]{6}"
)


class _Metric(msgspec.Struct):
    name: str = ""
    metric: str = ""
    score: object = None
    threshold: object = None
    success: bool | None = None
    flaky: bool | None = None
    error: object = None
    strict_mode: bool | None = msgspec.field(name="strictMode", default=None)
    strict_mode_snake: bool | None = msgspec.field(name="strict_mode", default=None)
    evaluation_model: str | None = msgspec.field(name="evaluationModel", default=None)
    evaluation_model_snake: str | None = msgspec.field(name="evaluation_model", default=None)

    @property
    def settings(self) -> dict[str, object]:
        """What its score and verdict depend on; ``evaluate()`` writes the keys in snake case."""
        is_strict = self.strict_mode or self.strict_mode_snake
        return {
            "threshold": score_number(self.threshold),
            "strict mode": is_strict or None,
            "judge model": self.evaluation_model or self.evaluation_model_snake,
        }

    @property
    def called(self) -> str:
        """The name of the metric; before version 1 the key was ``metric``."""
        return self.name or self.metric

    @property
    def score_name(self) -> str:
        """The name of its score, which is not that of the verdict."""
        return f"metric/{self.called}" if self.called == _PASSED else self.called


class _Camel(msgspec.Struct, rename="camel"):
    name: str | None = None
    order: int | None = None
    input: object = None
    actual_output: object = None
    expected_output: object = None
    scenario: object = None
    expected_outcome: object = None
    turns: object = None
    success: bool | None = None
    metrics_data: list[_Metric] | None = None
    metrics_metadata: list[_Metric] | None = None
    completion_time: float | None = None
    token_cost: object = None
    input_token_count: object = None
    output_token_count: object = None
    metadata: dict[str, object] | None = None

    @property
    def metrics(self) -> list[_Metric]:
        """All metrics, under whichever key the version uses."""
        return self.metrics_data or self.metrics_metadata or []

    @property
    def undecided(self) -> bool:
        """Whether all failed metrics crashed; flaky metrics do not count."""
        deciding = [metric for metric in self.metrics if not metric.flaky]
        failed = any(metric.success is False and not metric.error for metric in deciding)
        return not failed and any(metric.error for metric in deciding)


class _Total(msgspec.Struct):
    metric: str = ""
    passes: int | None = None
    fails: int | None = None
    errors: int | None = None


class _Log(msgspec.Struct, rename="camel"):
    test_cases: list[msgspec.Raw] = []
    conversational_test_cases: list[msgspec.Raw] = []
    test_results: list[msgspec.Raw] = msgspec.field(name="test_results", default_factory=list)
    metrics_scores: list[_Total] = []
    identifier: str | None = None
    test_passed: int | None = None
    test_failed: int | None = None
    hyperparameters: dict[str, object] | None = None
    dataset_alias: str | None = None

    @property
    def count(self) -> int:
        return len(self.test_cases + self.conversational_test_cases + self.test_results)


class _Latest(msgspec.Struct):
    run: _Log | None = msgspec.field(name=_LATEST, default=None)


_Placed = tuple[str, msgspec.Raw, _Camel]


def _sniff(head: bytes, _filename: str) -> bool:
    """Recognise a run with test cases whose metrics have DeepEval's keys."""
    paths = find_key_paths(head)
    if "conversationalTestCases" in paths and "testCases" in paths:
        return True
    prefixes = [f"{at}{cases}[]." for at in ("", f"{_LATEST}.") for cases in _CASES]
    return any(f"{prefix}{mark}" in paths for prefix in (*prefixes, "[].") for mark in _MARKS)


def _read_arms(log: _Log) -> tuple[LogExperiment, ...]:
    return (LogExperiment(log.identifier or "run", log.count),)


def _read(log: _Log, gathering: Gathering) -> Imported:
    """Read every test case, with a score per metric and the verdict as the score `success`."""
    arm = gathering.choose_arm(_read_arms(log))
    cases = _read_cases(log, gathering)
    for (place, raw, case), (item, epoch) in zip(
        cases, _choose_keys(cases, gathering), strict=True
    ):
        _add(gathering, place, gathering.choose_id(place, raw, item), epoch, case)
    _check(gathering, log, [case for _, _, case in cases])
    lower, higher = _find_directions(case for _, _, case in cases)
    gathering.lower_is_better |= lower
    gathering.higher_is_better |= higher | {_PASSED}
    _note_settings([case for _, _, case in cases], gathering)
    gathering.note("the file has neither a time nor a DeepEval version: lineage is incomplete")
    gathering.lineage |= {
        "identifier": log.identifier or "",
        "dataset": log.dataset_alias or "",
        **make_tags(log.hyperparameters),
    }
    return gathering.finish(arm=arm, headline=_PASSED)


def _load(file: ForeignFile, _gathering: Gathering) -> _Log:
    if strip_bom(file.data).lstrip().startswith(b"["):
        return _Log(test_results=decode(file.data, list[msgspec.Raw], file.name))
    if _LATEST in find_key_paths(file.head):
        return decode(file.data, _Latest, file.name).run or _Log()
    return decode(file.data, _Log, file.name)


def _read_cases(log: _Log, gathering: Gathering) -> list[_Placed]:
    results = [_to_run_keys(raw) for raw in log.test_results]
    listed = (log.test_cases, log.conversational_test_cases, results)
    return [
        case
        for key, raws in zip(_CASES, listed, strict=True)
        for case in gathering.readable(read_json_rows(raws, _Camel, f"{gathering.place}: {key}"))
    ]


def _to_run_keys(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a result of ``evaluate()`` with the keys of a test run."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return raw
    renamed = {_CAMEL.get(name, name): value for name, value in fields.items()}
    return msgspec.Raw(msgspec.json.encode(renamed))


def _choose_keys(cases: list[_Placed], gathering: Gathering) -> list[tuple[str | None, int]]:
    """Return id and epoch of every case; default names are positions, repeats are epochs."""
    names = [case.name for _, _, case in cases]
    if names and all(name is None or _DEFAULT_NAME.fullmatch(name) for name in names):
        gathering.by_position = True
        gathering.note("test cases have default names: their position is the id")
        same = find_repeats({n: _read_content(case) for n, (_, _, case) in enumerate(cases)})
        return [
            (names[same[n][0]] or f"test_case_{same[n][0]}", same[n][1]) for n in range(len(cases))
        ]
    shared = {name for name, n in Counter(names).items() if n > 1}
    if not shared:
        return [(name, 1) for name in names]
    return _number_shared(cases, shared, gathering)


def _number_shared(
    cases: list[_Placed], shared: set[str | None], gathering: Gathering
) -> list[tuple[str | None, int]]:
    """Number cases that share a name: the same input is an epoch, others are numbered in order."""
    same = find_repeats({n: [c.name, _read_content(c)] for n, (_, _, c) in enumerate(cases)})
    firsts = {first for first, _ in same.values()}
    distinct = Counter(cases[first][2].name for first in firsts)
    if any(distinct[name] > 1 for name in shared):
        gathering.by_position = True
        gathering.note("several test cases share a name; their order is part of their id")
    keys: list[tuple[str | None, int]] = []
    for number in range(len(cases)):
        first, epoch = same[number]
        case = cases[first][2]
        order = first if case.order is None else case.order
        name = f"{case.name}#{order}" if distinct[case.name] > 1 else case.name
        keys.append((name, epoch))
    return keys


def _read_content(case: _Camel) -> object:
    asked = case.input if case.input is not None else case.scenario
    return [asked, case.expected_output, case.expected_outcome, case.metadata]


def _note_settings(cases: Sequence[_Camel], gathering: Gathering) -> None:
    """Record how metrics were made; the verdict of a case depends on those of all its metrics."""
    values: dict[str, dict[str, dict[str, None]]] = {}
    for metric in (metric for case in cases for metric in case.metrics if not metric.flaky):
        of_metric = values.setdefault(metric.score_name, {})
        for name, value in metric.settings.items():
            if value is not None:
                of_metric.setdefault(name, {})[_write_plainly(value)] = None
    listed = {
        score: {name: ", ".join(sorted(found)) for name, found in settings.items()}
        for score, settings in values.items()
    }
    for score, settings in listed.items():
        gathering.scored_with(score, settings)
        gathering.scored_with(
            _PASSED, {f"{name} of {score}": text for name, text in settings.items()}
        )
    gathering.scored_with(_PASSED, {"list of metrics": ", ".join(sorted(listed))})


def _write_plainly(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _find_directions(cases: Iterable[_Camel]) -> tuple[set[str], set[str]]:
    """Return the metrics that pass only below their threshold, such as toxicity, or only above."""
    below: set[str] = set()
    above: set[str] = set()
    for metric in (metric for case in cases for metric in case.metrics):
        score, threshold = score_number(metric.score), score_number(metric.threshold)
        if score is None or threshold is None or score == threshold:
            continue
        if metric.error or metric.success is None:
            continue
        (above if (score > threshold) == metric.success else below).add(metric.score_name)
    return below - above, above - below


def _add(gathering: Gathering, place: str, item: object, epoch: int, case: _Camel) -> None:
    scores: dict[str, object] = {_PASSED: case.success}
    tags = make_tags(case.metadata)
    for metric in case.metrics:
        name = metric.score_name
        scores[name] = None if metric.error else metric.score
        if metric.flaky:
            tags[f"flaky.{name}"] = "true"
        if metric.error:
            tags[f"error.{name}"] = make_error(metric.error, "metric_error").message
    if case.undecided:
        scores[_PASSED] = None
        gathering.note("if only crashed metrics fail a case, its verdict is null, not a failure")
    gathering.add(
        place,
        item=item,
        epoch=epoch,
        given=case.input if case.input is not None else (case.scenario or case.turns),
        target=case.expected_output if case.expected_output is not None else case.expected_outcome,
        output=case.actual_output if case.actual_output is not None else case.turns,
        scores=scores,
        error=_read_error(case, scores),
        latency_ms=None if case.completion_time is None else case.completion_time * 1000,
        tags=tags,
        cost=case.token_cost,
        tokens=sum_tokens(case.input_token_count, case.output_token_count),
    )


def _read_error(case: _Camel, scores: dict[str, object]) -> ForeignError | None:
    if any(score_number(score) is not None for score in scores.values()):
        return None
    crashed = next((metric for metric in case.metrics if metric.error), None)
    if crashed is None:
        return ForeignError("unscored", "no metric gave this test case a number")
    return make_error(crashed.error, "metric_error")


def _check(gathering: Gathering, log: _Log, cases: list[_Camel]) -> None:
    for label, claimed, found in (
        ("testPassed", log.test_passed, sum(case.success is True for case in cases)),
        ("testFailed", log.test_failed, sum(case.success is False for case in cases)),
    ):
        if claimed is not None:
            gathering.check(check_count(label, claimed, found))
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        decided = [m.success for m in case.metrics if not m.flaky and m.success is not None]
        if decided and case.success is not None and case.success != all(decided):
            gathering.note_contradiction(
                f"test case {case.name!r}: its verdict does not match its metrics"
            )
        for metric in case.metrics:
            outcome = "errors" if metric.error else "passes" if metric.success else "fails"
            outcomes[metric.called][outcome] += 1
    for total in log.metrics_scores:
        for name, count in (
            ("passes", total.passes),
            ("fails", total.fails),
            ("errors", total.errors),
        ):
            if count is not None:
                found_count = outcomes[total.metric][name]
                gathering.check(check_count(f"{total.metric} {name}", count, found_count))


def _find_in_folder(names: Sequence[str]) -> list[str]:
    """Return the test runs in a results folder, or in `.deepeval`, which has the latest twice."""
    twice = {_FULL_COPY} if _LATEST_FILE in names else set()
    return sorted(name for name in names if _FILES.fullmatch(name) and name not in twice)


IMPORTER: Final = make_log_importer(
    "deepeval",
    "DeepEval test runs, the latest run, and dumps of evaluate() (.json)",
    sniff=_sniff,
    load=_load,
    arms=_read_arms,
    read=_read,
    in_folder=_find_in_folder,
)
