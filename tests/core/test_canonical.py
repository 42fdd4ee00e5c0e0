from __future__ import annotations

import hashlib
import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.canonical import canonical_bytes, digest, is_digest, same_digest
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
