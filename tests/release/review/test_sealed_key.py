from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError, IntegrityError, InvalidValueError
from gatemark.core.request_fields import read_request
from gatemark.release.review.create import CreateReview, find_tells
from gatemark.release.review.plan import MAX_PAIR_BYTES, ReviewPair, ReviewPlan
from gatemark.release.review.queue import PairProgress, next_number
from gatemark.release.review.sealed_key import (
    Sealed,
    check_key,
    commit_key,
    draw_token,
    is_swapped,
)
from gatemark.release.review.unblind import CastVote, find_undecided

from .arms import KEY

keys = st.binary(min_size=32, max_size=32)


def test_positions_have_no_blocks() -> None:
    """What was shown first says nothing about what comes next, at any distance and anywhere."""
    swapped = [is_swapped(KEY, f"r{at % 5}", at) for at in range(4000)]
    assert 1880 < sum(swapped) < 2120
    for start in range(5):
        own = swapped[start::5]
        for distance in (1, 2, 3):
            pairs = list(zip(own, own[distance:], strict=False))
            assert 0.42 < sum(one != other for one, other in pairs) / len(pairs) < 0.58
        blocks = list(zip(own[::2], own[1::2], strict=True))
        assert {one + other for one, other in blocks} == {0, 1, 2}


@settings(deadline=None, max_examples=30)
@given(keys, keys)
def test_a_commitment_opens_only_with_its_key(key: bytes, other: bytes) -> None:
    sealed = Sealed("letters", "sha256:" + "1" * 64, "sha256:" + "2" * 64)
    committed = commit_key(sealed, key)
    check_key(sealed, key, committed)
    if other != key:
        with pytest.raises(IntegrityError):
            check_key(sealed, other, committed)
    with pytest.raises(IntegrityError):
        check_key(Sealed("letters", sealed.plan_digest, "sha256:" + "3" * 64), key, committed)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="32 bytes"):
        commit_key(Sealed("a", "b", "c"), b"short")


def test_tokens_differ_between_reviewers() -> None:
    assert len({draw_token(KEY, reviewer, 1) for reviewer in ("a", "b", "c")}) == 3


def test_pairs_in_other_hands_come_last_but_come() -> None:
    standings = [PairProgress(1, is_gold=False, shown_count=1), PairProgress(2, is_gold=False)]
    assert next_number(KEY, "bob", standings, (), votes_per_pair=1) == 2
    assert next_number(KEY, "bob", standings, (2,), votes_per_pair=1) == 1
    done = [PairProgress(1, is_gold=False, shown_count=1, vote_count=1)]
    assert next_number(KEY, "bob", done, (), votes_per_pair=1) is None
    gold = [PairProgress(1, is_gold=True, shown_count=9, vote_count=9)]
    assert next_number(KEY, "bob", gold, (), votes_per_pair=1) == 1


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["candidate", "baseline"], True),
        (["candidate", "candidate"], False),
        (["tie", "tie"], False),
        (["candidate", "tie"], True),
        (["candidate"], False),
        (["tie", "tie", "candidate"], False),
        (["tie", "baseline", "candidate"], True),
    ],
)
def test_undecided_means_that_no_choice_leads(answers: list[str], expected: bool) -> None:
    plan = ReviewPlan(
        name="letters",
        candidates=("new",),
        baseline="old",
        votes_per_pair=2,
    )
    votes = []
    for at, wanted in enumerate(answers):
        reviewer = f"r{at}"
        swapped = is_swapped(KEY, reviewer, 1)
        letters: dict[str, Any] = {
            "candidate": "b" if swapped else "a",
            "baseline": "a" if swapped else "b",
            "tie": "both_good",
        }
        votes.append(CastVote(1, reviewer, 1, 1, letters[wanted]))
    found = find_undecided(KEY, votes, (), plan)
    assert (1 in found) is expected
    assert find_undecided(KEY, votes, (1,), plan) == frozenset()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"baseline": "new"}, "different names"),
        ({"alpha": 0.5}, "alpha"),
        ({"alpha": 0.0}, "alpha"),
        ({"reviewers": ("a",), "arbiter": "a"}, "reviewer and arbiter"),
        ({"reviewers": ("a",), "votes_per_pair": 2}, "as many reviewers"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(change: dict[str, Any], problem: str) -> None:
    fields: dict[str, Any] = {"name": "letters", "candidates": ("new",), "baseline": "old"}
    with pytest.raises((InvalidValueError, BadInputError), match=problem):
        read_request(CreateReview, fields | change)


def test_a_giant_answer_is_refused() -> None:
    pair = ReviewPair(item="q", arms=("a", "b"), input="", answers=("x" * MAX_PAIR_BYTES, ""))
    with pytest.raises(InvalidValueError, match="at most"):
        pair.document()


def test_tells_are_named_and_nothing_is_edited() -> None:
    pairs = [
        ReviewPair(item=f"q{at}", arms=("alpaca", "llama"), input="", answers=("yes ", "no"))
        for at in range(6)
    ]
    assert find_tells(pairs, ("alpaca", "llama")) == (
        "answers start or end with spaces: 100% of alpaca, 0% of llama",
    )
    signed = [
        ReviewPair(item="q", arms=("alpaca", "llama"), input="", answers=("I am Alpaca", "hi"))
    ]
    assert find_tells(signed, ("alpaca", "llama")) == ("1 answers of alpaca name an arm",)
    plain = [ReviewPair(item="q", arms=("alpaca", "llama"), input="", answers=("yes", "no"))] * 6
    assert find_tells(plain, ("alpaca", "llama")) == ()
