"""Logs of the made-up tool Tripbench: one JSON object with its cases."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.samples.foreign_json import decode, find_key_paths
from gatemark.samples.gathering import Gathering, check_count, require_one_file, score_number
from gatemark.samples.importer import (
    ForeignFile,
    Imported,
    Importer,
    LogExperiment,
    ReadOptions,
)

NAME = "tripbench"


class _Case(msgspec.Struct):
    case: str
    question: str
    answer: str | None = None
    grade: float | None = None


class _Log(msgspec.Struct):
    tripbench: int
    cases: list[_Case]
    passed: int


def sniff(head: bytes, _filename: str) -> bool:
    """A Tripbench log says so."""
    return "tripbench" in find_key_paths(head)


def arms(files: Sequence[ForeignFile], _options: ReadOptions) -> tuple[LogExperiment, ...]:
    """A file is one run."""
    log = _read(files)
    return (LogExperiment("run", len(log.cases)),)


def read(files: Sequence[ForeignFile], options: ReadOptions) -> Imported:
    """Every case with its grade."""
    file = require_one_file(files, NAME)
    log = _read(files)
    gathering = Gathering(NAME, file.name, options)
    for number, case in enumerate(log.cases):
        gathering.add(
            f"{file.name}: cases[{number}]",
            item=case.case,
            given=case.question,
            output=case.answer,
            scores={"grade": score_number(case.grade)},
        )
    passed = sum(case.grade == 1 for case in log.cases)
    gathering.check(check_count("passed", log.passed, passed))
    return gathering.finish(arm="run", headline="grade")


def _read(files: Sequence[ForeignFile]) -> _Log:
    file = require_one_file(files, NAME)
    return decode(file.data, _Log, file.name)


IMPORTER = Importer(
    name=NAME, summary="Logs of the made-up tool Tripbench.", sniff=sniff, arms=arms, read=read
)
