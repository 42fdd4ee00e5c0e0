"""Bounds on the latency and the cost of answers, as a pack or a suite states them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.settings_file import about

Bound = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of which at least one must be given."""

    def __post_init__(self) -> None:
        if not self.given:
            names = ", ".join(self.__struct_fields__)
            raise InvalidValueError(f"name at least one bound: {names}")

    @property
    def given(self) -> dict[str, float]:
        """The bounds that are set, by key."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: bound for name, bound in found.items() if bound is not None}


class LatencyBounds(_Bounds, frozen=True, forbid_unknown_fields=True):
    """Maximum latency of the candidate's answers, in milliseconds.

    Half of the answers may take at most ``p50_ms_max``, 95 of 100 at most ``p95_ms_max``. A
    percentile is the smallest observed latency that this share of the answers does not exceed.
    """

    p50_ms_max: Annotated[Bound | None, about("Maximum median latency, in milliseconds.")] = None
    p95_ms_max: Annotated[
        Bound | None, about("Maximum latency of 95 of 100 answers, in milliseconds.")
    ] = None


class CostBounds(_Bounds, frozen=True, forbid_unknown_fields=True):
    """Maximum cost of the candidate's answers: in total, and on average per answer.

    Money is in the unit of the target's costs; tokens are input and output tokens.
    """

    money_max: Annotated[Bound | None, about("Maximum cost of all answers.")] = None
    money_per_item_max: Annotated[Bound | None, about("Maximum mean cost of an answer.")] = None
    tokens_max: Annotated[Bound | None, about("Maximum number of tokens of all answers.")] = None
    tokens_per_item_max: Annotated[
        Bound | None, about("Maximum mean number of tokens of an answer.")
    ] = None
