from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.review.create import find_tells
from gatemark.review.plan import MAX_PAIR_BYTES, ReviewPair, ReviewPlan
from gatemark.review.queue import PairProgress, next_number
from gatemark.review.sealed_key import (
    BLOCKS_OF_TWO,
    OWN_COINS,
    PairPosition,
    PositionScheme,
    Sealed,
    check_key,
    commitment,
    is_swapped,
    places,
    token,
)
from gatemark.review.unblind import CastVote, undecided

from .arms import KEY

keys = st.binary(min_size=32, max_size=32)


@settings(deadline=None, max_examples=25)
@given(keys, st.text(min_size=1, max_size=10), st.integers(1, 200))
def test_each_way_came_once_in_every_block_of_two_of_earlier_builds(
    key: bytes, reviewer: str, block: int
) -> None:
    for is_gold in (True, False):
        first, second = (
            is_swapped(key, PairPosition(reviewer, count, is_gold, BLOCKS_OF_TWO))
            for count in (2 * block - 1, 2 * block)
        )
        assert first != second


def test_the_first_of_each_block_is_a_fair_coin() -> None:
    first = [
        PairPosition(f"r{at % 7}", 2 * at + 1, is_gold=False, scheme=BLOCKS_OF_TWO)
        for at in range(2000)
    ]
    assert 900 < sum(is_swapped(KEY, place) for place in first) < 1100


@settings(deadline=None, max_examples=40)
@given(keys, st.lists(st.booleans(), max_size=40))
def test_pairs_that_count_were_balanced_wherever_gold_pairs_came(
    key: bytes, golds: list[bool]
) -> None:
    seen = [CastVote(at, "bob", at, 1, "a") for at in range(1, len(golds) + 1)]
    gold = {at for at, is_gold in enumerate(golds, start=1) if is_gold}
    # Votes come in any order, and so may the shows.
    place = places(seen[::-1], gold, BLOCKS_OF_TWO)
    for kind in (True, False):
        swapped = [
            is_swapped(key, place["bob", vote.ordinal])
            for vote in seen
            if (vote.number in gold) is kind
        ]
        assert abs(2 * sum(swapped) - len(swapped)) <= 1


def test_positions_of_new_reviews_have_no_blocks() -> None:
    """What was shown first says nothing about what comes next, at any distance and anywhere."""
    seen = [CastVote(at, f"r{at % 5}", at // 5, 1, "a") for at in range(4000)]
    place = places(seen, {at for at in range(4000) if at % 7 == 0}, OWN_COINS)
    swapped = [is_swapped(KEY, place[one.reviewer, one.ordinal]) for one in seen]
    assert 1880 < sum(swapped) < 2120
    for start in range(5):
        own = swapped[start::5]
        for distance in (1, 2, 3):
            pairs = list(zip(own, own[distance:], strict=False))
            assert 0.42 < sum(one != other for one, other in pairs) / len(pairs) < 0.58
        blocks = list(zip(own[::2], own[1::2], strict=True))
        assert {one + other for one, other in blocks} == {0, 1, 2}


def test_a_coin_of_its_own_stays_when_another_vote_is_gone() -> None:
    seen = [CastVote(at, "bob", at, 1, "a") for at in range(1, 20)]
    whole, short = (places(some, (), OWN_COINS) for some in (seen, seen[3:]))
    assert all(whole[key] == short[key] for key in short)


@settings(deadline=None, max_examples=30)
@given(keys, keys)
def test_a_commitment_opens_only_with_its_key(key: bytes, other: bytes) -> None:
    sealed = Sealed("letters", "sha256:" + "1" * 64, "sha256:" + "2" * 64)
    committed = commitment(sealed, key)
    check_key(sealed, key, committed)
    if other != key:
        with pytest.raises(IntegrityError):
            check_key(sealed, other, committed)
    with pytest.raises(IntegrityError):
        check_key(Sealed("letters", sealed.plan_digest, "sha256:" + "3" * 64), key, committed)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="32 bytes"):
        commitment(Sealed("a", "b", "c"), b"short")


def test_tokens_differ_between_reviewers() -> None:
    assert len({token(KEY, reviewer, 1) for reviewer in ("a", "b", "c")}) == 3


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
@pytest.mark.parametrize("scheme", [BLOCKS_OF_TWO, OWN_COINS])
def test_undecided_means_that_no_choice_leads(
    answers: list[str], expected: bool, scheme: PositionScheme
) -> None:
    plan = ReviewPlan(
        name="letters",
        candidates=("new",),
        baseline="old",
        votes_per_pair=2,
        position_scheme=scheme,
    )
    votes = []
    for at, wanted in enumerate(answers):
        reviewer = f"r{at}"
        swapped = is_swapped(KEY, PairPosition(reviewer, 1, is_gold=False, scheme=scheme))
        letters: dict[str, Any] = {
            "candidate": "b" if swapped else "a",
            "baseline": "a" if swapped else "b",
            "tie": "both_good",
        }
        votes.append(CastVote(1, reviewer, 1, 1, letters[wanted]))
    found = undecided(KEY, votes, (), plan)
    assert (1 in found) is expected
    assert undecided(KEY, votes, (1,), plan) == frozenset()


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
    with pytest.raises(InvalidValueError, match=problem):
        ReviewPlan(**(fields | change))


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
