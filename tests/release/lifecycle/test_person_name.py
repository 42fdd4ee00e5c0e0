from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.release.lifecycle.model.nouns import look_of, name_problem


@pytest.mark.parametrize("name", ["ann", "ann@example.org", "O'Neil", "Łukasz", "李雷", "Αννα"])
def test_usual_names_are_names(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "1 to 128 characters"),
        ("x" * 129, "got 129"),
        ("two words", "invisible character (SPACE)"),
        ("ev\nil", "invisible character (U+000A)"),
        ("bob\u200b", "ZERO WIDTH SPACE"),
        ("\u202ebob", "RIGHT-TO-LEFT OVERRIDE"),
        ("\uff42ob", "write 'bob'"),
        ("b\u043eb", "mixes Cyrillic and Latin letters"),
    ],
)
def test_names_that_mislead_are_refused(name: str, problem: str) -> None:
    assert problem in str(name_problem(name))


def test_names_that_differ_in_case_or_alphabet_alone_look_alike() -> None:
    assert look_of("BOB") == look_of("bob")
    # Cyrillic letters throughout.
    assert look_of("\u0441\u043e\u0440") == look_of("cop")
    assert look_of("bob") != look_of("rob")


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=8))
def test_a_look_looks_like_itself(name: str) -> None:
    assert look_of(look_of(name)) == look_of(name)
