"""Replies as they must be: plain JSON of limited depth and size, and numbers in their range."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Final

import msgspec

from gatemark.targets.port import Reply, TargetError


def decode_reply(data: bytes) -> object:
    """Decode a reply as JSON; refuse repeated keys, which would hide a value."""
    value = msgspec.json.decode(data)
    if isinstance(value, dict | list):
        json.loads(data, object_pairs_hook=_refuse_repeated_keys)
    return value


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise msgspec.DecodeError("an object has the same key twice")
    return found


MAX_DEPTH: Final = 100
# RFC 8785 has no form for integers that a double cannot represent exactly.
MAX_INTEGER: Final = 2**53 - 1
REPLY_FIELDS: Final = ("output", "confidence", "cost", "model", "usage")

# The place is built only if something is wrong there.
Place = str | tuple["Place", object]

_encode = msgspec.json.Encoder().encode


class BadReplyError(TargetError):
    """A reply cannot be used; the call is not retried."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_reply", message)


def read_reply(
    fields: Mapping[str, object], latency_ms: float, *, ignored: tuple[str, ...] = ()
) -> Reply:
    """Return a reply from ``{output, confidence, cost, model, usage}``; only output is required."""
    unknown = [str(name) for name in fields if name not in REPLY_FIELDS and name not in ignored]
    if unknown:
        raise BadReplyError(
            f"reply has unknown key {unknown[0]!r} (known: {', '.join(REPLY_FIELDS)}); "
            "an object that is the answer itself belongs under output"
        )
    if "output" not in fields:
        raise BadReplyError("reply has no output")
    return Reply(
        output=fields["output"],
        latency_ms=latency_ms,
        confidence=_check_number(fields.get("confidence"), "confidence", high=1.0),
        cost=_check_number(fields.get("cost"), "cost"),
        model=read_model(fields.get("model")),
        usage=read_usage(fields.get("usage")),
    )


def check_reply(reply: Reply, *, max_bytes: int) -> Reply:
    """Return the reply with plain values; raise a bad_reply error that says what is wrong."""
    plain = Reply(
        output=copy_plain_json(reply.output, "output"),
        latency_ms=_check_number(reply.latency_ms, "latency_ms"),
        confidence=_check_number(reply.confidence, "confidence", high=1.0),
        cost=_check_number(reply.cost, "cost"),
        model=read_model(reply.model),
        usage=read_usage(reply.usage),
        answered_at=reply.answered_at,
    )
    size = len(_encode(plain))
    if size > max_bytes:
        raise BadReplyError(f"reply must be at most {max_bytes} bytes, got {size}")
    return plain


def copy_plain_json(value: object, place: Place, depth: int = 0) -> object:
    """Return a plain copy of a JSON-like value, which its maker cannot change later."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _check_text(value, place)
    if isinstance(value, Integral):
        whole = int(value)
        if abs(whole) > MAX_INTEGER:
            raise BadReplyError(f"{_spell_place(place)} holds an integer beyond 2**53 - 1")
        return whole
    if isinstance(value, Real):
        real = float(value)
        if not math.isfinite(real):
            raise BadReplyError(f"{_spell_place(place)} must be finite, got {real}")
        return real
    if depth >= MAX_DEPTH:
        raise BadReplyError(
            f"{_spell_place(place)[:80]}… is nested more than {MAX_DEPTH} levels deep"
        )
    if isinstance(value, list | tuple):
        return [copy_plain_json(item, (place, i), depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _check_key(name, place): copy_plain_json(item, (place, name), depth + 1)
            for name, item in value.items()
        }
    raise BadReplyError(f"{_spell_place(place)} must be JSON, got {type(value).__name__}")


def _spell_place(place: Place) -> str:
    steps: list[str] = []
    while not isinstance(place, str):
        place, step = place
        steps.append(f".{step}")
    return place + "".join(reversed(steps))


def _check_text(value: str, place: Place) -> str:
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BadReplyError(
                f"{_spell_place(place)} is not valid Unicode: {error.reason}"
            ) from error
    return text


def _check_key(name: object, place: Place) -> str:
    if not isinstance(name, str):
        raise BadReplyError(f"{_spell_place(place)} has a key that is not text: {name!r}")
    return _check_text(name, place)


def _check_number(value: object, name: str, *, high: float = math.inf) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadReplyError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError as error:
        raise BadReplyError(f"{name} must be finite, got an integer beyond every float") from error
    if not math.isfinite(number) or not 0 <= number <= high:
        bound = "at least 0 and finite" if high == math.inf else f"within [0, {high:g}]"
        raise BadReplyError(f"{name} must be {bound}, got {number}")
    return number


def read_model(value: object) -> str | None:
    """Return the model name in a reply; raise a bad_reply error if it is not text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadReplyError(f"model must be text, got {type(value).__name__}")
    return _check_text(value, "model")


def read_usage(value: object) -> dict[str, object] | None:
    """Return the token counts in a reply; raise a bad_reply error if they are not an object."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise BadReplyError(f"usage must be an object, got {type(value).__name__}")
    return {
        _check_key(name, "usage"): copy_plain_json(item, ("usage", name), 1)
        for name, item in value.items()
    }
