"""The interface of every target: a call returns a reply, or raises a typed error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec

from gatemark.core.errors import GatemarkError

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
Clock = Callable[[], float]
"""Seconds of a clock that never goes back."""

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


def select_fields(sample: Mapping[str, object], fields: Iterable[str]) -> dict[str, object]:
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
