from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.release.lifecycle.decisions.schema_change import bump, compare_schemas

BASE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": 40},
        "amount": {"type": "number", "minimum": 0},
        "state": {"enum": ["open", "closed"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id"],
}


def changed(**properties: Any) -> dict[str, Any]:
    kept = {name: value for name, value in {**BASE["properties"], **properties}.items() if value}
    return {**BASE, "properties": kept}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BASE, "none"),
        ({**BASE, "title": "Claims"}, "patch"),
        (changed(id={"type": "string", "maxLength": 40, "description": "x"}), "patch"),
        (changed(state={"enum": ["closed", "open"]}), "patch"),
        (changed(note={"type": "string"}), "minor"),
        ({**changed(lang={"default": "en"}), "required": ["id", "lang"]}, "minor"),
        ({**changed(lang={"type": "string"}), "required": ["id", "lang"]}, "major"),
        ({**BASE, "required": ["id", "amount"]}, "major"),
        ({**BASE, "required": []}, "minor"),
        (changed(amount=None), "major"),
        ({**changed(amount=None, sum={"type": "number", "minimum": 0})}, "major"),
        (changed(amount={"type": "integer", "minimum": 0}), "major"),
        (changed(amount={"type": ["number", "null"], "minimum": 0}), "minor"),
        (changed(amount={"type": "number"}), "minor"),
        (changed(amount={"type": "number", "minimum": 1}), "major"),
        (changed(amount={"type": "number", "minimum": -1}), "minor"),
        (changed(id={"type": "string", "maxLength": 39}), "major"),
        (changed(id={"type": "string", "maxLength": 41}), "minor"),
        (changed(id={"type": "string", "maxLength": 40, "pattern": "^A"}), "major"),
        (changed(state={"enum": ["open"]}), "major"),
        (changed(state={"enum": ["open", "closed", "lost"]}), "minor"),
        (changed(state={"type": "string"}), "major"),
        (changed(tags={"type": "array", "items": {"type": "integer"}}), "major"),
        (changed(tags={"type": "array"}), "minor"),
        ({**BASE, "additionalProperties": False}, "major"),
        ({**BASE, "x-unknown": 1}, "major"),
        ({**BASE, "x-marking": "secret"}, "major"),
        ({**BASE, "$defs": {"money": {}}}, "minor"),
        ({**BASE, "allOf": []}, "major"),
    ],
)
def test_each_change_has_its_class(after: dict[str, Any], expected: str) -> None:
    found = compare_schemas(BASE, after)
    assert found.change == expected, found.reasons
    assert bool(found.reasons) == (expected != "none")
    assert found.is_marking_change == ("x-marking" in after)


def test_the_most_serious_reason_comes_first() -> None:
    after = {**changed(amount=None, note={}), "title": "Claims"}
    assert compare_schemas(BASE, after).reasons[0] == "$.amount: was removed"


def test_a_marking_deep_inside_is_seen() -> None:
    after = changed(tags={"type": "array", "items": {"type": "string", "markings": ["pii"]}})
    assert compare_schemas(BASE, after).is_marking_change


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("1.2.3", "1.2.4", "patch"),
        ("1.2.3", "1.3.0", "minor"),
        ("1.2.3", "2.0.0", "major"),
        ("1.2.3", "1.2.3", None),
        ("1.2.3", "1.2.2", None),
        ("1.2.3-rc.1", "1.2.3", "patch"),
        ("0.2.3", "0.3.0", "major"),
        ("0.2.3", "0.2.4", "minor"),
        ("0.9.9", "1.0.0", "major"),
        ("1.2", "1.3", None),
        ("v1.2.3", "v1.2.4", None),
        ("1.02.3", "1.2.4", None),
    ],
)
def test_a_step_between_numbers_announces_a_class(
    before: str, after: str, expected: str | None
) -> None:
    assert bump(before, after) == expected


@pytest.mark.parametrize(
    "broken",
    [
        {"properties": []},
        {"required": "id"},
        {"properties": {"state": {"enum": "open"}}},
        {"properties": {"amount": {"minimum": "low"}}},
        {"$defs": 3},
    ],
)
def test_a_broken_schema_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="must be"):
        compare_schemas({**BASE, "$defs": {}}, {**BASE, **broken})


def test_a_schema_that_is_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {"type": "string"}
    other: dict[str, Any] = {"type": "number"}
    for _ in range(70):
        deep, other = {"items": deep}, {"items": other}
    with pytest.raises(InvalidValueError, match="at most 64 levels"):
        compare_schemas(deep, other)


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "number"}, {"enum": ["a", "b"]}, {}, True]),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
        optional={"required": st.lists(st.sampled_from("abc"), max_size=2, unique=True)},
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(SCHEMAS, SCHEMAS)
def test_only_equal_schemas_are_no_change(before: Any, after: Any) -> None:
    assert compare_schemas(before, before).change == "none"
    found = compare_schemas(before, after)
    if found.change == "none":
        assert _plain(before) == _plain(after)


def _plain(schema: Any) -> Any:
    """A schema without the order of what is required, and without empty lists of it."""
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key != "required"}
    plain["properties"] = {
        name: _plain(value) for name, value in schema.get("properties", {}).items()
    }
    plain["required"] = sorted(schema.get("required", []))
    return plain
