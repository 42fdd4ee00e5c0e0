from __future__ import annotations

import msgspec
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.core.record import Form


class Row(msgspec.Struct):
    qid: str
    turn: int = 1


def form(**more: object) -> Form:
    fields = {"name": "row", "type": Row, "marks": frozenset({"qid"}), "identity": "qid"}
    return Form(**fields, good=(), bad=(), **more)


def test_a_record_is_named_by_its_identity_unless_told_otherwise() -> None:
    assert form().namer()(Row("a", 2)) == "a"
    assert form(unique=("qid", "turn")).namer()(Row("a", 2)) == "a\x1f2"


def test_a_key_is_told_by_its_fields() -> None:
    assert form().key_words(("a",)) == "id 'a'"
    assert form(unique=("qid", "turn")).key_words(("a", 2)) == "qid 'a', turn 2"


def test_unique_fields_include_the_identity() -> None:
    with pytest.raises(InvalidValueError, match="unique must include 'qid'"):
        form(unique=("turn",))
