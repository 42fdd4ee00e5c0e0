"""Settings in YAML or JSON: safe, bounded, and without a key that comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from gatemark.core.errors import BadInputError
from gatemark.intake.source import inspect_source

MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
MAX_VALUES: Final = 1_000_000


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


def read_settings(path: str, max_bytes: int = MAX_SETTINGS_BYTES) -> Any:
    """The value of a settings file."""
    source = inspect_source(path)
    if source.byte_count > max_bytes:
        raise BadInputError(f"{path}: is larger than {max_bytes} bytes")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    return parse_settings(text, path)


def parse_settings(text: str, place: str) -> Any:
    """The value of some settings; JSON is YAML too."""
    try:
        value = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader, made stricter
    except RecursionError as error:
        raise BadInputError(f"{place}: is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadInputError(f"{place}:{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{place}: {' '.join(str(error).split())}") from error
    if not _is_bounded(value):
        raise BadInputError(
            f"{place}: names that stand for others make more than {MAX_VALUES} values of it"
        )
    return value


def _is_bounded(value: Any) -> bool:
    """Whether the value stays small when each alias is written out, as readers of it would."""
    pending, count = [value], 0
    while pending:
        one = pending.pop()
        count += 1
        if count + len(pending) > MAX_VALUES:
            return False
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return True
