"""The port every target fits: a call goes in, a reply comes out, or a typed error says why not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

import msgspec

from gatemark.core.errors import GatemarkError

ErrorKind = Literal[
    "timeout",
    "crash",
    "bad_reply",
    "http_status",
    "unreachable",
    "refused",
    "missing",
    "recorded",
    "budget",
    "cancelled",
]
CallPart = Literal["input", "sample", "variables"]

MAX_MESSAGE_CHARS = 2_000


class Call(msgspec.Struct, frozen=True):
    """One question to a target; ``sample`` is the whole dataset row it comes from."""

    id: str
    epoch: int
    input: Any
    sample: dict[str, Any] = {}
    variables: dict[str, Any] = {}

    @property
    def key(self) -> tuple[str, int]:
        """What makes a call unique in a run, and what results are ordered by."""
        return (self.id, self.epoch)


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a target answered. A number that it did not tell is None, never 0."""

    output: Any
    latency_ms: float | None
    confidence: float | None = None
    cost: float | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


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
        """The value that outlives the exception."""
        return CallError(self.kind, str(self))


class Target(Protocol):
    """Something that can be asked.

    ``reads`` names the parts of a call, besides id and epoch, that can change the reply: only
    these belong to the key under which a finished call is found again.
    """

    @property
    def reads(self) -> frozenset[CallPart]:
        """The parts of a call that reach the target."""

    async def call(self, call: Call) -> Reply:
        """Answer, or raise TargetError. May be cancelled at any await."""

    async def close(self) -> None:
        """Let go of processes, threads and connections."""

    def identity(self) -> dict[str, Any]:
        """What pins the target, as digest material; never a secret."""


# Cancellation belongs to the caller, and Ctrl-C to the person.
OURS: tuple[type[BaseException], ...] = (
    TargetError,
    asyncio.CancelledError,
    KeyboardInterrupt,
    GeneratorExit,
)


class ForeignCode:
    """A ``with`` block around code we did not write; lets only ``let_through`` pass unchanged.

    A crash may be a hiccup of something behind the code, so it is retryable.
    """

    def __init__(self, name: str, let_through: tuple[type[BaseException], ...] = OURS) -> None:
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
        if error is None or isinstance(error, self._let_through):
            return
        raise TargetError(
            "crash",
            f"{self._name} raised {type(error).__name__}: {error}{_place(trace)}",
            retryable=True,
        ) from error


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
