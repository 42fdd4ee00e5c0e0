"""pydantic-evals reports as JSON: one report, or an array of several.

A case that crashed is listed in ``failures`` instead of ``cases``; both are rows here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, find_key_paths, read_json_rows, strip_bom
from gatemark.samples.gathering import (
    Gathering,
    check_mean,
    make_error,
    make_log_importer,
    make_tags,
    score_number,
    sum_tokens,
)
from gatemark.samples.importer import ForeignError, ForeignFile, Imported, LogExperiment

_LEFT_OUT: Final = "cases failed or were not scored"
_REPEAT: Final = re.compile(r" \[(\d{1,9})/\d{1,9}\]$")


class _Evaluator(msgspec.Struct):
    name: str = ""
    arguments: object = None


class _Judgement(msgspec.Struct):
    value: object = None
    source: _Evaluator | None = None
    evaluator_version: str | None = None


class _EvaluatorFailure(msgspec.Struct):
    name: str = ""
    error_message: str = ""


class _Case(msgspec.Struct):
    name: str
    inputs: object = None
    expected_output: object = None
    output: object = None
    metadata: object = None
    scores: dict[str, _Judgement] = {}
    labels: dict[str, _Judgement] = {}
    assertions: dict[str, _Judgement] = {}
    task_duration: float | None = None
    metrics: dict[str, object] = {}
    source_case_name: str | None = None
    evaluator_failures: list[_EvaluatorFailure] = []


class _Failure(msgspec.Struct):
    name: str
    error_message: str = ""
    inputs: object = None
    expected_output: object = None
    metadata: object = None
    source_case_name: str | None = None


class _Report(msgspec.Struct):
    cases: list[msgspec.Raw]
    name: str = "report"
    failures: list[msgspec.Raw] = []
    averages: dict[str, object] | None = None
    dataset_name: str | None = None
    experiment_metadata: dict[str, object] | None = None


def _sniff(head: bytes, _filename: str) -> bool:
    """Recognise a report with cases or failures."""
    paths = {path.removeprefix("[].") for path in find_key_paths(head)}
    if "cases" not in paths:
        return False
    crashed = {"failures[].name", "failures[].error_message"}
    return paths >= {"cases[].inputs", "cases[].scores"} or paths >= crashed


def _read(reports: list[_Report], gathering: Gathering) -> Imported:
    """Read every case and every failure; assertions become 1 or 0, labels become tags."""
    arm = gathering.choose_arm(_read_arms(reports))
    report = next(report for report in reports if report.name == arm)
    values: dict[str, list[float]] = {}
    cases = read_json_rows(report.cases, _Case, f"{gathering.place}: cases")
    for place, raw, case in gathering.readable(cases):
        _add_case(gathering, place, raw, case, values)
    failures = read_json_rows(report.failures, _Failure, f"{gathering.place}: failures")
    for place, raw, failure in gathering.readable(failures):
        _add_failure(gathering, place, raw, failure)
    _check(gathering, report, values)
    gathering.note("the file has neither a time nor versions: lineage is incomplete")
    gathering.lineage |= {
        "experiment": report.name,
        "dataset": report.dataset_name or "",
        **make_tags(report.experiment_metadata),
    }
    return gathering.finish(arm=arm, headline=gathering.only_score())


def _load(file: ForeignFile, _gathering: Gathering) -> list[_Report]:
    if strip_bom(file.data).lstrip().startswith(b"["):
        reports = decode(file.data, list[_Report], file.name)
    else:
        reports = [decode(file.data, _Report, file.name)]
    twice = [name for name, n in Counter(report.name for report in reports).items() if n > 1]
    if twice:
        raise BadInputError(f"{file.name}: two reports are called {twice[0]!r}")
    return reports


def _read_arms(reports: list[_Report]) -> tuple[LogExperiment, ...]:
    return tuple(LogExperiment(one.name, len(one.cases) + len(one.failures)) for one in reports)


def _make_key(name: str, source: str | None) -> tuple[str, int]:
    """Return id and epoch; a repeated case is named `name [2/3]` and names its source."""
    numbered = _REPEAT.search(name)
    if source is None or numbered is None:
        return name, 1
    return source, int(numbered[1])


def _add_case(
    gathering: Gathering,
    place: str,
    raw: msgspec.Raw,
    case: _Case,
    values: dict[str, list[float]],
) -> None:
    tags = make_tags(case.metadata if isinstance(case.metadata, dict) else None)
    scores: dict[str, object] = {}
    for name, judgement in _read_judgements(case):
        value = judgement.value
        number = score_number(value)
        scores[name] = value
        if isinstance(value, bool):
            gathering.higher_is_better.add(name)
        if judgement.source is not None:
            gathering.scored_with(
                name,
                {
                    "evaluator": judgement.source.name,
                    "arguments": judgement.source.arguments,
                    "evaluator version": judgement.evaluator_version,
                },
            )
        if number is not None:
            values.setdefault(name, []).append(number)
    tags |= make_tags({f"label.{name}": label.value for name, label in case.labels.items()})
    for failure in case.evaluator_failures:
        scores.setdefault(failure.name or "evaluator", None)
        tags[f"error.{failure.name}"] = make_error(failure.error_message, "evaluator").message
    error = None
    unscored = all(score_number(score) is None for score in scores.values())
    if case.evaluator_failures and unscored:
        error = make_error(case.evaluator_failures[0].error_message, "evaluator_error")
    elif unscored:
        error = ForeignError("unscored", "no evaluator gave this case a number")
    item, epoch = _make_key(case.name, case.source_case_name)
    gathering.add(
        place,
        item=gathering.choose_id(place, raw, item),
        epoch=epoch,
        given=case.inputs,
        target=case.expected_output,
        output=case.output,
        scores=scores,
        error=error,
        latency_ms=None if case.task_duration is None else case.task_duration * 1000,
        tags=tags,
        cost=case.metrics.get("cost"),
        tokens=sum_tokens(*(case.metrics.get(f"{way}_tokens") for way in ("input", "output"))),
    )


def _read_judgements(case: _Case) -> Iterator[tuple[str, _Judgement]]:
    yield from case.scores.items()
    for name, assertion in case.assertions.items():
        yield (f"assertion/{name}" if name in case.scores else name), assertion


def _add_failure(gathering: Gathering, place: str, raw: msgspec.Raw, failure: _Failure) -> None:
    item, epoch = _make_key(failure.name, failure.source_case_name)
    gathering.add(
        place,
        item=gathering.choose_id(place, raw, item),
        epoch=epoch,
        given=failure.inputs,
        target=failure.expected_output,
        error=make_error(failure.error_message, "case_failure"),
        tags=make_tags(failure.metadata if isinstance(failure.metadata, dict) else None),
    )


def _check(gathering: Gathering, report: _Report, values: dict[str, list[float]]) -> None:
    """Check the tool's averages, which are over finished cases and may be missing."""
    all_count = len(report.cases) + len(report.failures)
    claimed: dict[str, object] = {}
    for kind in ("scores", "assertions"):
        kept = (report.averages or {}).get(kind)
        claimed |= kept if isinstance(kept, dict) else {}
    for name, numbers in values.items():
        claim = score_number(claimed.get(name))
        if claim is None:
            gathering.note_left_out(name, numbers, all_count, _LEFT_OUT)
        else:
            gathering.check(check_mean(name, claim, numbers, all_count, _LEFT_OUT))


IMPORTER: Final = make_log_importer(
    "pydantic-evals",
    "pydantic-evals reports (.json)",
    sniff=_sniff,
    load=_load,
    arms=_read_arms,
    read=_read,
)
