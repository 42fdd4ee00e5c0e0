"""The error budget: how fast a service uses it up, over a long and a short window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gatemark.release.lifecycle.model.release_policy import ErrorBudget
from gatemark.release.lifecycle.model.state import ServiceSpan

TOLERANCE: Final = 1e-12
"""Tolerance for floating-point error when a rate is exactly at the limit."""


class Burn(msgspec.Struct, frozen=True):
    """The burn rate in one window (1 is the allowed rate), or null with a reason."""

    rate: float | None
    reason: str | None = None


class BurnVerdict(msgspec.Struct, frozen=True):
    """Whether a budget burns too fast: yes, no or unknown."""

    is_breached: bool | None
    reason: str


def burn(spans: Sequence[ServiceSpan], budget: ErrorBudget, minutes: int, now: datetime) -> Burn:
    """Return the burn rate over the last minutes, from spans that lie completely inside.

    The rate is known only if spans cover at least half of the window.
    """
    begin = now - timedelta(minutes=minutes)
    inside = [span for span in spans if span.start >= begin and span.end <= now]
    total = sum(span.total for span in inside)
    covered = sum(((span.end - span.start) for span in inside), timedelta())
    if covered < timedelta(minutes=minutes) / 2:
        return Burn(None, f"less than half of the last {minutes} min was reported")
    if total == 0:
        return Burn(None, f"no events in the last {minutes} min")
    bad = total - sum(span.good for span in inside)
    return Burn(bad / total / (1 - budget.objective))


def judge_burn(spans: Sequence[ServiceSpan], budget: ErrorBudget, now: datetime) -> BurnVerdict:
    """Return a breach if both windows of a pair burn above its factor.

    A pair with one window known to be below its factor is not a breach, whatever the other one is.
    """
    unknown: list[str] = []
    for factor, long, short in (
        (budget.fast_factor, budget.fast_long_minutes, budget.fast_short_minutes),
        (budget.slow_factor, budget.slow_long_minutes, budget.slow_short_minutes),
    ):
        pair = burn(spans, budget, long, now), burn(spans, budget, short, now)
        known = [one.rate for one in pair if one.rate is not None]
        line = factor * (1 - TOLERANCE)
        if len(known) == 2 and min(known) >= line:
            words = f"burns {pair[0].rate:.1f}x over {long} min and {pair[1].rate:.1f}x over"
            reason = f"the error budget {words} {short} min, must stay below {factor:g}x"
            return BurnVerdict(is_breached=True, reason=reason)
        if not known or min(known) >= line:
            unknown.extend(one.reason for one in pair if one.reason is not None)
    if unknown:
        return BurnVerdict(is_breached=None, reason=unknown[0])
    return BurnVerdict(is_breached=False, reason="the error budget burns slowly enough")
