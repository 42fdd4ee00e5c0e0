"""How often packs pass, fail or stay open, by size, margin and discordance.

``python -m bench.verdicts --write`` writes the table into docs/explanation/verdicts.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from bench.measure import Line
from gatemark.statistics.paired.verdict_rates import SuiteDesign, adaptive_rates

PAGE = Path("docs/explanation/verdicts.md")
BEGIN, END = "<!-- verdict table: begin -->\n", "<!-- verdict table: end -->\n"
SUITES = 4
SIZES = (100, 200, 500, 1000, 2000)
MARGINS = (0.01, 0.02, 0.05)
DISCORDANCES = (0.02, 0.04, 0.10, 0.20)


def designs(items: int, margin: float, discordance: float) -> list[SuiteDesign]:
    """Four equal suites with the default guard."""
    return [SuiteDesign(1 / SUITES, items, 2 * margin, discordance)] * SUITES


def table() -> str:
    """The rates of every design, as a Markdown table in percent."""
    head = (
        "| items per suite | margin | answers that differ | equal | worse by half the margin "
        "| worse by the margin | worse by twice the margin |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {items} | {margin:g} | {share:.0%} | {' | '.join(_cells(items, margin, share))} |\n"
        for margin, items, share in product(MARGINS, SIZES, DISCORDANCES)
    )


def _cells(items: int, margin: float, discordance: float) -> Iterator[str]:
    for times in (0.0, 0.5, 1.0, 2.0):
        found = adaptive_rates(
            designs(items, margin, discordance), looks=1, margin=margin, drop=times * margin
        )
        yield " / ".join(f"{100 * share:.0f}" for share in found[:3])


def lines() -> Iterator[Line]:
    """The claims: four suites of 500 items, margin 0.02, 4 % of answers differ."""
    named = "four suites of 500 items, margin 0.02, 4 % differ"
    bar = designs(500, 0.02, 0.04)
    draws = 100_000
    equal = adaptive_rates(bar, looks=1, margin=0.02, drop=0.0, draws=draws)
    worse = adaptive_rates(bar, looks=1, margin=0.02, drop=0.02, draws=draws)
    half = adaptive_rates(bar, looks=1, margin=0.02, drop=0.01, draws=draws)
    yield Line(f"{named}: an equal candidate passes", 100 * equal.passed, "%", at_least=80)
    yield Line(f"{named}: an equal candidate fails", 100 * equal.failed, "%", at_most=2)
    yield Line(f"{named}: worse by half the margin fails", 100 * half.failed, "%", at_most=2)
    yield Line(f"{named}: worse by the margin passes", 100 * worse.passed, "%", at_most=5)
    highest = max(
        adaptive_rates(
            designs(n, margin, share), looks=1, margin=margin, drop=margin, draws=20_000
        ).passed
        for n, margin, share in product(SIZES, MARGINS, DISCORDANCES)
    )
    yield Line("highest rate at which the margin itself passes", 100 * highest, "%", at_most=5.3)
    yield from _adaptive_lines(bar, named)


def _adaptive_lines(bar: list[SuiteDesign], named: str) -> Iterator[Line]:
    """What three looks save, and that many looks do not make more errors than one."""
    equal = adaptive_rates(bar, looks=3, margin=0.02, drop=0.0, draws=20_000)
    worse = adaptive_rates(bar, looks=3, margin=0.02, drop=0.04, draws=20_000)
    total = sum(suite.items for suite in bar)
    yield Line(f"{named}, 3 looks: an equal candidate passes", 100 * equal.passed, "%", at_least=80)
    yield Line("items saved with an equal candidate", 100 * (1 - equal.items / total), "%")
    yield Line(
        "items saved with one worse by twice the margin", 100 * (1 - worse.items / total), "%"
    )
    found = [
        adaptive_rates(
            designs(n, margin, share), looks=looks, margin=margin, drop=margin, draws=4_000
        )
        for n, margin, share, looks in product(SIZES, MARGINS, DISCORDANCES, (2, 3, 5))
    ]
    passes, fails = max(one.passed for one in found), max(one.failed for one in found)
    yield Line("highest rate of passes at the margin over looks", 100 * passes, "%", at_most=5.3)
    yield Line("highest rate of fails at the margin over looks", 100 * fails, "%", at_most=2)


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(table())
