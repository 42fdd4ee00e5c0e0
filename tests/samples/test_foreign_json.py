from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, find_key_paths, find_value

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def paths_by_walking(value: Any, prefix: str = "", level: int = 1) -> set[str]:
    if isinstance(value, list):
        parts = [paths_by_walking(item, f"{prefix}[]", level + 1) for item in value]
        return set().union(*parts)
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, item in value.items():
        path = f"{prefix}.{key}" if prefix else key
        found |= ({path} if level <= 4 else set()) | paths_by_walking(item, path, level + 1)
    return found


@given(VALUES)
@settings(deadline=None, max_examples=200)
def test_key_paths_are_those_of_the_parsed_value(value):
    head = json.dumps(value, ensure_ascii=False).encode()
    assume(b"\\" not in head)
    assert find_key_paths(head) == paths_by_walking(value)


@given(VALUES, st.data())
@settings(deadline=None, max_examples=100)
def test_a_head_that_breaks_off_shows_a_part_of_the_paths(value, data):
    head = json.dumps(value).encode()
    cut = head[: data.draw(st.integers(0, len(head)))]
    assert find_key_paths(cut) <= find_key_paths(head)


def test_only_the_first_value_is_looked_at():
    assert find_key_paths(b'{"a": 1}\n{"b": 2}') == {"a"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", 1),
        ("a.c.d", 2),
        ("list.1.x", 3),
        ("a.nope", None),
        ("list.9", None),
        ("list.x", None),
        ("a.b.c", None),
    ],
)
def test_a_dotted_path_finds_keys_with_dots_too(path, found):
    value = {"a": {"b": 1, "c.d": 2}, "list": [0, {"x": 3}]}
    assert find_value(value, path) == found


def test_nan_and_infinity_are_read_as_words_and_never_as_numbers():
    data = b'{"a": NaN, "b": "NaN, \\" NaN", "c": [NaN, -Infinity, Infinity], "d": "-Infinity"}'
    found = decode(data, dict[str, Any], "x.json")
    words = ["NaN", "-Infinity", "Infinity"]
    assert found == {"a": "NaN", "b": 'NaN, " NaN', "c": words, "d": "-Infinity"}


@pytest.mark.parametrize("data", [b'{"a": NaNo}', b'{"a": -NaN}', b'{"NaN": 1,}', b"Infinity1"])
def test_other_words_stay_errors(data):
    with pytest.raises(BadInputError, match=r"x\.json: JSON is malformed"):
        decode(data, dict[str, Any], "x.json")
