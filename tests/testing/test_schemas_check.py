from __future__ import annotations

import msgspec
import pytest

from gatemark.core.record import BadExample, Form, RecordSchema
from gatemark.testing.schemas import check_schema


class Filled(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    colour: str = "red"


class Left(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    colour: str = "red"


def schema(record_type: type[msgspec.Struct], **changes: object) -> RecordSchema:
    form = Form(
        name="f",
        type=record_type,
        marks=frozenset({"id"}),
        identity="id",
        good=({"id": "a"},),
        bad=(BadExample("no id", {}, "$"),),
    )
    return RecordSchema("x/1", "An example.", (msgspec.structs.replace(form, **changes),))


def test_a_type_that_leaves_defaults_out_is_fine() -> None:
    check_schema(schema(Left))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"good": ()}, "needs good and bad examples"),
        ({"identity": "name"}, "no field 'name'"),
        ({"good": ({"id": 1},)}, "a good example is refused"),
        ({"marks": frozenset({"id", "colour"})}, "not recognised by its keys"),
        ({"bad": (BadExample("fine", {"id": "a"}, "$.id"),)}, "must fail at"),
    ],
)
def test_broken_promises_are_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_schema(schema(Left, **changes))


def test_a_default_that_would_be_written_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"Filled\.colour has a default that would be written"):
        check_schema(schema(Filled))
