"""The plots of docs/explanation/statistics.md: ``python tools/plot_statistics.py``.

Every number comes from the statistics that verdicts use, with fixed seeds. The pictures are SVG
with fixed places, so that the same code gives the same bytes on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gatemark.statistics.paired.verdict_rates import SuiteDesign, adaptive_rates
from gatemark.statistics.proportion import wilson_interval
from gatemark.statistics.significance import drop_bounds

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 190, 24, 34, 48
COLOURS: Final = {"pass": "#17613a", "fail": "#9c1c28", "inconclusive": "#7a4f00"}
INK, HAIR = "#20262d", "#b9bec4"
MARGIN: Final = 0.05
CASES: Final = (
    ("equal, 60 items", 2, 2, 60),
    ("equal, 400 items", 8, 8, 400),
    ("never differs, 100 items", 0, 0, 100),
    ("a little worse, 400 items", 20, 8, 400),
    ("worse, 60 items", 9, 2, 60),
    ("much worse, 200 items", 42, 6, 200),
)
"""Items that the candidate lost and gained, of how many."""


class Plot:
    """A coordinate system as SVG."""

    def __init__(self, title: str, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, y
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="system-ui, sans-serif" font-size="13" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        ]

    def x(self, value: float) -> float:
        """Pixels from the left."""
        start, end = self._x
        return round(LEFT + (value - start) / (end - start) * (WIDTH - LEFT - RIGHT), 2)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        start, end = self._y
        return round(HEIGHT - BOTTOM - (value - start) / (end - start) * (HEIGHT - TOP - BOTTOM), 2)

    def line(self, points: Sequence[tuple[float, float]], colour: str, extra: str = "") -> None:
        """A line through points."""
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {extra}/>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        """A dot."""
        self.parts.append(f'<circle cx="{self.x(x)}" cy="{self.y(y)}" r="4.5" fill="{colour}"/>')

    def text(self, left: float, top: float, words: str, extra: str = "", colour: str = INK) -> None:
        """Words at a place in pixels."""
        self.parts.append(f'<text x="{left}" y="{top}" fill="{colour}" {extra}>{words}</text>')

    def axis(self, ticks: Sequence[float], name: str, words: Callable[[float], str]) -> None:
        """The axis below."""
        low = self._y[0]
        self.line([(self._x[0], low), (self._x[1], low)], HAIR)
        for tick in ticks:
            self.text(self.x(tick), HEIGHT - 28, words(tick), 'text-anchor="middle"')
        middle = (LEFT + WIDTH - RIGHT) / 2
        self.text(middle, HEIGHT - 8, name, 'text-anchor="middle"')

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join([*self.parts, "</svg>", ""])


def intervals() -> str:
    """Six comparisons with their bounds against a margin: three outcomes."""
    plot = Plot("Drops with their bounds, and the margin", (-0.1, 0.3), (0, len(CASES)))
    plot.axis((-0.1, 0, 0.1, 0.2, 0.3), "drop of the candidate", lambda tick: f"{tick:g}")
    plot.line([(0, 0), (0, len(CASES))], HAIR)
    plot.line([(MARGIN, 0), (MARGIN, len(CASES))], INK, 'stroke-dasharray="5 4"')
    plot.text(plot.x(MARGIN), TOP - 12, f"margin {MARGIN:g}", 'text-anchor="middle"')
    for place, (name, lost, gained, n) in enumerate(CASES):
        height = len(CASES) - place - 0.5
        lower, upper = drop_bounds(lost, gained, n)
        outcome = _outcome(lower, upper)
        colour = COLOURS[outcome]
        plot.line([(max(lower, -0.1), height), (min(upper, 0.3), height)], colour)
        plot.dot((lost - gained) / n, height, colour)
        plot.text(LEFT - 12, plot.y(height) - 3, name, 'text-anchor="end"')
        plot.text(LEFT - 12, plot.y(height) + 13, outcome, 'text-anchor="end"', colour)
    return plot.svg()


def _outcome(lower: float, upper: float) -> str:
    """The rule of packs: both ways need evidence."""
    if upper <= MARGIN:
        return "pass"
    return "fail" if lower > MARGIN else "inconclusive"


def power() -> str:
    """How often 400 items decide, for true drops from none to three margins."""
    plot = Plot("Verdicts by the true drop", (0, 3 * MARGIN), (0, 1))
    plot.axis((0, 0.05, 0.1, 0.15), "true drop of the candidate", lambda tick: f"{tick:g}")
    for share in (0, 0.5, 1):
        plot.text(LEFT - 12, plot.y(share) + 4, f"{share:.0%}", 'text-anchor="end"')
        plot.line([(0, share), (3 * MARGIN, share)], HAIR, 'stroke-dasharray="2 4"')
    plot.text(10, TOP - 12, "share of verdicts, 400 items, one answer in five differs")
    plot.line([(MARGIN, 0), (MARGIN, 1)], INK, 'stroke-dasharray="5 4"')
    design = [SuiteDesign(1.0, 400, 2 * MARGIN, 0.2)]
    drops = [step * MARGIN / 5 for step in range(16)]
    rates = [
        adaptive_rates(design, looks=1, margin=MARGIN, drop=drop, draws=4000) for drop in drops
    ]
    for name, shares in (
        ("pass", [rate.passed for rate in rates]),
        ("inconclusive", [rate.left_open for rate in rates]),
        ("fail", [rate.failed for rate in rates]),
    ):
        plot.line([*zip(drops, shares, strict=True)], COLOURS[name])
    for row, name in enumerate(COLOURS):
        plot.text(14, 90 + 22 * row, f"— {name}", colour=COLOURS[name])
    return plot.svg()


def few_items() -> str:
    """What an observed score of 0.9 says about the truth, by the number of items."""
    sizes = (10, 20, 50, 100, 200, 500, 1000)
    plot = Plot("The interval of a score of 0.9", (0, len(sizes)), (0.5, 1))
    plot.axis(
        [place + 0.5 for place in range(len(sizes))],
        "items, 90 % of them right",
        lambda t: str(sizes[int(t)]),
    )
    for share in (0.5, 0.7, 0.9, 1):
        plot.text(LEFT - 12, plot.y(share) + 4, f"{share:g}", 'text-anchor="end"')
    plot.line([(0, 0.85), (len(sizes), 0.85)], INK, 'stroke-dasharray="5 4"')
    plot.text(LEFT - 12, plot.y(0.85) + 4, "floor 0.85", 'text-anchor="end"')
    for place, n in enumerate(sizes):
        low, high = wilson_interval(round(0.9 * n), n)
        colour = COLOURS["pass"] if low >= 0.85 else COLOURS["inconclusive"]
        plot.line([(place + 0.5, low), (place + 0.5, high)], colour)
        plot.dot(place + 0.5, 0.9, colour)
    plot.text(10, TOP - 12, "95 % Wilson interval")
    return plot.svg()


def kappa() -> str:
    """Two people who agree on 95 % of the items: kappa by how rare the rarer label is."""
    plot = Plot("Kappa by prevalence at 95 % agreement", (0, 0.5), (0, 1))
    plot.axis((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), "share of the rarer label", lambda tick: f"{tick:g}")
    for share in (0, 0.5, 0.75, 1):
        plot.text(LEFT - 12, plot.y(share) + 4, f"{share:g}", 'text-anchor="end"')
    plot.line([(0, 0.75), (0.5, 0.75)], INK, 'stroke-dasharray="5 4"')
    shares = [0.03 + step * 0.01 for step in range(48)]
    points = [(p, (0.95 - _chance(p)) / (1 - _chance(p))) for p in shares]
    plot.line(points, "#184e80")
    plot.line([(0, 0.95), (0.5, 0.95)], "#b4530a")
    plot.text(14, 90, "— agreement", colour="#b4530a")
    plot.text(14, 112, "— kappa", colour="#184e80")
    return plot.svg()


def _chance(share: float) -> float:
    return share**2 + (1 - share) ** 2


PLOTS: Final[dict[str, Callable[[], str]]] = {
    "statistics-intervals.svg": intervals,
    "statistics-power.svg": power,
    "statistics-few-items.svg": few_items,
    "statistics-kappa.svg": kappa,
}


def main() -> int:
    """Write every plot."""
    for name, draw in PLOTS.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
