"""A ``with`` block around code that is not ours: what it raises becomes a typed error."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from gatemark.core.errors import UnavailableError
from gatemark.targets.port import TargetError


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
        if error is None or isinstance(error, self._let_through or _list_passed_through(error)):
            return
        if isinstance(error, UnavailableError):
            raise TargetError(
                "unavailable", f"{self._name} says that it is unavailable: {error}", retryable=True
            ) from error
        raise TargetError(
            "crash",
            f"{self._name} raised {type(error).__name__}: {error}{_format_place(trace)}",
            retryable=True,
        ) from error


def _list_passed_through(error: BaseException) -> tuple[type[BaseException], ...]:
    if isinstance(error, Exception):
        return (TargetError,)
    # A worker that calls a plain function starts in two thirds of the time without it.
    from asyncio import CancelledError  # noqa: PLC0415

    return (CancelledError, KeyboardInterrupt, GeneratorExit)


def _format_place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
