from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.scorers.regex import SCORER
from gatemark.scorers.regex.linear import MAX_STATES, MAX_WORK, compiled
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


@settings(deadline=None, max_examples=500)
@given(
    pattern=patterns,
    text=texts,
    ignore_case=st.booleans(),
    multiline=st.booleans(),
    dotall=st.booleans(),
)
def test_every_pattern_means_what_it_means_to_the_standard_library(
    pattern: str, text: str, ignore_case: bool, multiline: bool, dotall: bool
) -> None:
    flags = (
        (re.IGNORECASE if ignore_case else re.NOFLAG)
        | (re.MULTILINE if multiline else re.NOFLAG)
        | (re.DOTALL if dotall else re.NOFLAG)
    )
    oracle = re.compile(pattern, flags)
    ours = compiled(pattern, ignore_case=ignore_case, multiline=multiline, dotall=dotall)
    assert ours.search(text) == (oracle.search(text) is not None)
    assert ours.fullmatch(text) == (oracle.fullmatch(text) is not None)


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
    assert not compiled(pattern).search("a" * 20_000 + "!")


def test_a_pattern_with_many_sets_of_states_stays_right() -> None:
    # The tenth character from the end decides, so about a thousand sets of states occur.
    text = "".join("ab"[(number * number) % 7 % 2] for number in range(5_000))
    for end in range(4_900, 5_000):
        expected = text[end - 10] == "a"
        assert compiled("[ab]*a[ab]{9}").fullmatch(text[:end]) == expected


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
        (r"a\Bb", r"\\B"),
        ("(a", "is not valid"),
        ("a**", "is not valid"),
        ("[[a]", "is not valid"),
        ("(" * 51 + ")" * 51, "more than 50 nested"),
        ("a" * 1_001, "at most 1000 characters, got 1001"),
        ("(?:a{100}){100}", f"fewer than {MAX_STATES} states"),
        ("a{99999999}", f"fewer than {MAX_STATES} states"),
    ],
)
def test_what_is_not_linear_is_refused_by_name(pattern: str, finding: str) -> None:
    with pytest.raises(BadInputError, match=finding):
        compiled(pattern)


def test_an_empty_group_may_stand_any_number_of_times() -> None:
    assert compiled("x(?:){4000000000}y").search("xy")


def test_a_text_too_long_for_its_pattern_is_unscored() -> None:
    score = SCORER.ready(SCORER.options_from({"pattern": "a{400}"}))
    found = score(Scorable(id="1", input=None, target=None, output="b" * (MAX_WORK // 400)))
    assert found.value is None
    assert "characters for the pattern a{400}" in str(found.reason)


def test_a_bad_pattern_in_the_options_is_refused_before_any_item() -> None:
    with pytest.raises(BadInputError, match="is not valid"):
        SCORER.ready(SCORER.options_from({"pattern": "("}))


def test_any_target_pattern_may_match() -> None:
    score = SCORER.ready(SCORER.options_from({}))
    found = score(Scorable(id="1", input=None, target=["^x", "y$"], output="my"))
    assert (found.value, found.detail) == (1.0, {"matched": "y$"})
