"""Reasons: sealed as codes with values; the sentence is for people and is never compared."""

from __future__ import annotations

import msgspec
import pytest
from tests.reasons import state_reason

from gatemark.core.errors import InvalidValueError
from gatemark.core.reason import Reason, ReasonKind

FEW = ReasonKind("few", "{subject} rests on {n} items")
OPEN = ReasonKind("open", "{subject} is open: {because}")


def test_a_reason_says_its_sentence_and_keeps_its_values() -> None:
    reason = OPEN(subject="kappa", because=FEW(subject="golden", n=3))
    assert str(reason) == "kappa is open: golden rests on 3 items"
    assert reason.because is not None
    assert reason.because.values == {"subject": "golden", "n": 3}
    assert msgspec.json.decode(msgspec.json.encode(reason), type=Reason) == reason


def test_another_wording_is_the_same_reason() -> None:
    worded_anew = ReasonKind("few", "there are only {n} items for {subject}")
    old, new = FEW(subject="a", n=3), worded_anew(subject="a", n=3)
    assert str(old) != str(new)
    assert old.is_same(new)
    assert OPEN(subject="a", because=old).is_same(OPEN(subject="a", because=new))


@pytest.mark.parametrize(
    "other",
    [
        FEW(subject="a", n=4),
        FEW(subject="b", n=3),
        FEW(subject="a", n=True),
        FEW(subject="a", n="3"),
        Reason("other", "a rests on 3 items", {"subject": "a", "n": 3}),
        Reason("few", "a rests on 3 items", {"subject": "a"}),
        Reason("few", "a rests on 3 items", {"subject": "a", "n": 3}, because=state_reason("x")),
    ],
)
def test_another_code_value_or_cause_is_another_reason(other: Reason) -> None:
    assert not FEW(subject="a", n=3).is_same(other)
    assert not other.is_same(FEW(subject="a", n=3))


def test_of_stated_words_only_the_code_is_compared() -> None:
    assert state_reason("the target was down").is_same(state_reason("no answer"))
    assert not state_reason("a rests on 3 items").is_same(FEW(subject="a", n=3))


def test_numbers_may_differ_by_the_tolerance() -> None:
    one, other = FEW(subject="a", n=0.3), FEW(subject="a", n=0.1 + 0.2)
    assert not one.is_same(other)
    assert one.is_same(other, tolerance=1e-9)


@pytest.mark.parametrize(("code", "text"), [("", "x"), (" ", "x"), ("x", ""), ("x", "\n")])
def test_an_empty_reason_is_refused(code: str, text: str) -> None:
    with pytest.raises(InvalidValueError):
        Reason(code, text)
