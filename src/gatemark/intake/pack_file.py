"""Pack files: YAML that says exactly what a pack may say, or is refused with the place."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gatemark.core.errors import BadInputError
from gatemark.core.pack import Arms, Asset, Pack, Sampling, ScorerSpec, SuiteSpec
from gatemark.core.policy import Rule
from gatemark.intake.source import inspect_source

MAX_PACK_BYTES = 4 * 1024 * 1024
_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?"
)


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML whose mappings do not repeat a key."""


def _unique_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
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


def read_pack(path: str) -> Pack:
    """The pack of a file."""
    source = inspect_source(path)
    if source.byte_count > MAX_PACK_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_PACK_BYTES} bytes")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        value = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader, made stricter
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    except RecursionError as error:
        raise BadInputError(f"{path}: is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadInputError(f"{path}:{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{path}: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert(value, Pack)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {_helpful(str(error))}") from error


def _helpful(message: str) -> str:
    """An unknown key gets the key it was probably meant to be."""
    found = _UNKNOWN.match(message)
    if not found:
        return message
    fields = set(Pack.__struct_encode_fields__)
    for noun in (SuiteSpec, Sampling, ScorerSpec, Arms, Asset, Rule):
        fields.update(noun.__struct_encode_fields__)
    close = difflib.get_close_matches(found["field"], sorted(fields), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    where = f" at {found['path']}" if found["path"] else ""
    return f"unknown key {found['field']!r}{where}{hint}"
