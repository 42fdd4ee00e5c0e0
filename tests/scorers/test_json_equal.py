from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.scorers.json_equal import MAX_UNORDERED_ITEMS, SCORER
from gatemark.scorers.scorer import Scorable, Score

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


def score(target: Any, output: Any, **options: Any) -> Score:
    item = Scorable(id="1", input=None, target=target, output=output)
    return SCORER.ready(SCORER.options_from(options))(item)


def is_same(left: Any, right: Any) -> bool:
    """Equality of JSON values, in which true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


@settings(deadline=None, max_examples=200)
@given(left=json_values, right=json_values)
def test_two_values_are_equal_exactly_when_they_are_the_same_json(left: Any, right: Any) -> None:
    found = score(json.dumps(left), json.dumps(right))
    assert found.value == float(is_same(left, right))
    assert score(json.dumps(left), json.dumps(left)).value == 1.0


@settings(deadline=None, max_examples=80)
@given(
    left=st.lists(st.integers(0, 12), max_size=5),
    right=st.lists(st.integers(0, 12), max_size=5),
    tolerance=st.integers(0, 3),
)
def test_lists_without_order_are_equal_when_some_pairing_is(
    left: list[int], right: list[int], tolerance: int
) -> None:
    wanted = len(left) == len(right) and any(
        all(abs(one - other) <= tolerance for one, other in zip(left, order, strict=True))
        for order in permutations(right)
    )
    found = score(left, right, unordered_lists=True, abs_tolerance=tolerance)
    assert found.value == float(wanted)


@pytest.mark.parametrize(
    ("target", "output", "path", "expected", "found"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "/a/b/1", "2", "3"),
        ({"a/b": {"~": 1}}, {"a/b": {}}, "/a~1b/~0", "1", "nothing"),
        ({"a": 1}, {"a": 1, "z": {"k": 1}}, "/z", "nothing", "an object of 1 keys"),
        ([1, 2], [1], "", "2 items", "1 items"),
        ({"a": [1]}, {"a": "1"}, "/a", "a list of 1 items", "1"),
        (1, "2", "", "1", "2"),
    ],
)
def test_the_first_difference_is_named(
    target: Any, output: Any, path: str, expected: str, found: str
) -> None:
    detail = {"path": path, "expected": expected, "found": found}
    assert score(target, output) == Score(0.0, None, detail)


def test_an_item_without_a_partner_is_named() -> None:
    found = score([1, 2, 2], [2, 1, 3], unordered_lists=True)
    assert found.value == 0.0
    assert found.detail["found"] == "no equal item"
    assert found.detail["path"] in {"/1", "/2"}


def test_a_wildcard_stands_for_one_step_only() -> None:
    target, output = {"a": {"x": {"id": 1}}}, {"a": {"x": {"id": 2}}}
    assert score(target, output, ignore=["/a/*/id"]).value == 1.0
    assert score(target, output, ignore=["/*/id"]).value == 0.0
    assert score(target, output, ignore=["/a/*"]).value == 1.0
    assert score({"a": 1}, {"a": 1, "b": 2}, ignore=["/b"]).value == 1.0


def test_relative_tolerance_is_of_the_target() -> None:
    assert score(100, 101, rel_tolerance=0.01).value == 1.0
    assert score(100, 101.1, rel_tolerance=0.01).value == 0.0
    assert score(10**400, 1.5, rel_tolerance=0.01).value == 0.0
    assert score(10**400, 10**400, rel_tolerance=0.01).value == 1.0


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("{", "the output is not JSON: Expecting property name"),
        ('{"a": 1, "a": 1}', "the output is not JSON: a key appears more than once"),
        ("[Infinity]", "the output is not JSON: Infinity is not a JSON number"),
        ("[" * 70 + "]" * 70, "the output is not JSON: nested deeper than 64 levels"),
        ("[" * 100_000, "the output is not JSON: nested deeper than 64 levels"),
        ("Here: ```json\n1\n```", "the output is not JSON"),
    ],
)
def test_text_that_is_not_strict_json_is_wrong_and_says_why(output: str, why: str) -> None:
    found = score(1, output)
    assert found.value == 0.0
    assert found.detail["why"].startswith(why)


def test_fences_can_be_kept() -> None:
    assert score(1, "```\n1\n```").value == 1.0
    assert score(1, "```\n1\n```", fences=False).value == 0.0


def test_a_list_too_long_to_pair_is_unscored() -> None:
    many = list(range(MAX_UNORDERED_ITEMS + 1))
    found = score(many, many, unordered_lists=True)
    assert found.value is None
    assert "at most 500 items, got 501" in str(found.reason)


def test_work_is_bounded_where_lists_without_order_nest() -> None:
    grid = [[[1] * 12] * 12] * 12
    near = [[[1] * 12] * 12] * 11 + [[[1] * 12] * 11 + [[1] * 11 + [2]]]
    found = score([grid] * 8, [near] * 8, unordered_lists=True)
    assert found.value is None
    assert "too large to compare" in str(found.reason)
