"""From whatever a target said to a Reply that holds only finite, plain JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, Final

import msgspec

from gatemark.targets.port import Reply, TargetError

MAX_DEPTH: Final = 100
# RFC 8785 has no form for integers that a double cannot hold.
MAX_INTEGER: Final = 2**53 - 1
REPLY_FIELDS: Final = ("output", "confidence", "cost", "model", "usage")

# A place is spelled out only when something is wrong there.
Place = str | tuple[Any, Any]

_encode = msgspec.json.Encoder().encode


def bad_reply(message: str) -> TargetError:
    """The error for a reply that arrived and cannot be used; asking again would not help."""
    return TargetError("bad_reply", message)


def reply_from_fields(
    fields: Mapping[Any, Any], latency_ms: float, *, ignored: tuple[str, ...] = ()
) -> Reply:
    """A reply from ``{output, confidence, cost, model, usage}``; only output is required."""
    unknown = [str(name) for name in fields if name not in REPLY_FIELDS and name not in ignored]
    if unknown:
        raise bad_reply(
            f"reply has unknown key {unknown[0]!r} (known: {', '.join(REPLY_FIELDS)}); "
            "an object that is the answer itself belongs under output"
        )
    if "output" not in fields:
        raise bad_reply("reply has no output")
    return Reply(
        output=fields["output"],
        latency_ms=latency_ms,
        confidence=fields.get("confidence"),
        cost=fields.get("cost"),
        model=fields.get("model"),
        usage=fields.get("usage"),
    )


def checked(reply: Reply, *, max_bytes: int) -> Reply:
    """The same reply with plain values throughout, or a bad_reply error that says what is wrong."""
    plain = Reply(
        output=plain_json(reply.output, "output"),
        latency_ms=_number(reply.latency_ms, "latency_ms"),
        confidence=_number(reply.confidence, "confidence", high=1.0),
        cost=_number(reply.cost, "cost"),
        model=_model(reply.model),
        usage=_usage(reply.usage),
    )
    size = len(_encode(plain))
    if size > max_bytes:
        raise bad_reply(f"reply must be at most {max_bytes} bytes, got {size}")
    return plain


def plain_json(value: Any, place: Place, depth: int = 0) -> Any:
    """A plain copy of a JSON-like value; a copy, so that its maker cannot change it later."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, Integral):
        whole = int(value)
        if abs(whole) > MAX_INTEGER:
            raise bad_reply(f"{_spell(place)} holds an integer beyond 2**53 - 1")
        return whole
    if isinstance(value, Real):
        real = float(value)
        if not math.isfinite(real):
            raise bad_reply(f"{_spell(place)} must be finite, got {real}")
        return real
    if depth >= MAX_DEPTH:
        raise bad_reply(f"{_spell(place)[:80]}… is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, list | tuple):
        return [plain_json(item, (place, i), depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _key(name, place): plain_json(item, (place, name), depth + 1)
            for name, item in value.items()
        }
    raise bad_reply(f"{_spell(place)} must be JSON, got {type(value).__name__}")


def _spell(place: Place) -> str:
    steps: list[str] = []
    while not isinstance(place, str):
        place, step = place
        steps.append(f".{step}")
    return place + "".join(reversed(steps))


def _text(value: str, place: Place) -> str:
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise bad_reply(f"{_spell(place)} is not valid Unicode: {error.reason}") from error
    return text


def _key(name: Any, place: Place) -> str:
    if not isinstance(name, str):
        raise bad_reply(f"{_spell(place)} has a key that is not text: {name!r}")
    return _text(name, place)


def _number(value: Any, name: str, *, high: float = math.inf) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise bad_reply(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError as error:
        raise bad_reply(f"{name} must be finite, got an integer beyond every float") from error
    if not math.isfinite(number) or not 0 <= number <= high:
        bound = "at least 0 and finite" if high == math.inf else f"within [0, {high:g}]"
        raise bad_reply(f"{name} must be {bound}, got {number}")
    return number


def _model(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad_reply(f"model must be text, got {type(value).__name__}")
    return _text(value, "model")


def _usage(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise bad_reply(f"usage must be an object, got {type(value).__name__}")
    plain: dict[str, Any] = plain_json(value, "usage")
    return plain
