"""Convert placeholders of other tools' prompts to those of targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gatemark.packs.convert.foreign_files import Unconvertible
from gatemark.targets.template import as_text

_ANY: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_SIMPLE: Final = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)*)\s*")


def placeholders(value: Any) -> set[str]:
    """Return the variables used in a text, or in the texts of a value."""
    if isinstance(value, str):
        _check(value)
        return {_name(match[1]).partition(".")[0] for match in _ANY.finditer(value)}
    if isinstance(value, Mapping):
        return {name for inner in value.values() for name in placeholders(inner)}
    if isinstance(value, list):
        return {name for inner in value for name in placeholders(inner)}
    return set()


def as_input(value: Any) -> Any:
    """Replace ``{{name}}`` with ``{{input.name}}`` in a value."""
    return _replaced(value, lambda name: "{{input." + name + "}}")


def filled(value: Any, variables: Mapping[str, Any]) -> Any:
    """Fill a test's variables into a value; as in promptfoo, an unknown one is empty."""
    return _replaced(value, lambda name: _variable(name, variables))


def _replaced(value: Any, text_of: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        _check(value)
        return _ANY.sub(lambda match: text_of(_name(match[1])), value)
    if isinstance(value, Mapping):
        return {key: _replaced(inner, text_of) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, text_of) for inner in value]
    return value


def _variable(path: str, variables: Mapping[str, Any]) -> str:
    found: Any = variables
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return "" if found is None else as_text(found)


def _check(text: str) -> None:
    if "{%" in text or "{#" in text:
        raise Unconvertible("uses template logic ({% … %})")


def _name(inside: str) -> str:
    found = _SIMPLE.fullmatch(inside)
    if found is None:
        raise Unconvertible(f"uses a template expression ({{{{{inside.strip()}}}}})")
    if found[1].partition(".")[0] == "env":
        raise Unconvertible("uses an environment variable in a text")
    return found[1]
