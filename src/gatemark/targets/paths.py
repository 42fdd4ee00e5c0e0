"""Paths into JSON values: dotted (``choices.0.message``) or a JSON Pointer (``/choices/0``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatemark.core.errors import InvalidValueError

Path = tuple[str, ...]


def parse_path(text: str) -> Path:
    """Return the steps of a path; an empty path is the whole value (RFC 6901 for pointers)."""
    if text == "":
        return ()
    if text.startswith("/"):
        steps = [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]
        return tuple(steps)
    steps = text.split(".")
    if not all(steps):
        raise InvalidValueError(f"path {text!r} has an empty step")
    return tuple(steps)


def follow(value: Any, path: Path) -> tuple[bool, Any]:
    """Return whether the path exists, and the value there."""
    for step in path:
        if isinstance(value, Mapping):
            if step not in value:
                return (False, None)
            value = value[step]
        elif isinstance(value, list):
            if not (step.isascii() and step.isdigit()) or int(step) >= len(value):
                return (False, None)
            value = value[int(step)]
        else:
            return (False, None)
    return (True, value)
