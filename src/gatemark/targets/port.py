"""The interface of every target: a call returns a reply, or raises a typed error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol

import msgspec

from gatemark.core.errors import GatemarkError, UnavailableError

ErrorKind = Literal[
    "timeout",
    "crash",
    "bad_reply",
    "http_status",
    "unreachable",
    "no_reply",
    "unavailable",
    "unauthorized",
    "refused",
    "missing",
    "recorded",
    "budget",
    "cancelled",
]
CallPart = Literal["input", "sample", "variables"]

OUTAGES: Final[frozenset[str]] = frozenset(
    {"unreachable", "no_reply", "unavailable", "unauthorized"}
)
"""The kinds of error for a target that could not be called, as opposed to a wrong answer."""

UNAVAILABLE_EXIT: Final = 75
"""The exit code of a program whose own service is down; ``EX_TEMPFAIL`` of sysexits.h."""

MAX_MESSAGE_CHARS = 2_000
ANSWER_FIELDS: Final = frozenset(
    {"target", "criterion", "example_success", "example_safe", "assert", "confidence"}
)
"""Fields of an item that contain the right answer; a target must never see them."""


class Call(msgspec.Struct, frozen=True):
    """One question to a target; ``sample`` is its dataset row without the expected answer."""

    id: str
    epoch: int
    input: object
    sample: dict[str, object] = {}
    variables: dict[str, object] = {}

    @property
    def key(self) -> tuple[str, int]:
        """Identifies a call in a run; results are sorted by it."""
        return (self.id, self.epoch)


def shared_fields(sample: Mapping[str, object], fields: Iterable[str]) -> dict[str, object]:
    """Return the fields of an item that the pack shares with its target."""
    return {name: sample[name] for name in fields if name in sample and name not in ANSWER_FIELDS}


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a target answered. A number that it did not report is None, never 0."""

    output: object
    latency_ms: float | None
    confidence: float | None = None
    cost: float | None = None
    model: str | None = None
    usage: dict[str, object] | None = None
    answered_at: datetime | None = None
    """When the answer was given, or None if unknown."""


def decode_reply(data: bytes) -> object:
    """Decode a reply as JSON; refuse repeated keys, which would hide a value."""
    value = msgspec.json.decode(data)
    if isinstance(value, dict | list):
        json.loads(data, object_pairs_hook=_unique_keys)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise msgspec.DecodeError("an object has the same key twice")
    return found


class CallError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a call has no reply."""

    kind: ErrorKind
    message: str


class TargetError(GatemarkError):
    """A call failed; ``retryable`` says whether the same call may succeed later."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message[:MAX_MESSAGE_CHARS])
        self.kind: ErrorKind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s

    def as_call_error(self) -> CallError:
        """Return the error as a value."""
        return CallError(self.kind, str(self))


class Target(Protocol):
    """Something that can be called.

    ``reads`` names the parts of a call, besides id and epoch, that can change the reply: only these
    are part of the key under which a finished call is found again.
    """

    @property
    def reads(self) -> frozenset[CallPart]:
        """The parts of a call that reach the target."""

    async def call(self, call: Call) -> Reply:
        """Return the reply, or raise TargetError. May be cancelled at any await."""

    async def close(self) -> None:
        """Close processes, threads and connections."""

    def identity(self) -> dict[str, object]:
        """Return what pins the target, for a digest; never a secret."""


class ForeignCode:
    """A ``with`` block around foreign code; only ``let_through`` passes unchanged.

    Cancellation belongs to the caller, and Ctrl-C to the user, so these pass if nothing is named.

    A crash may be a temporary failure of something behind the code, so it is retryable.
    """

    def __init__(self, name: str, let_through: tuple[type[BaseException], ...] = ()) -> None:
        self._name = name
        self._let_through = let_through

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, self._let_through or _ours(error)):
            return
        if isinstance(error, UnavailableError):
            raise TargetError(
                "unavailable", f"{self._name} says that it is unavailable: {error}", retryable=True
            ) from error
        raise TargetError(
            "crash",
            f"{self._name} raised {type(error).__name__}: {error}{_place(trace)}",
            retryable=True,
        ) from error


def _ours(error: BaseException) -> tuple[type[BaseException], ...]:
    if isinstance(error, Exception):
        return (TargetError,)
    # A worker that calls a plain function starts in two thirds of the time without it.
    from asyncio import CancelledError  # noqa: PLC0415

    return (CancelledError, KeyboardInterrupt, GeneratorExit)


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


MAX_DEPTH: Final = 100
# RFC 8785 has no form for integers that a double cannot represent exactly.
MAX_INTEGER: Final = 2**53 - 1
REPLY_FIELDS: Final = ("output", "confidence", "cost", "model", "usage")

# The place is built only if something is wrong there.
Place = str | tuple["Place", object]

_encode = msgspec.json.Encoder().encode


def bad_reply(message: str) -> TargetError:
    """Return the error for a reply that cannot be used; it is not retried."""
    return TargetError("bad_reply", message)


def reply_from_fields(
    fields: Mapping[str, object], latency_ms: float, *, ignored: tuple[str, ...] = ()
) -> Reply:
    """Return a reply from ``{output, confidence, cost, model, usage}``; only output is required."""
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
        confidence=_number(fields.get("confidence"), "confidence", high=1.0),
        cost=_number(fields.get("cost"), "cost"),
        model=stated_model(fields.get("model")),
        usage=stated_usage(fields.get("usage")),
    )


def checked(reply: Reply, *, max_bytes: int) -> Reply:
    """Return the reply with plain values; raise a bad_reply error that says what is wrong."""
    plain = Reply(
        output=plain_json(reply.output, "output"),
        latency_ms=_number(reply.latency_ms, "latency_ms"),
        confidence=_number(reply.confidence, "confidence", high=1.0),
        cost=_number(reply.cost, "cost"),
        model=stated_model(reply.model),
        usage=stated_usage(reply.usage),
        answered_at=reply.answered_at,
    )
    size = len(_encode(plain))
    if size > max_bytes:
        raise bad_reply(f"reply must be at most {max_bytes} bytes, got {size}")
    return plain


def plain_json(value: object, place: Place, depth: int = 0) -> object:
    """Return a plain copy of a JSON-like value, which its maker cannot change later."""
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


def _key(name: object, place: Place) -> str:
    if not isinstance(name, str):
        raise bad_reply(f"{_spell(place)} has a key that is not text: {name!r}")
    return _text(name, place)


def _number(value: object, name: str, *, high: float = math.inf) -> float | None:
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


def stated_model(value: object) -> str | None:
    """Return the model name in a reply; raise a bad_reply error if it is not text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise bad_reply(f"model must be text, got {type(value).__name__}")
    return _text(value, "model")


def stated_usage(value: object) -> dict[str, object] | None:
    """Return the token counts in a reply; raise a bad_reply error if they are not an object."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise bad_reply(f"usage must be an object, got {type(value).__name__}")
    return {
        _key(name, "usage"): plain_json(item, ("usage", name), 1) for name, item in value.items()
    }
