from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.scorers.regex import SCORER
from gatemark.scorers.regex.pattern import compile_pattern
from gatemark.scorers.scorer import Scorable

ATOMS = (
    *("a", "b", "A", "_", " ", ".", "[ab]", "[^a]", "[a-c_]", "[]a]", "[^]a]", r"[\d\s]", r"[\]b]"),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\n", r"\.", r"\x61", r"\u0062"),
    *("^", "$", r"\A", r"\Z", r"\b", "", "}", "{", "{}", "a{,", "]"),
)
QUANTIFIERS = (
    "*",
    "+",
    "?",
    "{2}",
    "{1,}",
    "{,2}",
    "{,}",
    "{1,3}",
    "{0}",
    "*?",
    "+?",
    "??",
    "{1,2}?",
)

patterns = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(QUANTIFIERS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=8,
)
texts = st.text(alphabet="abA_ 1.\n{}]", max_size=9)


# A pattern takes most of the time: each is held against several texts.
@settings(deadline=None, max_examples=200)
@given(
    pattern=patterns,
    several=st.lists(texts, min_size=4, max_size=4),
    ignore_case=st.booleans(),
    multiline=st.booleans(),
    dotall=st.booleans(),
)
def test_every_pattern_means_what_it_means_to_the_standard_library(
    pattern: str, several: list[str], ignore_case: bool, multiline: bool, dotall: bool
) -> None:
    flags = (
        (re.IGNORECASE if ignore_case else re.NOFLAG)
        | (re.MULTILINE if multiline else re.NOFLAG)
        | (re.DOTALL if dotall else re.NOFLAG)
    )
    oracle = re.compile(pattern, flags)
    ours = compile_pattern(pattern, ignore_case=ignore_case, multiline=multiline, dotall=dotall)
    for text in several:
        # A "$" that something follows is the documented difference; the next test has plain ones.
        if multiline or "$" not in pattern or "\n" not in text:
            assert ours.search(text) == (oracle.search(text) is not None)
            assert ours.fullmatch(text) == (oracle.fullmatch(text) is not None)


@pytest.mark.parametrize("pattern", ["a$", "a\n$", "^$", "a|b$", "(a$|b)", r"a\Z", "a$$"])
@pytest.mark.parametrize("text", ["a", "a\n", "a\n\n", "b\na", "\n", "", "b\n", "ab"])
def test_the_end_is_also_before_a_final_newline(pattern: str, text: str) -> None:
    assert compile_pattern(pattern).search(text) == (re.search(pattern, text) is not None)
    assert compile_pattern(pattern).fullmatch(text) == (re.fullmatch(pattern, text) is not None)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "^(a*)*b$",
        "^(.*)(.*)(.*)(.*)(.*)x$",
        r"^(\w+\s?)*$",
        r"^([a-z]+)*[0-9]$",
        "a?" * 60 + "a" * 60 + "b",
    ],
)
def test_no_pattern_hangs(pattern: str) -> None:
    # Any of these keeps a backtracking engine busy for longer than anyone waits.
    assert not compile_pattern(pattern).search("a" * 20_000 + "!")


def test_a_pattern_with_many_sets_of_states_stays_right() -> None:
    # The tenth character from the end decides, so about a thousand sets of states occur.
    text = "".join("ab"[(number * number) % 7 % 2] for number in range(5_000))
    for end in range(4_900, 5_000):
        expected = text[end - 10] == "a"
        assert compile_pattern("[ab]*a[ab]{9}").fullmatch(text[:end]) == expected


@pytest.mark.parametrize(
    ("pattern", "finding"),
    [
        (r"(a)\1", "backreference"),
        (r"(?P<x>a)(?P=x)", "lookaround, inline flags"),
        ("(?=a)", "lookaround"),
        ("(?<!a)b", "lookaround"),
        ("(?i)a", "set ignore_case"),
        ("(?>a+)b", "atomic"),
        ("a++b", "possessive"),
        ("(a", "is not valid"),
        ("a**", "is not valid"),
        ("[[a]", "is not valid"),
        ("a" * 1_001, "at most 1000 characters, got 1001"),
        ("(?:a{100}){100}", "is not valid for RE2: invalid repetition size"),
        ("a{99999999}", "is not valid for RE2: invalid repetition size"),
        (r"(?:\w{100}){9}", "is not valid for RE2: pattern too large"),
        ("\ud800", "is not valid"),
    ],
)
def test_what_is_not_linear_is_refused_by_name(pattern: str, finding: str) -> None:
    with pytest.raises(BadInputError, match=finding):
        compile_pattern(pattern)


def test_a_lone_surrogate_in_an_answer_is_one_character() -> None:
    assert compile_pattern("^a.b$").search("a\ud800b")


@pytest.mark.parametrize("escape", [r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"])
@pytest.mark.parametrize("form", ["^{}$", "^[{}]$", "^[^{}]$", "^[{}x]$"])
def test_classes_hold_the_characters_of_the_standard_library(escape: str, form: str) -> None:
    pattern = form.format(escape)
    ours, oracle = compile_pattern(pattern), re.compile(pattern)
    for character in "0٣५²½ⅧaéßжΩ漢_-\u0301 \t\x1c\x85\xa0\u2003\u200b‿😀\U000e0fff":
        assert ours.search(character) == (oracle.search(character) is not None), repr(character)


def test_a_word_boundary_knows_ascii_only() -> None:
    assert compile_pattern(r"\bcaf\b").search("café")
    assert not compile_pattern(r"\bcaf\b").search("cafe")


def test_a_bad_pattern_in_the_options_is_refused_before_any_item() -> None:
    with pytest.raises(BadInputError, match="is not valid"):
        SCORER.ready(SCORER.options_from({"pattern": "("}))


def test_any_target_pattern_may_match() -> None:
    score = SCORER.ready(SCORER.options_from({}))
    found = score(Scorable(id="1", input=None, target=["^x", "y$"], output="my"))
    assert (found.value, found.detail) == (1.0, {"matched": "y$"})
