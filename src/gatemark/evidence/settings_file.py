"""Settings in YAML or JSON: safe, bounded, without repeated keys; errors name file and line."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml
from msgspec import inspect as types

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.evidence.source import inspect_source

MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
MAX_NODES: Final = 1_000_000
"""Values that a file may hold once every alias is written out; a few lines can ask for billions."""


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML whose mappings do not repeat a key."""


def _unique_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is not a text", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} appears more than once", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node with its aliases expanded."""
    if id(node) not in known:
        # A node inside itself would never end.
        known[id(node)] = MAX_NODES
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_written_out(part, known) for part in inner)
    return known[id(node)]


def place_in(text: str, path: str) -> tuple[int, str | None]:
    """The line of a value in settings that were read before, and the value if it is a plain one.

    ``path`` is as a type error names it, such as ``$.suites[0].min``; where it does not lead on,
    the place that was reached is told.
    """
    node: Any = yaml.compose(text, Loader=_StrictLoader)
    for name, number in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        if number and isinstance(node, yaml.SequenceNode) and int(number) < len(node.value):
            node = node.value[int(number)]
        elif name and isinstance(node, yaml.MappingNode):
            inner = {key.value: value for key, value in node.value}
            if name not in inner:
                break
            node = inner[name]
        else:
            break
    if node is None:
        return 1, None
    return node.start_mark.line + 1, node.value if isinstance(node, yaml.ScalarNode) else None


def read_settings(path: str, max_bytes: int = MAX_SETTINGS_BYTES) -> Any:
    """Return the value of a settings file."""
    return parse_settings(settings_text(path, max_bytes), path)


def settings_text(path: str, max_bytes: int = MAX_SETTINGS_BYTES) -> str:
    """Return the text of a settings file; refuse a large or binary one."""
    source = inspect_source(path)
    if source.byte_count > max_bytes:
        raise BadInputError(f"{path}: is larger than {max_bytes} bytes")
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error


def parse_settings(text: str, place: str) -> object:
    """Return the value of settings in YAML or JSON."""
    try:
        loader = _StrictLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            if _written_out(root, {}) > MAX_NODES:
                raise BadInputError(f"{place}: its aliases expand to more than {MAX_NODES} values")
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except RecursionError as error:
        raise BadInputError(f"{place}: is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadInputError(f"{place}:{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{place}: {' '.join(str(error).split())}") from error


_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)
_PLACE = re.compile(r" - at `(?P<path>[^`]*)`$")
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
    return SettingsProblem(where["path"], message[: where.start()])


def unknown_key(key: str, allowed: tuple[str, ...]) -> str:
    """Say that a key is not known, which one may be meant, and which are allowed."""
    close = difflib.get_close_matches(key, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    known = f" (allowed: {', '.join(sorted(allowed))})" if allowed else " (no keys are allowed)"
    return f"unknown key {key!r}{hint}{known}"


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
