"""Canonical JSON (RFC 8785), digests of it, and JSON for people."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
import rfc8785

from gatemark.core.errors import InvalidValueError

DIGEST_PREFIX: Final = "sha256:"
_DIGEST_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_EXACT: Final = 2**53 - 1
_TINY: Final = 1e-5


def canonical_bytes(value: object) -> bytes:
    """Return the one byte string that stands for a JSON-like value.

    Structs become objects; NaN, infinity and integers beyond 2**53 have no canonical form and
    are refused rather than rounded.
    """
    try:
        return _encode(_prepare(value))
    except (rfc8785.CanonicalizationError, TypeError, RecursionError, UnicodeError) as error:
        raise InvalidValueError(f"no canonical form: {error}") from error


def _prepare(value: Any) -> Any:
    """Return a value so that msgspec, which is compiled, writes what RFC 8785 asks for."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is dict:
        # The order is that of UTF-16, which differs from Python's for characters beyond ASCII.
        try:
            ascii_only = "".join(value).isascii()
        except TypeError:  # members of an enum have a text; other names are refused
            value = _open_value(value)
            ascii_only = "".join(value).isascii()
        order = None if ascii_only else lambda name: name.encode("utf-16-be")
        return {name: _prepare(value[name]) for name in sorted(value, key=order)}
    if kind is list:
        return [_prepare(inner) for inner in value]
    if kind is int or kind is float:
        return _write_number(value)
    return _prepare(_open_value(value))


def _write_number(value: float) -> object:
    if -_EXACT <= value <= _EXACT:
        if value == int(value):
            return int(value)
        if abs(value) > _TINY:
            return value
    return msgspec.Raw(rfc8785.dumps(value))


def plain(value: object) -> Any:
    """Return a value as JSON types."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return {
            name if type(name) is str else msgspec.to_builtins(name): plain(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return plain(_open_value(value))


def _open_value(value: object) -> Any:
    """Return a value as a JSON type, with its members as they are."""
    if isinstance(value, msgspec.Struct) and not value.__struct_config__.array_like:
        return _list_members(value)
    if isinstance(value, Mapping):
        return {msgspec.to_builtins(name): inner for name, inner in value.items()}
    return list(value) if isinstance(value, list | tuple) else msgspec.to_builtins(value)


def _list_members(value: msgspec.Struct) -> dict[str, object]:
    config = value.__struct_config__
    # Where a struct leaves out defaults, its own encoding decides which members there are.
    kept = msgspec.to_builtins(value) if config.omit_defaults else None
    members: dict[str, object] = {}
    if config.tag_field is not None:
        members[config.tag_field] = config.tag
    for encoded, field in _list_fields(type(value)):
        inner = getattr(value, field)
        if inner is not msgspec.UNSET and (kept is None or encoded in kept):
            members[encoded] = inner
    return members


@cache
def _list_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def document_members(document: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a canonical JSON object, each as the bytes that are stored.

    Refuse bytes that are not written the canonical way: with blanks between members or with a
    repeated name, two readers could see two documents.
    """
    try:
        members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        content = msgspec.json.decode(document)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise InvalidValueError(f"not a JSON object: {error}") from error
    # The fast encoder agrees with RFC 8785 but for some numbers and rare characters in keys.
    if _encode_sorted(content) != document and canonical_bytes(whole_floats(content)) != document:
        raise InvalidValueError("not canonical JSON")
    return members


def whole_floats(value: object) -> Any:
    """Return a value with integers beyond 2**53 as floats: only floats are written that way."""
    if isinstance(value, dict):
        return {key: whole_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [whole_floats(inner) for inner in value]
    if type(value) is int and abs(value) > 2**53 - 1:
        return float(value)
    return value


def join_members(members: Mapping[str, msgspec.Raw], names: Iterable[str] | None = None) -> bytes:
    """Return the JSON object of some stored members, in the order in which they are stored."""
    wanted = None if names is None else frozenset(names)
    parts = (
        msgspec.json.encode(name) + b":" + bytes(raw)
        for name, raw in members.items()
        if wanted is None or name in wanted
    )
    return b"{" + b",".join(parts) + b"}"


def digest_document(data: bytes) -> str:
    """Return the digest of a stored JSON document's canonical form, whatever its members are.

    The document is not read through a type, so that members this build does not know count too.
    """
    try:
        return digest(msgspec.json.decode(data))
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise InvalidValueError(f"not JSON: {error}") from error


def digest_bytes(data: bytes) -> str:
    """Return the digest of raw bytes, as ``sha256:<hex>``."""
    return DIGEST_PREFIX + hashlib.sha256(data).hexdigest()


def digest(value: object) -> str:
    """Return the digest of a value's canonical bytes."""
    return digest_bytes(canonical_bytes(value))


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a digest."""
    return _DIGEST_PATTERN.match(text) is not None


def same_digest(left: str, right: str) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


def json_text(value: object) -> str:
    """Return a value as indented JSON, without a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def json_file(value: object) -> bytes:
    """Return a value as an indented JSON file."""
    return json_text(value).encode() + b"\n"
