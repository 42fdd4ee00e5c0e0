"""How calls ended: the outcome of each, and the counts of a run so far."""

from __future__ import annotations

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.port import CallError, Reply


class CallOutcome(msgspec.Struct, frozen=True):
    """How one call ended. ``attempts`` is 0 if it was never made."""

    id: str
    epoch: int
    reply: Reply | None
    error: CallError | None
    attempts: int
    cached: bool
    is_earlier: bool = False
    """Whether an earlier run made the call."""

    def __post_init__(self) -> None:
        if (self.reply is None) == (self.error is None):
            raise InvalidValueError(f"outcome {self.id!r} needs a reply or an error, and not both")

    @property
    def key(self) -> tuple[str, int]:
        """What outcomes are ordered by."""
        return (self.id, self.epoch)


class RunProgress(msgspec.Struct, frozen=True):
    """Counts so far: ``done == ok + error``; ``cached`` are among the done, ``retry`` are not."""

    total: int
    done: int = 0
    ok: int = 0
    error: int = 0
    retry: int = 0
    cached: int = 0
    passed: int | None = None
    """How many of the ok calls got a full score, if replies are scored as they arrive."""
