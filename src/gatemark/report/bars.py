"""Where the marks of an interval bar stand: value, interval and bounds on one small scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Finding
from gatemark.report import words

WIDTH: Final = 240.0
MARGIN: Final = 8.0
_AIR: Final = 0.1
_POWER_MAX: Final = 12


class Bar(msgspec.Struct, frozen=True):
    """A drawn measurement; every place is in pixels from the left edge of the bar.

    ``allowed`` is the stretch on the good side of every bound, None when there is none.
    """

    value: float
    low: float | None
    high: float | None
    bounds: tuple[float, ...]
    allowed: tuple[float, float] | None
    start: str
    end: str
    description: str


def interval_bar(item: Measurement, findings: Sequence[Finding]) -> Bar | None:
    """The bar of one measurement; None when it would show a single point."""
    judged = [finding for finding in findings if finding.op in (">=", ">", "<=", "<", "==")]
    bounds = sorted({finding.bound for finding in judged})
    if item.value is None or (item.interval is None and set(bounds) <= {item.value}):
        return None
    ends = [] if item.interval is None else [item.interval.low, item.interval.high]
    start, end = _scale(item, [item.value, *ends, *bounds])

    def place(number: float) -> float:
        share = (number - start) / (end - start)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 2)

    allowed = _allowed(judged, start, end)
    return Bar(
        value=place(item.value),
        low=place(ends[0]) if ends else None,
        high=place(ends[1]) if ends else None,
        bounds=tuple(place(bound) for bound in bounds),
        allowed=None if allowed is None else (place(allowed[0]), place(allowed[1])),
        start=words.shortest(start) if abs(start) < 1e9 else words.number(start),
        end=words.shortest(end) if abs(end) < 1e9 else words.number(end),
        description=_description(item, judged),
    )


def _scale(item: Measurement, points: Sequence[float]) -> tuple[float, float]:
    """A scale with round ends and air around the points; a ratio inside [0, 1] stays there."""
    low, high = min(points), max(points)
    if low == high == 0:
        # Nothing but zeros says nothing about a scale.
        return 0.0, 1.0
    # Points that coincide, or all but, still need a scale that floats can tell apart.
    air = max((high - low) * _AIR, max(abs(low), abs(high)) * 1e-3, 1e-12)
    start, end = _rounded_outward(low - air, high + air)
    if item.unit == "ratio" and low >= 0 and high <= 1:
        start, end = max(start, 0.0), min(end, 1.0)
    return start, end


def _rounded_outward(start: float, end: float) -> tuple[float, float]:
    power = math.floor(math.log10(end - start))
    if abs(power) > _POWER_MAX:
        return start, end
    step = 10.0**power if end - start >= 2.5 * 10.0**power else 2 * 10.0 ** (power - 1)
    low, high = math.floor(start / step) * step, math.ceil(end / step) * step
    return round(low, 1 - power), round(high, 1 - power)


def _allowed(findings: Sequence[Finding], start: float, end: float) -> tuple[float, float] | None:
    low, high = start, end
    for finding in findings:
        if finding.op in (">=", ">", "=="):
            low = max(low, finding.bound)
        if finding.op in ("<=", "<", "=="):
            high = min(high, finding.bound)
    return (low, high) if findings and low < high else None


def _description(item: Measurement, findings: Sequence[Finding]) -> str:
    parts = ["" if item.value is None else f"value {words.amount(item.value, item.unit)}"]
    if item.interval is not None:
        parts.append(f"interval {words.interval(item.interval, item.unit)}")
    parts += [f"must be {words.bound(finding, sign=True)}" for finding in findings]
    return ", ".join(dict.fromkeys(parts))
