"""What an exam would not heed is refused: a request that is ignored can pass falsely."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gatemark
from gatemark.core.errors import UsageError
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.exam_suite import exam_suite
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.workspace import Workspace

SHOWN = ("candidate", "baseline")


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    rows = [
        {"item": f"i{n}", "reviewer": "bob", "choice": "candidate", "first": SHOWN[n % 2]}
        for n in range(40)
    ]
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "asked",
    [
        {"seal": True},
        {"expected_ids": "ids.txt"},
        {"reading": ReadingChoices(on_bad_line="exclude")},
        {"waivers": (object(),)},
        {"title": "votes"},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_an_exam_does_not_take_is_refused(votes: Path, asked: dict[str, Any]) -> None:
    assert gatemark.score("preference", votes).verdict == "pass"
    with pytest.raises(UsageError, match=f"preference does not take {next(iter(asked))}"):
        gatemark.score("preference", votes, **asked)


def test_an_exam_that_ignores_pinned_ids_is_refused(
    votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ExamRun(
        kind="pairwise",
        options={},
        files=[("records", str(votes))],
        reading=ReadingChoices(),
        engine=Workspace(jobs=1).engine,
        expected_ids=frozenset(f"i{n}" for n in range(50)),
    )
    assert run_exam(run).evidence.missing == 10
    monkeypatch.setattr("gatemark.evidence.run_exam.exam_suite", _heedless(exam_suite("pairwise")))
    with pytest.raises(UsageError, match="does not check expected ids"):
        run_exam(run)


def _heedless(suite: Any) -> Any:
    def examine(run: ExamRun) -> Any:
        return suite.examine(dataclasses.replace(run, expected_ids=None))

    return lambda _kind: msgspec.structs.replace(suite, examine=examine)
