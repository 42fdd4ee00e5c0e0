"""The pairwise exam: one verdict per item, the laws of a fold, and packs that use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.checks.preference.exam import SUITE, PreferenceOptions
from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Evidence
from gatemark.core.policy import decide
from gatemark.evidence.measures import measures
from gatemark.evidence.record_schemas import schemas
from gatemark.statistics.preference import order_p_value
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


def shown(first: list[str], choice: Callable[[int, str], str]) -> list[dict[str, str]]:
    return [
        {"item": f"i{n}", "reviewer": "r1", "choice": choice(n, side), "first": side}
        for n, side in enumerate(first)
    ]


def verdict_of(rows: list[dict[str, str]], **options: Any) -> str:
    exam = SUITE.build(PreferenceOptions(**options), measures())
    report = exam.finish(exam.step(exam.zero(0), typed(rows)))
    n = len(rows)
    evidence = Evidence(
        received=n, accepted=n, rejected=0, usable=n, missing=0, expected=None, files=()
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return decide(exam.policy(), (evidence,), report.measurements, (), now=now).outcome


ALWAYS_FIRST = ["candidate"] * 100
MOSTLY_FIRST = (["candidate"] * 9 + ["baseline"]) * 10
EACH_WAY = ["candidate", "baseline"] * 50


def test_a_habit_to_choose_the_first_answer_is_no_preference() -> None:
    def first(_: int, side: str) -> str:
        return side

    assert verdict_of(shown(ALWAYS_FIRST, first)) == "inconclusive"
    assert verdict_of(shown(MOSTLY_FIRST, first)) == "inconclusive"
    assert verdict_of(shown(EACH_WAY, first)) == "inconclusive"


def test_a_preference_in_both_orders_passes_whatever_the_balance() -> None:
    def better(n: int, _: str) -> str:
        return "baseline" if n % 7 == 0 else "candidate"

    assert verdict_of(shown(EACH_WAY, better)) == "pass"
    assert verdict_of(shown(MOSTLY_FIRST, better)) == "pass"
    worse = shown(MOSTLY_FIRST, lambda n, _: "candidate" if n % 7 == 0 else "baseline")
    assert verdict_of(worse) == "fail"


def test_positions_that_a_coin_drew_need_no_balance() -> None:
    rows = shown(ALWAYS_FIRST, lambda _, side: side)
    assert verdict_of(rows, drawn_positions=True) == "pass"


@given(
    st.lists(st.tuples(st.sampled_from(["candidate", "baseline"]), st.booleans()), min_size=1),
)
def test_the_chance_of_an_order_is_that_of_enumerated_orders(votes: list[tuple[str, bool]]) -> None:
    """Without a preference, each set of votes for the first answer is as likely as any other."""
    votes = votes[:10]
    sides = [side for side, _ in votes]
    first_wins = sum(is_first for _, is_first in votes)

    def wins(chosen: set[int]) -> int:
        return sum((place in chosen) == (side == "candidate") for place, side in enumerate(sides))

    observed = wins({place for place, (_, is_first) in enumerate(votes) if is_first})
    all_sets = [set(one) for one in combinations(range(len(votes)), first_wins)]
    expected = sum(wins(one) >= observed for one in all_sets) / len(all_sets)
    strata = [
        (
            sum(side == name and is_first == (name == "candidate") for side, is_first in votes),
            sides.count(name),
        )
        for name in ("candidate", "baseline")
    ]
    assert order_p_value(strata[0], strata[1], (0, 0)) == pytest.approx(expected)


def test_items_that_were_shown_both_ways_are_fair_coins() -> None:
    assert order_p_value((0, 0), (0, 0), (8, 10)) == pytest.approx(56 / 1024)


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


def test_a_pack_holds_votes_for_the_first_answer(gatemark: Run, tmp_path: Path) -> None:
    rows = shown(MOSTLY_FIRST, lambda _, side: side)
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "pack.yaml").write_text(PACK)
    store = ("--store", tmp_path / "store")
    ran = gatemark("run", tmp_path / "pack.yaml", *store, "--json")
    assert ran.code == 3
    assert any("order_p_value must be <= 0.05, got 1" in told for told in ran.json["blockers"])
    assert gatemark("ledger", "verify", "--rescore", *store).code == 0


def test_nobody_chooses_the_rules() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `rules`"):
        msgspec.convert({"rules": 1}, PreferenceOptions)


@pytest.mark.parametrize("where", ["score", "pack"])
def test_nobody_claims_a_coin_that_only_a_blind_review_throws(
    gatemark: Callable[..., Any], tmp_path: Path, where: str
) -> None:
    """Otherwise a pack could skip the order rule for votes that always showed one side first."""
    vote = {"choice": "candidate", "first": "candidate", "reviewer": "ann"}
    lines = [json.dumps({"item": f"i{n}", **vote}) + "\n" for n in range(40)]
    (tmp_path / "votes.jsonl").write_text("".join(lines))
    (tmp_path / "pack.yaml").write_text(PACK_THAT_CLAIMS)
    words = {
        "score": ("score", "pairwise", tmp_path / "votes.jsonl", "--drawn-positions"),
        "pack": ("run", tmp_path / "pack.yaml", "--store", tmp_path / "store"),
    }[where]
    ran = gatemark(*words)
    assert (ran.code, "only a blind review draws positions" in ran.err) == (2, True), ran.err


PACK_THAT_CLAIMS = """
gatemark: 1
name: votes
version: 1
asset: {kind: prompt, name: triage}
score_min: 0.5
regression_max: 0.5
suites:
  - id: people
    kind: pairwise
    weight: 1
    evidence: {records: votes.jsonl}
    baseline_evidence: none
    options: {drawn_positions: true}
"""
