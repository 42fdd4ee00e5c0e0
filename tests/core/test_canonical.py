from __future__ import annotations

import enum
import hashlib
import json
import math

import msgspec
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from gatemark.core.canonical import canonical_bytes, digest, is_digest, plain, same_digest
from gatemark.core.errors import InvalidValueError

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def test_the_example_of_the_standard_has_the_bytes_of_the_standard() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert canonical_bytes(value) == (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, [1.0, math.nan], {"a": math.inf}])
def test_numbers_without_a_canonical_form_are_refused(bad: object) -> None:
    with pytest.raises(InvalidValueError, match="no canonical form"):
        digest(bad)


@pytest.mark.parametrize("bad", ["\ud800", {"\udc00": 1}, ["a\udfff"]])
def test_text_that_no_unicode_writes_is_refused(bad: object) -> None:
    with pytest.raises(InvalidValueError, match="no canonical form"):
        canonical_bytes(bad)


def test_integers_that_a_double_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidValueError):
        canonical_bytes(2**53 + 1)


@given(JSON_VALUES)
def test_canonical_bytes_read_back_to_the_same_value_and_the_same_bytes(value: object) -> None:
    data = canonical_bytes(value)
    assert canonical_bytes(json.loads(data, parse_int=float)) == data


@given(JSON_VALUES)
@example({"\ufb33": 1, "\U0001f600": 2, "é": 3, "z": 4})
@example([1e-5, 1e-6, 1e-7, 1e15, 1e16, 1e21, 1e22, 2.0**53, -0.0, 5e-324, 1.5e300, 9.5e-6])
@example({"text": '\x00\x1f\x7f\b\f\n\r\t"\\/\u2028\ufeff'})
def test_canonical_bytes_are_those_of_the_library_of_the_standard(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1e-4, 1e-4)
    | st.floats(1e14, 1e22)
    | st.integers(-(2**60), 2**60).map(float)
)
def test_numbers_are_those_of_the_library_of_the_standard(number: float) -> None:
    assert canonical_bytes(number) == rfc8785.dumps(number)


@pytest.mark.parametrize("bad", [{1: 2}, {None: 1}, {"a": {2.5: 1}}, {("a",): 1}])
def test_keys_that_are_no_text_are_refused(bad: object) -> None:
    with pytest.raises(InvalidValueError, match="no canonical form"):
        canonical_bytes(bad)


def test_members_of_an_enum_are_written_as_their_values() -> None:
    class Colour(enum.Enum):
        RED = "red"

    assert canonical_bytes({Colour.RED: [Colour.RED]}) == b'{"red":["red"]}'
    assert plain({Colour.RED: (Colour.RED,)}) == {"red": ["red"]}


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))


def test_a_struct_has_the_digest_of_the_object_it_encodes_to() -> None:
    class Point(msgspec.Struct):
        x: int
        y: float

    assert digest(Point(1, 2.5)) == digest({"y": 2.5, "x": 1})
    expected = hashlib.sha256(b'{"x":1,"y":2.5}').hexdigest()
    assert digest(Point(1, 2.5)) == f"sha256:{expected}"


def test_digests_are_told_from_other_texts() -> None:
    good = digest({})
    assert is_digest(good)
    assert same_digest(good, good)
    assert not same_digest(good, digest([]))
    for bad in ("", "sha256:", good[:-1], good + "0", good.upper(), "md5:" + good[7:], good + "\n"):
        assert not is_digest(bad)
