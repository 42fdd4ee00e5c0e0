from __future__ import annotations

import json
import math
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.targets.port import Reply, TargetError
from gatemark.targets.replies import check_reply, copy_plain_json, read_reply

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
@settings(deadline=None, max_examples=100)
def test_plain_json_stays_as_it_is(value: Any) -> None:
    plain = copy_plain_json(value, "output")
    assert json.dumps(plain) == json.dumps(value)


class _Colour(StrEnum):
    RED = "red"


class _Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (_Level.HIGH, 3),
        (_Colour.RED, "red"),
        ((1, "a"), [1, "a"]),
    ],
)
def test_numbers_of_other_libraries_become_plain(value: Any, plain: Any) -> None:
    found = copy_plain_json(value, "output")
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, "output must be finite, got nan"),
        ([1, {"a": math.inf}], "output.1.a must be finite, got inf"),
        (2**53, "integer beyond"),
        (b"bytes", "output must be JSON, got bytes"),
        ({"a": {1, 2}}, "output.a must be JSON, got set"),
        ({1: "a"}, "key that is not text: 1"),
        ("\ud800", "not valid Unicode"),
        (np.array([1.0]), "must be JSON, got ndarray"),
    ],
)
def test_what_is_not_json_is_a_bad_reply(value: Any, complaint: str) -> None:
    with pytest.raises(TargetError, match=complaint) as caught:
        copy_plain_json(value, "output")
    assert caught.value.kind == "bad_reply"
    assert not caught.value.retryable


def test_bottomless_nesting_is_a_bad_reply() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TargetError, match="nested more than 100"):
        copy_plain_json(loop, "output")


def test_the_copy_does_not_change_with_its_source() -> None:
    answer = ["yes"]
    reply = check_reply(Reply(output=answer, latency_ms=1.0), max_bytes=1000)
    answer[0] = "no"
    assert reply.output == ["yes"]


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("confidence", 1.5, r"confidence must be within \[0, 1\], got 1.5"),
        ("confidence", math.nan, "confidence must be within"),
        ("confidence", True, "confidence must be a number, got bool"),
        ("cost", -1, "cost must be at least 0 and finite, got -1.0"),
        ("cost", 10**400, "cost must be finite"),
        ("cost", "free", "cost must be a number, got str"),
        ("model", 7, "model must be text, got int"),
        ("usage", [1], "usage must be an object, got list"),
    ],
)
def test_a_field_of_the_wrong_kind_is_a_bad_reply(field: str, value: Any, complaint: str) -> None:
    with pytest.raises(TargetError, match=complaint):
        read_reply({"output": "a", field: value}, 1.0)
    with pytest.raises(TargetError, match=complaint):
        check_reply(Reply(output="a", latency_ms=1.0, **{field: value}), max_bytes=1000)


def test_a_reply_over_the_limit_is_a_bad_reply() -> None:
    with pytest.raises(TargetError, match="reply must be at most 100 bytes, got"):
        check_reply(Reply(output="x" * 200, latency_ms=1.0), max_bytes=100)


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(TargetError, match="unknown key 'ouput'"):
        read_reply({"ouput": "typo"}, 1.0)


def test_a_mapping_without_output_is_a_bad_reply() -> None:
    with pytest.raises(TargetError, match="reply has no output"):
        read_reply({"confidence": 0.5}, 1.0)
