"""DeepEval test runs: `test_run_<time>.json` or the rolling copy of the latest run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gatemark.samples.foreign_json import decode, key_paths, rows
from gatemark.samples.gathering import (
    Gathering,
    check_count,
    choose_arm,
    error_of,
    only,
    score_number,
    text_tags,
)
from gatemark.samples.importer import (
    ForeignError,
    ForeignFile,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
    Refusal,
)

NAME: Final = "deepeval"
_PASSED: Final = "success"


class _Camel(msgspec.Struct, rename="camel"):
    pass


class _Metric(_Camel):
    name: str
    score: float | None = None
    success: bool | None = None
    flaky: bool | None = None
    error: Any = None


class _Case(_Camel):
    name: str | None = None
    order: int | None = None
    input: Any = None
    actual_output: Any = None
    expected_output: Any = None
    scenario: Any = None
    expected_outcome: Any = None
    turns: Any = None
    success: bool | None = None
    metrics_data: list[_Metric] | None = None
    completion_time: float | None = None
    metadata: dict[str, Any] | None = None

    @property
    def undecided(self) -> bool:
        """Whether only crashed metrics speak against it; flaky metrics decide nothing."""
        deciding = [metric for metric in self.metrics_data or [] if not metric.flaky]
        failed = any(metric.success is False and not metric.error for metric in deciding)
        return not failed and any(metric.error for metric in deciding)


class _Total(_Camel):
    metric: str = ""
    passes: int | None = None
    fails: int | None = None
    errors: int | None = None


class _Log(_Camel):
    test_cases: list[msgspec.Raw] = []
    conversational_test_cases: list[msgspec.Raw] = []
    metrics_scores: list[_Total] = []
    identifier: str | None = None
    test_passed: int | None = None
    test_failed: int | None = None
    hyperparameters: dict[str, Any] | None = None
    dataset_alias: str | None = None


def sniff(head: bytes, _filename: str) -> bool:
    """A run with test cases whose metrics carry DeepEval's names."""
    paths = key_paths(head)
    if "testCases" not in paths:
        return False
    marks = ("testCases[].metricsData", "testCases[].actualOutput", "conversationalTestCases")
    return any(mark in paths for mark in marks)


def arms(files: Sequence[ForeignFile], _options: ReadOptions) -> tuple[LogExperiment, ...]:
    """A file is one run."""
    file = only(files, NAME)
    log = decode(file.data, _Log, file.name)
    return (
        LogExperiment(log.identifier or "run", len(log.test_cases + log.conversational_test_cases)),
    )


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """Every test case with a score per metric and the verdict as the score `success`."""
    file = only(files, NAME)
    log = decode(file.data, _Log, file.name)
    arm = choose_arm(arms(files, options), options.arm, file.name)
    gathering = Gathering(NAME, file.name, options)
    cases: list[tuple[str, msgspec.Raw, _Case]] = []
    for key, raws in (
        ("testCases", log.test_cases),
        ("conversationalTestCases", log.conversational_test_cases),
    ):
        for place, raw, case in rows(raws, _Case, f"{file.name}: {key}"):
            if isinstance(case, Refusal):
                gathering.refuse(case)
            else:
                cases.append((place, raw, case))
    shared = [name for name, n in Counter(case.name for _, _, case in cases).items() if n > 1]
    if shared and options.id_path is None:
        gathering.note("several test cases share a name; their order is part of their id")
    for place, raw, case in cases:
        own = f"{case.name}#{case.order}" if case.name in shared else case.name
        _add(gathering, place, gathering.chosen_id(place, raw, own), case)
    _check(gathering, log, [case for _, _, case in cases])
    gathering.note("the file holds neither a time nor a DeepEval version: lineage is incomplete")
    gathering.lineage |= {
        "identifier": log.identifier or "",
        "dataset": log.dataset_alias or "",
        **text_tags(log.hyperparameters),
    }
    return gathering.finish(arm=arm, headline=_PASSED)


def _add(gathering: Gathering, place: str, item: object, case: _Case) -> None:
    metrics = case.metrics_data or []
    scores: dict[str, float | None] = {_PASSED: score_number(case.success)}
    tags = text_tags(case.metadata)
    for metric in metrics:
        name = f"metric/{metric.name}" if metric.name == _PASSED else metric.name
        scores[name] = None if metric.error else score_number(metric.score)
        if metric.flaky:
            tags[f"flaky.{name}"] = "true"
        if metric.error:
            tags[f"error.{name}"] = error_of(metric.error, "metric_error").message
    if case.undecided:
        scores[_PASSED] = None
        gathering.note(
            "where only crashed metrics speak against a case, its verdict is null, not a failure"
        )
    gathering.add(
        place,
        item=item,
        given=case.input if case.input is not None else (case.scenario or case.turns),
        target=case.expected_output if case.expected_output is not None else case.expected_outcome,
        output=case.actual_output if case.actual_output is not None else case.turns,
        scores=scores,
        error=_error(case, scores),
        latency_ms=None if case.completion_time is None else case.completion_time * 1000,
        tags=tags,
    )


def _error(case: _Case, scores: dict[str, float | None]) -> ForeignError | None:
    if any(score is not None for score in scores.values()):
        return None
    crashed = next((metric for metric in case.metrics_data or [] if metric.error), None)
    if crashed is None:
        return ForeignError("unscored", "no metric gave this test case a number")
    return error_of(crashed.error, "metric_error")


def _check(gathering: Gathering, log: _Log, cases: list[_Case]) -> None:
    for label, claimed, found in (
        ("testPassed", log.test_passed, sum(case.success is True for case in cases)),
        ("testFailed", log.test_failed, sum(case.success is False for case in cases)),
    ):
        if claimed is not None:
            gathering.check(check_count(label, claimed, found))
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        decided = [m.success for m in case.metrics_data or [] if not m.flaky]
        if decided and case.success is not None and case.success != all(decided):
            gathering.note(f"test case {case.name!r}: its verdict does not follow from its metrics")
        for metric in case.metrics_data or []:
            outcome = "errors" if metric.error else "passes" if metric.success else "fails"
            outcomes[metric.name][outcome] += 1
    for total in log.metrics_scores:
        for name, count in (
            ("passes", total.passes),
            ("fails", total.fails),
            ("errors", total.errors),
        ):
            if count is not None:
                found_count = outcomes[total.metric][name]
                gathering.check(check_count(f"{total.metric} {name}", count, found_count))


IMPORTER: Final = Importer(
    name=NAME,
    summary="DeepEval test runs (.json)",
    sniff=sniff,
    arms=arms,
    read=read,
)
