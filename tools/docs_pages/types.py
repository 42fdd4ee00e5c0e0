"""JSON Schema fragments in words, for the reference page of the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatemark.core.record import IDENTITY_PATTERN

_REFERENCE = "#/$defs/"


def type_words(fragment: dict[str, Any], looks: Mapping[str, str] | None = None) -> str:
    """What a value may be, as a person would say it; ``looks`` has words for patterns."""
    default = fragment.get("default")
    words = _kind_words(fragment, looks or {})
    return words + (f", {default} when left out" if default else "")


def _kind_words(fragment: dict[str, Any], looks: Mapping[str, str]) -> str:
    if "$ref" in fragment:
        return f"`{fragment['$ref'].removeprefix(_REFERENCE)}`"
    if "anyOf" in fragment:
        return " or ".join(type_words(choice, looks) for choice in fragment["anyOf"])
    if "enum" in fragment:
        return " or ".join(f"`{option}`" for option in fragment["enum"])
    if "const" in fragment:
        return f"`{fragment['const']}`"
    kind = fragment.get("type")
    if kind is None:
        return str(fragment.get("description", "any value"))
    if kind == "array":
        return f"array ({type_words(fragment.get('items', {}), looks)})"
    values = fragment.get("additionalProperties")
    if kind == "object" and isinstance(values, dict):
        return f"object of {type_words(values, looks)}"
    if fragment.get("pattern") in looks:
        return looks[fragment["pattern"]]
    return f"{kind}{_bounds(fragment)}"


def definition_of(fragment: dict[str, Any]) -> list[str]:
    """The names of the definitions that a value may be made of, in order."""
    if "$ref" in fragment:
        return [str(fragment["$ref"]).removeprefix(_REFERENCE)]
    inner = [*fragment.get("anyOf", ()), *([fragment["items"]] if "items" in fragment else ())]
    if isinstance(values := fragment.get("additionalProperties"), dict):
        inner.append(values)
    return [name for choice in inner for name in definition_of(choice)]


def _bounds(fragment: dict[str, Any]) -> str:
    """The limits of a string or a number."""
    words = {
        "minLength": "length >= {}",
        "maxLength": "length <= {}",
        "minimum": ">= {}",
        "maximum": "<= {}",
        "exclusiveMinimum": "> {}",
        "exclusiveMaximum": "< {}",
    }
    found = [text.format(fragment[key]) for key, text in words.items() if key in fragment]
    if "pattern" in fragment:
        one_line = fragment["pattern"] == IDENTITY_PATTERN
        found.append("no control characters" if one_line else f"matching `{fragment['pattern']}`")
    return f" ({', '.join(found)})" if found else ""
