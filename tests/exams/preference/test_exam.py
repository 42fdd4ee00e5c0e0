"""The pairwise exam: one verdict per item, the laws of a fold, and packs that use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.exam import measures, schemas
from gatemark.exams.preference.exam import SUITE, PreferenceOptions
from gatemark.testing.exams import check_exam

Run = Callable[..., Any]


def votes(wins: int, losses: int, ties: int = 0) -> list[dict[str, str]]:
    choices = ["candidate"] * wins + ["baseline"] * losses + ["tie"] * ties
    return [
        {
            "item": f"i{n:03d}",
            "reviewer": "r1",
            "choice": choice,
            "first": "candidate" if n % 2 else "baseline",
        }
        for n, choice in enumerate(choices)
    ]


def typed(rows: list[dict[str, str]]) -> list[Any]:
    return msgspec.convert(rows, list[schemas().get("gatemark.vote/1").form("vote").type])


def test_any_split_of_the_votes_gives_the_same_report() -> None:
    check_exam(SUITE.build(PreferenceOptions(), measures()), typed(votes(30, 11, 4)))


@pytest.mark.parametrize(
    ("wins", "losses", "value"), [(30, 10, 1.0), (10, 30, -1.0), (21, 19, None), (9, 0, None)]
)
def test_a_preference_is_a_sign_or_a_reason(wins: int, losses: int, value: float | None) -> None:
    exam = SUITE.build(PreferenceOptions(), measures())
    report = exam.finish(exam.step(exam.zero(0), typed(votes(wins, losses))))
    (sign,) = [number for number in report.measurements if number.name == "preferred"]
    assert sign.value == value
    assert (sign.reason is None) == (value is not None)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"alpha": 0.5}, {"min_decisive": 0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        PreferenceOptions(**options)


PACK = """
gatemark: 1
name: review
version: 1
asset: {kind: prompt, name: letters}
score_min: 0.5
regression_max: 0.02
suites:
  - id: blind
    kind: pairwise
    weight: 1
    evidence: {records: votes.jsonl}
    baseline_evidence: none
"""


@pytest.mark.parametrize(("wins", "losses", "code"), [(30, 10, 0), (10, 30, 1), (21, 19, 3)])
def test_a_pack_may_rest_on_blind_votes(
    gatemark: Run, tmp_path: Path, wins: int, losses: int, code: int
) -> None:
    (tmp_path / "pack.yaml").write_text(PACK)
    lines = [json.dumps(vote) + "\n" for vote in votes(wins, losses)]
    (tmp_path / "votes.jsonl").write_text("".join(lines))
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store", "--json")
    assert ran.code == code
    rules = {finding["rule"] for finding in ran.json["findings"]}
    assert "blind.pairwise.preferred" in rules
    alone = gatemark("score", "preference", tmp_path / "votes.jsonl", "--json")
    assert alone.code == code


def test_one_reviewer_may_not_vote_twice_on_an_item(gatemark: Run, tmp_path: Path) -> None:
    (tmp_path / "pack.yaml").write_text(PACK)
    lines = [json.dumps(vote) + "\n" for vote in [*votes(30, 10), votes(1, 0)[0]]]
    (tmp_path / "votes.jsonl").write_text("".join(lines))
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store")
    assert ran.code == 2
    assert "votes.jsonl:41: item 'i000', reviewer 'r1' was seen before" in ran.err
