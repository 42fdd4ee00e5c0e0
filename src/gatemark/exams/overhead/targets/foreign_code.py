"""The border to strangers' code: whatever a target raises becomes an error with a place."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

from gatemark.core.errors import BadInputError, GatemarkError

_LET_THROUGH: Final[tuple[type[BaseException], ...]] = (
    GatemarkError,
    KeyboardInterrupt,
    GeneratorExit,
)


class TargetCode:
    """A ``with`` block around code of a target; ``doing`` says what it was asked for."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, _LET_THROUGH):
            return
        raise BadInputError(
            f"overhead target: {self._doing} raised {type(error).__name__}: {error}{_place(trace)}"
        ) from error


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
