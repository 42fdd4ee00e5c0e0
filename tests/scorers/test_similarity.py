"""Numeric scorers against implementations that have nothing in common with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.scorers.edit_distance import MAX_LENGTH, SCORER, edit_distance
from gatemark.scorers.rouge_l import measure_common_length
from gatemark.scorers.scorer import Scorable

texts = st.text(alphabet="abcé", max_size=12)
words = st.lists(st.sampled_from(["a", "b", "red", "door"]), max_size=9)


def plain_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """The definition, by recursion."""

    @cache
    def at(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        replaced = at(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced)

    return at(len(first), len(second))


def plain_common(first: Sequence[str], second: Sequence[str]) -> int:
    @cache
    def at(i: int, j: int) -> int:
        if not i or not j:
            return 0
        if first[i - 1] == second[j - 1]:
            return at(i - 1, j - 1) + 1
        return max(at(i - 1, j), at(i, j - 1))

    return at(len(first), len(second))


@settings(deadline=None, max_examples=500)
@given(first=texts, second=texts)
def test_edit_distance_is_the_recursive_definition(first: str, second: str) -> None:
    assert edit_distance(first, second) == plain_distance(first, second)


@settings(deadline=None, max_examples=200)
@given(first=words, second=words)
def test_edit_distance_works_on_words_too(first: list[str], second: list[str]) -> None:
    assert edit_distance(first, second) == plain_distance(first, second)


@settings(deadline=None, max_examples=500)
@given(first=words, second=words)
def test_common_length_is_the_recursive_definition(first: list[str], second: list[str]) -> None:
    assert measure_common_length(first, second) == plain_common(first, second)


def test_long_texts_are_within_reach() -> None:
    first, second = "ab" * 5_000, "ba" * 5_000
    # One character goes at one end and comes at the other.
    assert edit_distance(first, second) == 2
    assert measure_common_length(first, second) == 9_999


def test_a_text_that_is_too_long_is_unscored() -> None:
    score = SCORER.ready(SCORER.options_from({}))
    found = score(Scorable(id="1", input=None, target="x", output="y" * (MAX_LENGTH + 1)))
    assert found.value is None
    assert f"at most {MAX_LENGTH} characters, got {MAX_LENGTH + 1}" in str(found.reason)
