from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import evalica
import numpy as np
import pandas as pd
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics import contingency
from gatemark.statistics.contingency import nominal_alpha, nominal_alpha_each

Ratings = list[list[int | None]]


def random_ratings(count: int = 240) -> list[Ratings]:
    """Units by raters; few and many raters, dense and sparse, even and skewed labels."""
    rng = np.random.default_rng(12)
    found: list[Ratings] = []
    for index in range(count):
        unit_count, rater_count = int(rng.integers(1, 40)), int(rng.integers(2, 6))
        label_count = int(rng.integers(1, 6))
        missing_rate = (0.0, 0.2, 0.6)[index % 3]
        shares = rng.dirichlet(np.full(label_count, (0.2, 5.0)[index % 2]))
        truth = rng.choice(label_count, size=unit_count, p=shares)
        noise = rng.choice(label_count, size=(unit_count, rater_count), p=shares)
        follows = rng.random((unit_count, rater_count)) < 0.7
        labels = np.where(follows, truth[:, np.newaxis], noise)
        missing = rng.random((unit_count, rater_count)) < missing_rate
        found.append(
            [
                [None if gone else int(label) for label, gone in zip(row, holes, strict=True)]
                for row, holes in zip(labels, missing, strict=True)
            ]
        )
    return found


def count_matrix(ratings: Ratings) -> np.ndarray[Any, np.dtype[np.int64]]:
    matrix = np.zeros((len(ratings), 6), dtype=np.int64)
    for row, unit in enumerate(ratings):
        for label in unit:
            if label is not None:
                matrix[row, label] += 1
    return matrix


def alpha_by_definition(ratings: Ratings) -> Fraction | None:
    """One minus observed over expected disagreement, pair by pair."""
    units = [[label for label in unit if label is not None] for unit in ratings]
    units = [unit for unit in units if len(unit) >= 2]
    values = [label for unit in units for label in unit]
    if not values:
        return None
    observed = sum(
        Fraction(a != b, len(unit) - 1)
        for unit in units
        for i, a in enumerate(unit)
        for j, b in enumerate(unit)
        if i != j
    ) / len(values)
    totals = Counter(values)
    expected = Fraction(
        sum(totals[a] * totals[b] for a in totals for b in totals if a != b),
        len(values) * (len(values) - 1),
    )
    return None if expected == 0 else 1 - observed / expected


RATINGS = random_ratings()


def test_the_ratings_include_defined_and_undefined_ones() -> None:
    undefined_count = sum(alpha_by_definition(ratings) is None for ratings in RATINGS)
    assert undefined_count >= 10
    assert len(RATINGS) - undefined_count >= 150


def test_alpha_equals_its_definition_pair_by_pair() -> None:
    for ratings in RATINGS:
        expected = alpha_by_definition(ratings)
        found = nominal_alpha(count_matrix(ratings))
        if expected is None:
            assert found.value is None
            assert found.reason in (contingency.NO_PAIRS(), contingency.NO_EXPECTED_DISAGREEMENT())
        else:
            assert found.value == pytest.approx(float(expected), abs=1e-13)


def test_alpha_equals_evalica() -> None:
    for ratings in RATINGS:
        found = nominal_alpha(count_matrix(ratings))
        if found.value is not None:
            raters_by_units = pd.DataFrame(np.array(ratings, dtype=float).T)
            expected = evalica.alpha(raters_by_units, distance="nominal").alpha
            assert found.value == pytest.approx(expected, abs=1e-12)


def test_krippendorffs_own_example_gives_point_743() -> None:
    raters = [
        "1 2 3 3 2 1 4 1 2 . . .",
        "1 2 3 3 2 2 4 1 2 5 . 3",
        ". 3 3 3 2 3 4 2 2 5 1 .",
        "1 2 3 3 2 4 4 1 2 5 1 .",
    ]
    columns = zip(*(rater.split() for rater in raters), strict=True)
    ratings: Ratings = [
        [None if mark == "." else int(mark) for mark in column] for column in columns
    ]
    assert nominal_alpha(count_matrix(ratings)).value == pytest.approx(0.743, abs=5e-4)


def test_undefined_alphas_say_why() -> None:
    assert nominal_alpha([[1, 0], [0, 1]]).reason == contingency.NO_PAIRS()
    assert nominal_alpha(np.zeros((0, 0), dtype=int)).reason == contingency.NO_PAIRS()
    assert nominal_alpha([[2, 0], [3, 0]]).reason == contingency.NO_EXPECTED_DISAGREEMENT()
    # The second label is used, but never where two ratings can be compared.
    assert nominal_alpha([[2, 0], [0, 1]]).reason == contingency.NO_EXPECTED_DISAGREEMENT()
    assert nominal_alpha([[2, 0], [0, 2]], [0, 0]).reason == contingency.NO_PAIRS()


def test_a_weight_stands_for_repeated_units() -> None:
    patterns = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 0], [0, 0, 1]])
    weights = np.array([4, 7, 2, 5])
    assert nominal_alpha(patterns, weights) == nominal_alpha(np.repeat(patterns, weights, axis=0))


def test_the_order_of_units_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    for ratings in RATINGS:
        matrix = count_matrix(ratings)
        assert nominal_alpha(matrix[rng.permutation(len(matrix))]) == nominal_alpha(matrix)


def test_a_stack_of_weights_gives_one_alpha_each() -> None:
    patterns = np.array([[2, 0], [0, 2], [1, 1], [2, 1]])
    stack = np.random.default_rng(1).integers(0, 4, size=(60, 4))
    stack[0] = (3, 0, 0, 0)
    found = nominal_alpha_each(stack, patterns)
    expected = [nominal_alpha(patterns, weights).value for weights in stack]
    assert expected[0] is None
    assert [None if math.isnan(value) else value for value in found] == expected


@pytest.mark.parametrize(
    ("units", "weights", "finding"),
    [
        ([1, 2], None, "units by categories"),
        ([[1, 2]], [1, 1], "1 weights"),
        ([[1, -2]], None, "counts of ratings"),
        ([[1.5, 2.0]], None, "counts of ratings"),
        ([[1, 2]], [-1], "counts of weights"),
    ],
)
def test_impossible_counts_are_refused(units: Any, weights: Any, finding: str) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        nominal_alpha(units, weights)
