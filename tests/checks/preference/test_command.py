from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from scipy.special import betaln
from statsmodels.stats.proportion import proportion_confint

from gatemark.checks.preference.exam import PreferenceOptions, _find_caveats
from gatemark.statistics.preference import position_bias

Run = Callable[..., Any]
Write = Callable[..., Path]

CONTRACT = {
    *("wins", "losses", "ties", "win_rate", "interval", "p_value", "log_e_value", "verdict"),
}


def vote(item: object, choice: str = "candidate", reviewer: str = "r1", **more: Any) -> Any:
    fields = {"item": f"i{item}", "reviewer": reviewer, "choice": choice, "first": "baseline"}
    return fields | more


def votes(wins: int, losses: int, ties: int = 0) -> list[dict[str, Any]]:
    choices = ["candidate"] * wins + ["baseline"] * losses + ["tie"] * ties
    shown = ("candidate", "baseline")
    return [vote(i, choice, first=shown[i % 2]) for i, choice in enumerate(choices)]


@pytest.fixture
def score(gatemark: Run, write_jsonl: Write) -> Run:
    def run(rows: list[Any], *arguments: object) -> Any:
        return gatemark("score", "preference", write_jsonl("v.jsonl", rows), "--json", *arguments)

    return run


@pytest.mark.parametrize("seed", range(6))
def test_the_keys_of_the_contract_hold_independent_numbers(score: Run, seed: int) -> None:
    draw = random.Random(seed)
    wins, losses, ties = (draw.randint(5, 60) for _ in range(3))
    found = score(votes(wins, losses, ties)).json
    assert set(found) >= CONTRACT
    assert (found["wins"], found["losses"], found["ties"]) == (wins, losses, ties)
    n = wins + losses
    assert found["win_rate"] == pytest.approx(wins / n)
    assert found["interval"] == pytest.approx(proportion_confint(wins, n, 0.05, "wilson"))
    assert found["p_value"] == pytest.approx(stats.binomtest(wins, n, alternative="greater").pvalue)
    assert found["log_e_value"] == pytest.approx(betaln(1 + wins, 1 + losses) + n * math.log(2))


def test_exit_0_when_the_candidate_is_preferred(score: Run) -> None:
    ran = score(votes(30, 10))
    assert (ran.code, ran.json["verdict"], ran.json["blockers"]) == (0, "pass", [])


def test_exit_1_when_the_baseline_is_preferred(score: Run) -> None:
    ran = score(votes(10, 30))
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["blockers"][0].startswith("the baseline is preferred 30:10")


def test_exit_3_when_neither_is_shown(score: Run) -> None:
    assert (score(votes(20, 20)).code, score(votes(20, 20)).json["verdict"]) == (
        3,
        "inconclusive",
    )
    few = score(votes(19, 0))
    assert few.code == 3
    assert few.json["reason"] == "19 decisive pairs, at least 20 are needed"
    assert score(votes(19, 0), "--min-decisive", 10).code == 0
    only_ties = score(votes(0, 0, 30)).json
    assert (only_ties["win_rate"], only_ties["interval"], only_ties["p_value"]) == (None,) * 3


def test_peeking_needs_more_than_a_fixed_number_of_votes(score: Run) -> None:
    rows = votes(26, 14)
    assert score(rows).code == 0
    peeked = score(rows, "--peeking")
    assert (peeked.code, peeked.json["peeking"]) == (3, True)
    assert "log e-value" in peeked.json["reason"]


def test_alpha_moves_the_verdict_and_the_interval(score: Run) -> None:
    loose, strict = (score(votes(26, 14), "--alpha", alpha).json for alpha in (0.05, 0.01))
    assert (loose["verdict"], strict["verdict"]) == ("pass", "inconclusive")
    assert strict["interval"][0] < loose["interval"][0]


def test_votes_on_one_item_count_once_by_majority(score: Run) -> None:
    rows = [
        vote(item, choice, reviewer=f"r{number}")
        for item in range(25)
        for number, choice in enumerate(("candidate", "candidate", "baseline"))
    ]
    found = score(rows).json
    assert (found["wins"], found["items"], found["votes"], found["reviewers"]) == (25, 25, 75, 3)


def test_a_reviewer_votes_once_per_item(score: Run) -> None:
    ran = score([vote(1), vote(1, reviewer="r2"), vote(1, "baseline")])
    assert (ran.code, ran.out) == (2, "")
    assert "v.jsonl:3: item 'i1', reviewer 'r1' was seen before at" in ran.err


def test_position_bias_and_unbalanced_positions_are_told(score: Run) -> None:
    rows = [vote(i, "candidate", first="candidate") for i in range(40)]
    found = score(rows).json
    assert found["first"] == {"candidate": 40, "baseline": 0}
    assert found["position"]["is_biased"] is True
    assert any("positions are not balanced" in caveat for caveat in found["caveats"])
    assert any("position bias" in caveat for caveat in found["caveats"])


@pytest.mark.parametrize(
    ("drawn", "first_count", "is_told"), [(False, 65, True), (True, 65, False), (True, 69, True)]
)
def test_coins_may_differ_by_chance_only(drawn: bool, first_count: int, is_told: bool) -> None:
    position = position_bias(50, 100)
    first = {"candidate": first_count, "baseline": 100 - first_count}
    assert bool(_find_caveats(position, first, PreferenceOptions(drawn_positions=drawn))) is is_told


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (vote(2, "A"), 'v.jsonl:2: got "A", allowed:'),
        (vote(2, first="tie"), "at $.first"),
        (vote(2, reviewer="a\tb"), "at $.reviewer"),
        ({"item": "i2", "choice": "tie", "first": "baseline"}, 'key "reviewer" is missing'),
        ('{"item": NaN}', "NaN is not a JSON number"),
        ("garbage", "v.jsonl:2: not JSON"),
    ],
)
def test_a_bad_line_is_told_with_its_place(score: Run, bad: Any, words: str) -> None:
    ran = score([vote(1), bad])
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_an_empty_file_is_refused(score: Run) -> None:
    assert "contains no records" in score([]).err


def test_people_read_the_verdict_first(gatemark: Run, write_jsonl: Write, tmp_path: Path) -> None:
    kept = tmp_path / "p.json"
    ran = gatemark("score", "preference", write_jsonl("v.jsonl", votes(30, 10)), "-o", kept)
    assert ran.out.startswith("PASS  the candidate is preferred 30:10")
    assert "win rate            0.7500 [0.5981, 0.8581]" in ran.out
    assert json.loads(kept.read_text())["wins"] == 30


def test_votes_for_whatever_is_shown_first_are_inconclusive(score: Run) -> None:
    rows = [vote(n, side, first=side) for n in range(100) for side in [SHOWN[n % 10 == 0]]]
    ran = score(rows)
    assert (ran.code, ran.json["verdict"], ran.json["wins"]) == (3, "inconclusive", 90)
    assert "show each answer first as often as the other" in ran.json["blockers"][0]
    both = [vote(n, "candidate", first=SHOWN[n % 10 == 0]) for n in range(100)]
    assert score(both).code == 0


SHOWN = ("candidate", "baseline")
