"""Convert placeholders of other tools' prompts to those of targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gatemark.packs.convert.foreign_files import Unconvertible
from gatemark.targets.template import spell_value

_ANY: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_SIMPLE: Final = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)*)\s*")


def find_placeholders(value: Any) -> set[str]:
    """Return the variables used in a text, or in the texts of a value."""
    if isinstance(value, str):
        _check_syntax(value)
        return {_parse_name(match[1]).partition(".")[0] for match in _ANY.finditer(value)}
    if isinstance(value, Mapping):
        return {name for inner in value.values() for name in find_placeholders(inner)}
    if isinstance(value, list):
        return {name for inner in value for name in find_placeholders(inner)}
    return set()


def prefix_placeholders(value: Any) -> Any:
    """Replace ``{{name}}`` with ``{{input.name}}`` in a value."""
    return _replace_placeholders(value, lambda name: "{{input." + name + "}}")


def fill_variables(value: Any, variables: Mapping[str, Any]) -> Any:
    """Fill a test's variables into a value; as in promptfoo, an unknown one is empty."""
    return _replace_placeholders(value, lambda name: _read_variable(name, variables))


def _replace_placeholders(value: Any, text_of: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        _check_syntax(value)
        return _ANY.sub(lambda match: text_of(_parse_name(match[1])), value)
    if isinstance(value, Mapping):
        return {key: _replace_placeholders(inner, text_of) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_placeholders(inner, text_of) for inner in value]
    return value


def _read_variable(path: str, variables: Mapping[str, Any]) -> str:
    found: Any = variables
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else spell_value(found)


def _check_syntax(text: str) -> None:
    if "{%" in text or "{#" in text:
        raise Unconvertible("uses template logic ({% … %})")


def _parse_name(inside: str) -> str:
    found = _SIMPLE.fullmatch(inside)
    if found is None:
        raise Unconvertible(f"uses a template expression ({{{{{inside.strip()}}}}})")
    if found[1].partition(".")[0] == "env":
        raise Unconvertible("uses an environment variable in a text")
    return found[1]
