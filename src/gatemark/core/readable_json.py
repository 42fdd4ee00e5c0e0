"""JSON for people: one value per line, indented."""

from __future__ import annotations

import msgspec


def json_text(value: object) -> str:
    """A value as people read it, without a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def json_file(value: object) -> bytes:
    """A value as a file that people may open."""
    return json_text(value).encode() + b"\n"
