"""Runs that ask only some items of each suite (``--limit``); they never pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Waiver
from gatemark.core.reason import ReasonKind
from gatemark.core.result import Result


def read_limit(result: Result) -> int | None:
    """Return the number of items per suite that a run was limited to, or None."""
    limit = result.policy.settings.get("limit")
    return limit if isinstance(limit, int) else None


WHOLE_RUN = "run.whole"
RUN_LIMITED: Final = ReasonKind("run_limited", "the run was limited")


def refuse_waived_limit(waivers: Sequence[Waiver]) -> None:
    """Refuse a waiver of the limit: a limited run never passes."""
    if any(waiver.rule == WHOLE_RUN for waiver in waivers):
        raise BadInputError(f"{WHOLE_RUN} cannot be waived: a limited run never passes")


def make_limited_run_number() -> Measurement:
    """Return the measurement that prevents a limited run from passing."""
    return unmeasured(WHOLE_RUN, RUN_LIMITED(), direction="higher_is_better")
