"""How often packs are decided wrongly: 500 simulated packs per case, with a fixed seed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import Line

PACKS = 500


def lines() -> Iterator[Line]:
    """The share of wrong verdicts of each case, in percent."""
    from tests.packs.test_error_rates import CASES, allowed, wrong_rate  # noqa: PLC0415

    for case, (_, wrong) in CASES.items():
        rate = wrong_rate(case, PACKS)
        bound = round(100 * allowed(PACKS), 2)
        yield Line(
            f"{PACKS} simulated packs, {case}: wrongly {wrong}", 100 * rate, "%", at_most=bound
        )
