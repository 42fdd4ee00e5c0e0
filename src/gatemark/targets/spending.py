"""What calls cost, and the most that a run may spend."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.targets.port import Reply
from gatemark.targets.token_counts import INPUT_TOKENS, OUTPUT_TOKENS


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The maximum spending of a run; None means no limit. ``calls`` counts retries too."""

    calls: Annotated[int | None, about("Maximum number of calls, with retries.")] = None
    cost: Annotated[float | None, about("Maximum amount of money.")] = None
    wall_s: Annotated[float | None, about("Maximum time in seconds.")] = None

    def __post_init__(self) -> None:
        for name in ("calls", "cost", "wall_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"budget.{name} must be >= 0, got {value}")


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a call, for targets that do not report it."""

    per_call: Annotated[float, about("Price of one call.")] = 0.0
    input_per_million: Annotated[float | None, about("Price of a million input tokens.")] = None
    output_per_million: Annotated[float | None, about("Price of a million output tokens.")] = None

    def __post_init__(self) -> None:
        for name in ("per_call", "input_per_million", "output_per_million"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidValueError(f"cost.{name} must be >= 0, got {value}")

    def cost_of(self, reply: Reply) -> float | None:
        """Return the reply's price, or None if it is priced by tokens and has no token counts."""
        cost = self.per_call
        for price, names in (
            (self.input_per_million, INPUT_TOKENS),
            (self.output_per_million, OUTPUT_TOKENS),
        ):
            if price is None:
                continue
            usage = [(reply.usage or {}).get(name) for name in names]
            counts = [count for count in usage if isinstance(count, int | float)]
            if not counts:
                return None
            cost += price * counts[0] / 1e6
        return cost


class Spending:
    """What was spent so far; passed from one run to the next if they share a budget."""

    def __init__(self) -> None:
        self.calls = 0
        self.cost = 0.0
        self.wall_s = 0.0
