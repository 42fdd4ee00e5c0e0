"""Settings in YAML or JSON: safe, bounded, without repeated keys; errors name file and line."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import inspect as types

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.policy import Waiver
from gatemark.core.text import did_you_mean
from gatemark.evidence.small_file import read_text_file

T = TypeVar("T")
MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
_NO_TEXT: Final = re.compile("[\ud800-\udfff\0]")
MAX_NODES: Final = 1_000_000
"""Values that a file may hold once every alias is written out; a few lines can ask for billions."""
MAX_WRITTEN: Final = 100_000
"""Values that a file may write down; each costs a kilobyte or more before it is understood."""
MAX_DEPTH: Final = 400
"""Levels of brackets that are scanned; the scanner is slow with many."""
_KINDS: Final = {"int": "a number", "float": "a number", "timestamp": "a date", "bool": "a boolean"}


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML whose mappings do not repeat a key, bounded while it is read."""

    _written = 0

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= MAX_DEPTH:
            # Python would stop at fewer levels, but the scanner looks far ahead of the composer.
            raise RecursionError
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._written += 1
        if self._written > MAX_WRITTEN:
            problem = f"the file has more than {MAX_WRITTEN} values"
            raise yaml.composer.ComposerError(None, None, problem, self.get_mark())
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # What the library raises for 2026-02-30, !!int x and their like.
            raise _make_constructor_error(node) from error
        if isinstance(value, str) and (odd := _NO_TEXT.search(value)):
            # No file name, no argument of a program and no database takes either.
            is_null = odd.group() == "\0"
            problem = "a text has a null" if is_null else "half of a surrogate pair stands alone"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value


def _make_constructor_error(node: yaml.Node) -> yaml.constructor.ConstructorError:
    kind = node.tag.rpartition(":")[2]
    seen = f" {node.value[:60]!r}" if isinstance(node, yaml.ScalarNode) else ""
    problem = f"the value{seen} cannot be read as {_KINDS.get(kind, kind)}"
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _construct_unique_mapping(
    loader: _StrictLoader, node: yaml.MappingNode
) -> dict[object, object]:
    seen = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            written = key_node.value if isinstance(key_node, yaml.ScalarNode) else key
            problem = f"key {written} is not a text; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} appears more than once", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


class _JsonLoader(_StrictLoader):
    """The same for a document in braces, where 1e-2 is a number as in JSON.

    In plain YAML it stays a text: short commit hashes can look like that.
    """


_JsonLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][+-]?[0-9]+\Z"),
    list("-0123456789"),
)
_StrictLoader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_unique_mapping
)


def _count_expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node with its aliases expanded."""
    if id(node) not in known:
        # A node inside itself would never end.
        known[id(node)] = MAX_NODES
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_count_expanded(part, known) for part in inner)
    return known[id(node)]


def place_in(text: str, path: str) -> tuple[int, str | None]:
    """The line of a value in settings that were read before, and the value if it is a plain one.

    ``path`` is as a type error names it, such as ``$.suites[0].min``; where it does not lead on,
    the place that was reached is named.
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


def about(text: str) -> msgspec.Meta:
    """Say what a key is for: in an ``Annotated`` type, for the reference and the JSON Schema."""
    return msgspec.Meta(description=text)


def settings_as(raw: object, kind: type[T], place: str) -> T:
    """Return plain settings as a typed value; an error names the place and the key."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{place}: {error}") from error


def settings_text(path: str, max_bytes: int = MAX_SETTINGS_BYTES) -> str:
    """Return the text of a settings file; refuse a large or binary one."""
    return read_text_file(path, max_bytes)


def parse_settings(text: str, place: str) -> object:
    """Return the value of settings in YAML or JSON."""
    try:
        loader = (_JsonLoader if text.lstrip().startswith(("{", "[")) else _StrictLoader)(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            if _count_expanded(root, {}) > MAX_NODES:
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
_EXPECTED = re.compile(r"Expected `([a-z |]+)`, got `[a-z]+`")
_KIND_WORDS = {
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
        text = unknown_key(unknown["field"], _list_keys(model, parent))
        return SettingsProblem(f"{parent}.{unknown['field']}", text, is_complete=True)
    where = _PLACE.search(message)
    if where is None:
        return SettingsProblem(None, message)
    path, text = where["path"], message[: where.start()]
    expected = _EXPECTED.fullmatch(text)
    if expected is not None:
        text = _describe_kinds(expected[1], _list_keys(model, path))
    return SettingsProblem(path, text)


def _describe_kinds(kinds: str, keys: tuple[str, ...]) -> str:
    """Say what a value must be, in the words of YAML."""
    words = {kind: _KIND_WORDS.get(kind, kind) for kind in kinds.split(" | ")}
    if keys and "object" in words:
        named = f"{', '.join(keys[:-1])} and {keys[-1]}" if len(keys) > 1 else keys[0]
        words["object"] += f" with the keys {named}"
    return f"expected {' or '.join(words.values())}"


def unknown_key(key: str, allowed: tuple[str, ...]) -> str:
    """Say that a key is not known, which one may be meant, and which are allowed."""
    known = f" (allowed: {', '.join(sorted(allowed))})" if allowed else " (no keys are allowed)"
    return f"unknown key {key!r}{did_you_mean(key, allowed)}{known}"


def _list_keys(model: type, path: str) -> tuple[str, ...]:
    """Return the keys that the mapping at a path may have."""
    found = [types.type_info(model)]
    for name, index in _STEP.findall(path):
        found = [
            inner for kind in found for inner in _list_inner_types(kind, name, is_index=bool(index))
        ]
    structs = [kind for kind in found if isinstance(kind, types.StructType)]
    return tuple(dict.fromkeys(field.encode_name for one in structs for field in one.fields))


def _list_inner_types(kind: types.Type, name: str, *, is_index: bool) -> list[types.Type]:
    match kind:
        case types.StructType(fields=fields):
            inner = [field.type for field in fields if field.encode_name == name]
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item) if is_index:
            inner = [item]
        case types.DictType(value_type=value):
            inner = [value]
        case _:
            inner = []
    return [plain for one in inner for plain in _list_alternatives(one)]


def _list_alternatives(kind: types.Type) -> tuple[types.Type, ...]:
    if isinstance(kind, types.Metadata):
        return _list_alternatives(kind.type)
    return kind.types if isinstance(kind, types.UnionType) else (kind,)


def option_problems(given: object, model: type[msgspec.Struct]) -> SettingsProblem | None:
    """Return what is wrong with some options, or None."""
    try:
        msgspec.convert(given, model)
    except (msgspec.ValidationError, GatemarkError) as error:
        return problem_in(str(error), model)
    return None


def waivers_from(value: object, path: str) -> tuple[Waiver, ...]:
    """The waivers in what a file holds; a file without any is a mistake."""
    if not isinstance(value, list):
        raise BadInputError(f"{path}: must be a list of waivers, each with a dash before it")
    if not value:
        raise BadInputError(f"{path}: holds no waivers")
    for number, entry in enumerate(value):
        end = entry.get("expires_at") if isinstance(entry, dict) else None
        if isinstance(end, date) and not isinstance(end, datetime):
            raise BadInputError(
                f"{path}: expires_at needs a time and a zone, such as {end}T00:00:00Z"
                f" - at `$[{number}].expires_at`"
            )
    return settings_as(value, tuple[Waiver, ...], path)
