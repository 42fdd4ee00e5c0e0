"""What replaying a decision asks of the world: steps that can be run again, and an oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

Judged = Literal["right", "wrong", "unknown"]
Oracle = Callable[[Any], Judged]
"""Says of a final output whether it is right; may not know."""


class NotReplayable(msgspec.Struct, frozen=True):
    """A step that cannot be run again here, and why."""

    reason: str


class StepCall(msgspec.Struct, frozen=True):
    """One step to run again: its name and kind, what goes in, and which versions it is made of.

    ``seed`` tells repeats apart; the same call with the same seed gives the same answer.
    """

    kind: str
    name: str
    step: str
    inputs: dict[str, Any]
    pins: dict[str, str]
    seed: int


class Replayer(Protocol):
    """Runs single steps again, live or from a recording."""

    def run(self, call: StepCall) -> Any | NotReplayable:
        """The step's output, or why there is none."""


Pins = Mapping[str, str]
"""Component to version, as in ``prompt:writer`` to ``r7``."""
