"""JSON from other tools: bounded, strict by default, recognisable from its first bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import ForeignFile, Refusal

T = TypeVar("T")

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""Tokens that some tools write instead of a number, and the texts they are read as."""
_BOM: Final = b"\xef\xbb\xbf"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN: Final = re.compile(_STRING + rb'|[\[\]{}:"]', re.DOTALL)
_TOKEN_OR_STRING: Final = re.compile(_STRING + rb"|\bNaN\b|-?\bInfinity\b", re.DOTALL)
_PATH_DEPTH: Final = 4


def decode(data: bytes, kind: type[T], place: str) -> T:
    """Decode typed JSON; raise an error with the place.

    A bare ``NaN`` or ``Infinity`` token, which is not JSON, is read as a text, so that no reader
    treats it as a number.
    """
    try:
        return _decode(data, kind)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{place}: {explain_error(error)}") from error


def explain_error(error: ValueError | RecursionError) -> str:
    """Return a decoding error as one line."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error)


def read_json_lines(file: ForeignFile, kind: type[T]) -> Iterator[tuple[str, T | Refusal]]:
    """Yield every line of a JSONL file with its place: decoded, or a refusal."""
    for number, line in enumerate(strip_bom(file.data).split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{file.name}:{number}"
        try:
            yield place, _decode(line, kind)
        except (ValueError, RecursionError) as error:
            yield place, Refusal(place, explain_error(error))


def read_json_rows(
    raws: list[msgspec.Raw], kind: type[T], place: str
) -> Iterator[tuple[str, msgspec.Raw, T | Refusal]]:
    """Yield every element of an array with its place: decoded, or a refusal."""
    for index, raw in enumerate(raws):
        where = f"{place}[{index}]"
        try:
            yield where, raw, decode(bytes(raw), kind, where)
        except BadInputError as error:
            yield where, raw, Refusal(where, str(error).removeprefix(f"{where}: "))


def strip_bom(data: bytes) -> bytes:
    """Remove the byte order mark."""
    return data.removeprefix(_BOM)


def find_value(value: object, path: str) -> object:
    """Return the value at a dotted path, or None; a key may itself contain dots."""
    if not path:
        return value
    if isinstance(value, list):
        index, _, rest = path.partition(".")
        within = index.isascii() and index.isdigit() and len(index) < 10
        return find_value(value[int(index)], rest) if within and int(index) < len(value) else None
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    parts = path.split(".")
    for size in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:size])
        if key in value:
            return find_value(value[key], ".".join(parts[size:]))
    return None


@lru_cache(maxsize=4)
def find_key_paths(head: bytes) -> frozenset[str]:
    """Return the key paths of the first JSON value in some bytes, which may be cut anywhere.

    Array steps are written ``[]``: ``cases[].inputs``. Only the first few levels are listed.
    """
    paths: set[str] = set()
    containers: list[tuple[bool, str]] = []
    here, text, deeper = "", "", 0
    for match in _TOKEN.finditer(strip_bom(head)):
        token = match.group()
        in_object, prefix = containers[-1] if containers else (False, "")
        if token == b'"':
            break
        if token.startswith(b'"'):
            text = token[1:-1].decode("utf-8", "replace")
        elif token in b"{[":
            path = here if in_object else prefix
            if len(containers) == _PATH_DEPTH:
                deeper += 1
            else:
                containers.append((True, path) if token == b"{" else (False, f"{path}[]"))
        elif token in b"}]":
            if deeper:
                deeper -= 1
            elif len(containers) <= 1:
                break
            else:
                containers.pop()
        elif in_object and not deeper:
            here = f"{prefix}.{text}" if prefix else text
            paths.add(here)
    return frozenset(paths)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(strip_bom(data), type=kind)
    except msgspec.DecodeError:
        if b"NaN" not in data and b"Infinity" not in data:
            raise
        return msgspec.json.decode(_quote_names(strip_bom(data)), type=kind)


def _quote_names(data: bytes) -> bytes:
    return _TOKEN_OR_STRING.sub(_quote, data)


def _quote(match: re.Match[bytes]) -> bytes:
    token = match.group()
    return token if token.startswith(b'"') else b'"' + token + b'"'
