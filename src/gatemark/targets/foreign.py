"""The border to strangers' code: whatever it raises becomes a TargetError with a place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType

from gatemark.targets.port import TargetError

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
