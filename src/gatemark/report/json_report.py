"""A result as JSON: the whole document, or one line per finding and measurement."""

from __future__ import annotations

import json
from typing import Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.result import Result

# Valid inside JSON strings, but many line readers split lines at them.
_LINE_BREAKERS: Final = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_json(result: Result) -> bytes:
    """Return the sealed document itself, so that its id can be recomputed from the file."""
    document = msgspec.to_builtins(result)
    # Keep members that a newer version added: they are part of the result.
    stored: dict[str, object] = msgspec.json.decode(result.document)
    return (_encode_document(_restore_unknown(document, stored), indent=2) + "\n").encode()


def render_jsonl(result: Result) -> bytes:
    """Return one self-contained line per finding and per measurement."""
    records: list[tuple[str, msgspec.Struct]] = [
        *(("finding", finding) for finding in result.findings),
        *(("measurement", measurement) for measurement in result.measurements),
    ]
    lines = []
    for kind, value in records:
        text = _encode_document(
            {"record": kind, "result_id": result.id, **msgspec.to_builtins(value)}
        )
        for character, escape in _LINE_BREAKERS.items():
            text = text.replace(character, escape)
        lines.append(text + "\n")
    return "".join(lines).encode()


def _restore_unknown(known: object, stored: object) -> object:
    """Return a typed document as plain JSON, with exactly the members of the stored one."""
    if isinstance(known, dict) and isinstance(stored, dict):
        kept = {
            name: _restore_unknown(value, stored[name])
            for name, value in known.items()
            if name in stored
        }
        return {**kept, **{name: value for name, value in stored.items() if name not in known}}
    if isinstance(known, list | tuple) and isinstance(stored, list) and len(known) == len(stored):
        return [_restore_unknown(one, other) for one, other in zip(known, stored, strict=True)]
    return known


def _encode_document(document: object, indent: int | None = None) -> str:
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError as error:
        raise InvalidValueError(
            f"the result contains a number that JSON cannot express: {error}"
        ) from error
