from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.proportion import (
    NOTHING_REPEATED,
    TOO_FEW_ATTEMPTS,
    Estimate,
    mean_pass_at_k,
    mean_pass_hat_k,
    probe_outcome,
)

attempts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def every_choice(n: int, right_count: int, k: int) -> list[tuple[bool, ...]]:
    return list(combinations([True] * right_count + [False] * (n - right_count), k))


@settings(deadline=None, max_examples=150)
@given(item=attempts, k=st.integers(1, 9))
def test_both_shares_are_counts_over_every_choice_of_attempts(
    item: tuple[int, int], k: int
) -> None:
    n, right_count = item
    if k > n:
        reason = TOO_FEW_ATTEMPTS(short=1, n=1, k=k)
        assert mean_pass_at_k([(n, right_count)], k) == Estimate(None, reason)
        assert mean_pass_hat_k([(n, right_count)], k) == Estimate(None, reason)
        return
    choices = every_choice(n, right_count, k)
    assert mean_pass_at_k([(n, right_count)], k).value == sum(map(any, choices)) / len(choices)
    assert mean_pass_hat_k([(n, right_count)], k).value == sum(map(all, choices)) / len(choices)


def test_pass_at_k_is_unbiased() -> None:
    # Over all outcomes of 5 attempts, each right with chance 1/3, the mean estimate must be
    # 1 - (2/3)**k and (1/3)**k.
    n, chance = 5, 1 / 3
    for k in range(1, n + 1):
        at_least_one = all_right = 0.0
        for outcome in product((True, False), repeat=n):
            right_count = sum(outcome)
            weight = chance**right_count * (1 - chance) ** (n - right_count)
            at_least_one += weight * (mean_pass_at_k([(n, right_count)], k).value or 0.0)
            all_right += weight * (mean_pass_hat_k([(n, right_count)], k).value or 0.0)
        assert at_least_one == pytest.approx(1 - (1 - chance) ** k, abs=1e-12)
        assert all_right == pytest.approx(chance**k, abs=1e-12)


def test_known_values() -> None:
    assert mean_pass_at_k([(10, 3)], 2).value == pytest.approx(1 - 21 / 45)
    assert mean_pass_hat_k([(10, 3)], 2).value == pytest.approx(3 / 45)
    assert mean_pass_at_k([(10_000, 1)], 10_000).value == 1.0
    assert mean_pass_hat_k([(10_000, 9_999)], 10_000).value == 0.0


@settings(deadline=None, max_examples=60)
@given(items=st.lists(attempts, min_size=1, max_size=6))
def test_the_mean_is_over_items_and_free_of_their_order(
    items: list[tuple[int, int]],
) -> None:
    k = min(n for n, _ in items)
    each = [mean_pass_at_k([(n, right_count)], k).value or 0.0 for n, right_count in items]
    assert mean_pass_at_k(items, k).value == pytest.approx(sum(each) / len(each), abs=1e-12)
    assert mean_pass_at_k(sorted(items), k) == mean_pass_at_k(items, k)
    hats = [mean_pass_hat_k([(n, right_count)], k).value or 0.0 for n, right_count in items]
    assert mean_pass_hat_k(items, k).value == pytest.approx(sum(hats) / len(hats), abs=1e-12)


def test_items_with_too_few_attempts_are_never_left_out() -> None:
    reason = TOO_FEW_ATTEMPTS(short=1, n=3, k=3)
    assert mean_pass_at_k([(3, 3), (2, 2), (3, 0)], 3) == Estimate(None, reason)
    assert mean_pass_hat_k([(3, 3), (2, 2), (3, 0)], 3) == Estimate(None, reason)


def test_no_items_have_no_mean() -> None:
    assert mean_pass_at_k([], 1) == Estimate(None, NOTHING_REPEATED())


@pytest.mark.parametrize("reruns", range(1, 6))
def test_a_probe_is_undecided_exactly_when_its_unscored_runs_could_tip_it(reruns: int) -> None:
    for k, broken, unscored in product(range(1, reruns + 1), range(reruns + 1), range(reruns + 1)):
        if broken + unscored > reruns:
            continue
        ends = {broken + more >= k for more in range(unscored + 1)}
        wanted = "undecided" if len(ends) == 2 else "broken" if ends == {True} else "held"
        assert probe_outcome(broken, unscored, reruns, k) == wanted


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ((0, 0, 3, 0), r"k of reruns must be in \[1, 3\], got 0"),
        ((0, 0, 3, 4), r"k of reruns must be in \[1, 3\], got 4"),
        ((2, 2, 3, 1), "must fit into 3 reruns, got 2 and 2"),
        ((-1, 0, 3, 1), "must fit into 3 reruns"),
    ],
)
def test_impossible_reruns_are_refused(arguments: tuple[int, int, int, int], finding: str) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        probe_outcome(*arguments)


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ((3, 4, 1), r"right attempts must be in \[0, 3\], got 4"),
        ((3, 1, 0), "k must be >= 1, got 0"),
        ((10_001, 0, 1), r"attempts must be in \[0, 10000\], got 10001"),
    ],
)
def test_impossible_counts_are_refused(arguments: tuple[int, int, int], finding: str) -> None:
    n, right_count, k = arguments
    with pytest.raises(InvalidValueError, match=finding):
        mean_pass_at_k([(n, right_count)], k)
