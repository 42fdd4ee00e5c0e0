"""A result as JSON: the whole document, or one line per finding and measurement."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.result import Result

# Legal inside JSON strings, yet many line readers split at them.
_LINE_BREAKERS: Final = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_json(result: Result) -> bytes:
    """The result itself, so that its id can be derived again from what was written."""
    return (_dumps(msgspec.to_builtins(result), indent=2) + "\n").encode()


def render_jsonl(result: Result) -> bytes:
    """One self-contained line per finding and per measurement."""
    records: list[tuple[str, msgspec.Struct]] = [
        *(("finding", finding) for finding in result.findings),
        *(("measurement", measurement) for measurement in result.measurements),
    ]
    lines = []
    for kind, value in records:
        text = _dumps({"record": kind, "result_id": result.id, **msgspec.to_builtins(value)})
        for character, escape in _LINE_BREAKERS.items():
            text = text.replace(character, escape)
        lines.append(text + "\n")
    return "".join(lines).encode()


def _dumps(document: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError as error:
        raise InvalidValueError(f"the result holds a number JSON cannot carry: {error}") from error
