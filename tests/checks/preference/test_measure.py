from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.preference.measure import MEASURE, count_votes
from gatemark.core.errors import InvalidValueError
from gatemark.statistics.preference import choose_majority, judge_preference
from gatemark.testing.folds import check_fold

VOTES = st.lists(
    st.tuples(
        st.sampled_from(["i1", "i2", "i3", "i4"]),
        st.sampled_from(["r1", "r2", "r3"]),
        st.sampled_from(["candidate", "baseline", "tie"]),
        st.none() | st.sampled_from(["candidate", "baseline"]),
    ),
    max_size=40,
)


def _state(votes):
    return MEASURE.step(MEASURE.zero(), votes)


def judge(state, **options):
    counted = count_votes(state)
    return judge_preference(counted.wins, counted.losses, counted.ties, **options)


@settings(deadline=None, max_examples=40)
@given(VOTES)
def test_it_keeps_the_laws_of_a_fold(votes):
    check_fold(MEASURE, [votes])


@settings(deadline=None, max_examples=40)
@given(VOTES)
def test_counted_votes_give_what_single_votes_give(votes):
    assert MEASURE.measure(Counter(votes)) == MEASURE.measure(votes)


@settings(deadline=None, max_examples=60)
@given(VOTES)
def test_votes_collapse_to_one_per_item(votes):
    by_item: dict[str, dict[str, set[str]]] = {}
    for item, reviewer, choice, _ in votes:
        by_item.setdefault(item, {}).setdefault(reviewer, set()).add(choice)
    outcomes = Counter(
        choose_majority([next(iter(c)) if len(c) == 1 else "tie" for c in reviewers.values()])
        for reviewers in by_item.values()
    )
    ballot = count_votes(_state(votes))
    assert (ballot.wins, ballot.losses, ballot.ties) == (
        outcomes["candidate"],
        outcomes["baseline"],
        outcomes["tie"],
    )
    assert ballot.votes == len(votes)
    assert ballot.repeated_votes == len(votes) - sum(len(r) for r in by_item.values())


def test_many_votes_on_one_item_decide_nothing_more_than_one():
    votes = [("only", f"r{i}", "candidate", "baseline") for i in range(100)]
    found = judge(_state(votes))
    assert (found.wins, found.losses) == (1, 0)
    assert found.outcome == "inconclusive"


def test_a_clear_win_over_items_passes_with_and_without_peeking():
    votes = [(f"i{i}", "r", "candidate" if i % 5 else "baseline", "baseline") for i in range(100)]
    assert judge(_state(votes)).outcome == "pass"
    assert judge(_state(votes), peeking=True).outcome == "pass"
    assert judge(_state(votes), min_decisive=101).outcome == "inconclusive"


def test_favouring_the_first_answer_is_a_caveat():
    votes = [
        (f"i{i}", "r", side, side) for i in range(60) for side in [("candidate", "baseline")[i % 2]]
    ]
    found = {m.name: m for m in MEASURE.measure(votes)}
    assert found["first_win_rate"].value == 1.0
    assert found["position_p_value"].value < 0.01
    assert found["win_rate"].caveats == ("position bias: the answer shown first won 1.000",)


def test_repeated_votes_count_once_and_are_reported():
    votes = [("a", "r", "candidate", None)] * 3 + [
        ("b", "r", "candidate", None),
        ("b", "r", "baseline", None),
    ]
    found = {m.name: m for m in MEASURE.measure(votes)}
    assert (found["wins"].value, found["ties"].value) == (1, 1)
    assert found["wins"].excluded == {"repeated_votes": 3}
    assert str(found["first_win_rate"].reason) == "no decisive votes"


@pytest.mark.parametrize(
    "vote",
    [
        ("a", "r", "Candidate", None),
        ("a", "r", "", None),
        ("a", "r", "tie", "tie"),
    ],
)
def test_unknown_words_are_refused(vote):
    with pytest.raises(InvalidValueError, match="must be candidate"):
        MEASURE.step(MEASURE.zero(), [vote])
