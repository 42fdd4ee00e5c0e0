from __future__ import annotations

import re
import string
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.scorers import choice, contains, exact, normalised, numeric, set_f1, token_f1
from gatemark.scorers.scorer import Scorable, Score, Scorer

WORDS = st.lists(st.sampled_from(["red", "blue", "workspace", "no", "x9"]), max_size=6)


def score(scorer: Scorer, target: Any, output: Any, **options: Any) -> Score:
    item = Scorable(id="1", input=None, target=target, output=output)
    return scorer.ready(scorer.options_from(options))(item)


def largest_matching(left: list[str], right: list[str]) -> int:
    """How many equal words can be paired, by trying every order of the longer list."""
    shorter, longer = sorted((left, right), key=len)
    return max(
        sum(one == other for one, other in zip(shorter, order, strict=False))
        for order in permutations(longer)
    )


@settings(deadline=None, max_examples=60)
@given(found=WORDS, expected=WORDS)
def test_token_f1_pairs_as_many_words_as_can_be_paired(
    found: list[str], expected: list[str]
) -> None:
    value = score(token_f1.SCORER, " ".join(expected), " ".join(found)).value
    if not found or not expected:
        assert value == float(found == expected)
        return
    overlap = largest_matching(found, expected)
    precision, recall = overlap / len(found), overlap / len(expected)
    wanted = 2 * precision * recall / (precision + recall) if overlap else 0.0
    assert value == pytest.approx(wanted, abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(text=st.lists(st.sampled_from([*string.printable, "the ", " a ", "An "])).map("".join))
def test_plain_form_of_ascii_is_the_question_answering_one(text: str) -> None:
    bare = "".join(c for c in text.lower() if c not in string.punctuation)
    wanted = " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())
    assert normalised.normalise(text, normalised.NormalisedOptions(articles=True)) == wanted


@settings(deadline=None, max_examples=100)
@given(
    found=st.sets(st.sampled_from("abcdef")),
    expected=st.sets(st.sampled_from("abcdef")),
)
def test_set_f1_is_the_harmonic_mean(found: set[str], expected: set[str]) -> None:
    value = score(set_f1.SCORER, sorted(expected), ", ".join(sorted(found))).value
    shared = len(found & expected)
    if not found and not expected:
        assert value == 1.0
    elif not shared:
        assert value == 0.0
    else:
        precision, recall = shared / len(found), shared / len(expected)
        assert value == pytest.approx(2 / (1 / precision + 1 / recall), abs=1e-12)


def test_set_f1_says_what_is_missing_and_what_is_extra() -> None:
    found = score(set_f1.SCORER, ["a", "b"], "b\nC")
    assert found.detail == {"missing": "a", "extra": "c"}


def test_contains_says_what_is_missing() -> None:
    found = score(contains.SCORER, ["red", "blue", "green"], "red", mode="all")
    assert (found.value, found.detail) == (0.0, {"missing": "blue, green"})


def test_a_long_detail_is_cut() -> None:
    assert len(score(normalised.SCORER, "x", "y" * 5_000).detail["output"]) == 200


def test_exact_never_mistakes_an_absent_answer_for_a_wrong_one() -> None:
    assert score(exact.SCORER, "x", None).value is None
    assert score(exact.SCORER, "x", "").value == 0.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is...42", 42),
        ("$1,234,567.89 in total", 1234567.89),
        ("x2 and Q4 are names, 7 is not", 7),
        ("between 3-4", 4),
        ("version 1.2.3", 1.2),
        ("-5", -5),
        ("5 - 3 = 2.", 2),
        ("1,2345", 2345),
        ("about .5", 0.5),
        ("+1e-3", 0.001),
        ("12 kg", 12),
        ("12kg", 12),
        ("50 %.", 0.5),
        ("−0", 0),
    ],
)
def test_the_last_number_of_a_text_is_read_as_people_read_it(text: str, number: float) -> None:
    found = score(numeric.SCORER, number, text)
    assert found.value == 1.0, found


@settings(deadline=None, max_examples=150)
@given(
    value=st.floats(allow_nan=False, allow_infinity=False, width=32),
    form=st.sampled_from(["{}", "It is {}.", "({})", "= {} units", "a, {}"]),
)
def test_a_written_number_is_read_back(value: float, form: str) -> None:
    assert score(numeric.SCORER, value, form.format(repr(value)), rel_tolerance=0).value == 1.0


@settings(deadline=None, max_examples=100)
@given(value=st.integers(-(10**12), 10**12))
def test_a_grouped_number_is_read_back(value: int) -> None:
    assert score(numeric.SCORER, value, f"total {value:,}!").value == 1.0
    spaced = f"{value:,}".replace(",", "\u00a0")
    assert score(numeric.SCORER, value, spaced, thousands=" ").value == 1.0


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("none at all", "the output holds no number"),
        (True, "the output holds no number"),
        (float("nan"), "the output's number is not finite: nan"),
        ("1e9999", "the output's number is not finite: 1e9999"),
        (-(10**400), "the output's number is not finite: -inf"),
    ],
)
def test_an_unreadable_number_is_wrong_and_says_why(output: Any, why: str) -> None:
    assert score(numeric.SCORER, 1, output) == Score(0.0, None, {"why": why})


@pytest.mark.parametrize("target", ["one", float("inf"), [], [1, "x"], True, {}])
def test_a_target_without_a_number_is_a_broken_item(target: Any) -> None:
    found = score(numeric.SCORER, target, "1")
    assert found.value is None
    assert "target must" in str(found.reason)


@pytest.mark.parametrize(
    ("output", "rule", "letter"),
    [
        ("B", "whole", "B"),
        (" (c). ", "whole", "C"),
        ("Answer: D", "stated", "D"),
        ("**Answer:** B", "lone", "B"),
        ("The correct option is (B), not A.", "stated", "B"),
        ("the answer is a bit long, so C", "lone", "C"),
        ("the answer is a", "stated", "A"),
        (r"so \boxed{\text{C}}", "stated", "C"),
        ("b) because A is wrong", "leading", "B"),
        ("It must be D, I think", "lone", "D"),
        ("A big surprise: B", "lone", "B"),
        ("x" * 50_000 + " so the answer is D", "stated", "D"),
    ],
)
def test_a_letter_is_read_by_the_first_rule_that_finds_one(
    output: str, rule: str, letter: str
) -> None:
    found = score(choice.SCORER, letter, output)
    assert (found.value, found.detail) == (1.0, {"rule": rule, "letter": letter})


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        (
            "The answer is A. No, the answer is B.",
            {"why": "ambiguous answer", "rule": "stated", "letters": "A B"},
        ),
        ("A, B", {"why": "ambiguous answer", "rule": "lone", "letters": "A B"}),
        ("no idea", {"why": "no letter could be read from the output"}),
        ("E", {"why": "no letter could be read from the output"}),
        ("Don't", {"why": "no letter could be read from the output"}),
    ],
)
def test_an_answer_without_one_letter_is_wrong_and_says_why(
    output: str, detail: dict[str, str]
) -> None:
    assert score(choice.SCORER, "A", output) == Score(0.0, None, detail)
