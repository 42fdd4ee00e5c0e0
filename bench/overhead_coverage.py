"""How often guards with rare damage over the budget pass by interval, in percent."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import Line


def lines() -> Iterator[Line]:
    """The chance of each case, over all samples of windows."""
    from tests.plugins.overhead.test_rare_damage import CASES, LEVEL, pass_rates  # noqa: PLC0415

    for windows, damage, share in CASES:
        alone, whole = pass_rates(windows, damage, share)
        case = f"{windows:,} windows, {damage:g} nats in {share:.2%} of them"
        yield Line(f"{case}: pass by the interval alone", 100 * alone, "%")
        yield Line(f"{case}: pass by all rules", 100 * whole, "%", at_most=100 * LEVEL)
