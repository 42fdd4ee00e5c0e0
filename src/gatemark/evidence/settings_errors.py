"""Errors of settings in words: the file, the line, the value seen and the keys allowed."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import inspect as types

from gatemark.core.errors import GatemarkError
from gatemark.core.text import did_you_mean
from gatemark.evidence.settings_file import place_in

_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)
_PLACE = re.compile(r" - at `(?P<path>[^`]*)`$")
_EXPECTED = re.compile(r"Expected `([a-z |]+)`, got `[a-z]+`")
_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
_STEP = re.compile(r"\.([^.\[]+)|(\[(?:\d+|\.\.\.)\])")


class SettingsProblem(NamedTuple):
    """What is wrong with settings; ``path`` leads to the value, such as ``$.suites[0].min``.

    A complete message names the value itself.
    """

    path: str | None
    message: str
    is_complete: bool = False

    def below(self, base: str) -> SettingsProblem:
        """Return the problem with its path below another one."""
        return self._replace(path=base + (self.path or "$")[1:])

    def in_file(self, text: str, file: str) -> str:
        """Return the message with the file, the line and the value seen."""
        if self.path is None:
            return f"{file}: {self.message}"
        line, seen = place_in(text, self.path)
        if self.is_complete:
            return f"{file}:{line}: {self.message}"
        is_told = seen is None or ", got" in self.message or repr(seen) in self.message
        got = "" if is_told else f", got {seen}"
        return f"{file}:{line}: {self.message}{got} (at {self.path})"


def problem_in(message: str, model: type) -> SettingsProblem:
    """Explain an error that msgspec raised while it converted settings to ``model``."""
    unknown = _UNKNOWN.match(message)
    if unknown:
        parent = unknown["path"] or "$"
        text = unknown_key(unknown["field"], _keys_at(model, parent))
        return SettingsProblem(f"{parent}.{unknown['field']}", text, is_complete=True)
    where = _PLACE.search(message)
    if where is None:
        return SettingsProblem(None, message)
    path, text = where["path"], message[: where.start()]
    expected = _EXPECTED.fullmatch(text)
    if expected is not None:
        text = _in_words(expected[1], _keys_at(model, path))
    return SettingsProblem(path, text)


def _in_words(kinds: str, keys: tuple[str, ...]) -> str:
    """Say what a value must be, in the words of YAML."""
    words = {kind: _KINDS.get(kind, kind) for kind in kinds.split(" | ")}
    if keys and "object" in words:
        named = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 else keys[0]
        words["object"] += f" with the keys {named}"
    return f"expected {' or '.join(words.values())}"


def unknown_key(key: str, allowed: tuple[str, ...]) -> str:
    """Say that a key is not known, which one may be meant, and which are allowed."""
    known = f" (allowed: {', '.join(sorted(allowed))})" if allowed else " (no keys are allowed)"
    return f"unknown key {key!r}{did_you_mean(key, allowed)}{known}"


def _keys_at(model: type, path: str) -> tuple[str, ...]:
    """Return the keys that the mapping at a path may have."""
    found = [types.type_info(model)]
    for name, index in _STEP.findall(path):
        found = [inner for kind in found for inner in _inside(kind, name, is_index=bool(index))]
    structs = [kind for kind in found if isinstance(kind, types.StructType)]
    return tuple(dict.fromkeys(field.encode_name for one in structs for field in one.fields))


def _inside(kind: types.Type, name: str, *, is_index: bool) -> list[types.Type]:
    match kind:
        case types.StructType(fields=fields):
            inner = [field.type for field in fields if field.encode_name == name]
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item) if is_index:
            inner = [item]
        case types.DictType(value_type=value):
            inner = [value]
        case _:
            inner = []
    return [plain for one in inner for plain in _alternatives(one)]


def _alternatives(kind: types.Type) -> tuple[types.Type, ...]:
    if isinstance(kind, types.Metadata):
        return _alternatives(kind.type)
    return kind.types if isinstance(kind, types.UnionType) else (kind,)


def option_problems(given: object, model: type[msgspec.Struct]) -> SettingsProblem | None:
    """Return what is wrong with some options, or None."""
    try:
        msgspec.convert(given, model)
    except (msgspec.ValidationError, GatemarkError) as error:
        return problem_in(str(error), model)
    return None
