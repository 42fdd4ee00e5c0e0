"""YAML files that say each thing once, read with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from gatemark.core.errors import BadInputError
from gatemark.intake.source import inspect_source

MAX_BYTES: Final = 4 * 1024 * 1024


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


def read_yaml(path: str) -> Any:
    """The value of a YAML file."""
    source = inspect_source(path)
    if source.byte_count > MAX_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_BYTES} bytes")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader, made stricter
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
    except RecursionError as error:
        raise BadInputError(f"{path}: is nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadInputError(f"{path}:{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise BadInputError(f"{path}: {' '.join(str(error).split())}") from error
