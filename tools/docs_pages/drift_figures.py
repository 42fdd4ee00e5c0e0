"""The figures of docs/explanation/drift.md, from what ``make bench`` kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from gatemark.core.result import Curves, Line
from gatemark.report.series_charts import draw_curves

PAGE: Final = "docs/explanation/drift.md"
KEPT: Final = "bench/figures/drift-quality.json"
PICTURE: Final = "docs/images/drift-detection.svg"
OPENING: Final = "<!-- figures of bench drift-quality, put here by tools/check_docs.py -->\n"
CLOSING: Final = "<!-- end of the figures -->"
KINDS: Final = {
    "independent": "independent",
    "correlation 0.5": "correlation 0.5 from day to day",
    "correlation 0.8": "correlation 0.8",
    "weekly pattern": "weekly pattern",
    "heavy tails": "heavy tails (Student's t with 3 degrees of freedom)",
    "ratio": "ratio, 500 items",
    "never changing": "never changing",
}
CHANGES: Final = (
    *("shift of 1 sd", "shift of 2 sd", "shift of 3 sd", "shift of 5 sd"),
    "ramp of 0.1 sd a day",
)
DAYS: Final = (2, 7, 30)
_ALARMS: Final = ": false alarms a year, independent"
_FOUND: Final = ": shift of 2 sd found within 7 days"
_F1: Final = ": mean F1 on marked series"

Figures = Mapping[str, float]


def kept_figures(root: Path) -> Figures:
    """What the bench printed, by claim."""
    told = json.loads((root / KEPT).read_text(encoding="utf-8"))
    return {claim: float(one["value"]) for claim, one in told.items()}


def with_figures(page: str, figures: Figures) -> str:
    """The page with its block of figures written anew."""
    block = f"{OPENING}\n{_block(figures)}\n{CLOSING}"
    return re.sub(
        f"{re.escape(OPENING)}.*?{re.escape(CLOSING)}", lambda _: block, page, flags=re.DOTALL
    )


def picture(figures: Figures) -> str:
    """How many changes are found within how many days, as an SVG."""
    lines = tuple(
        Line(
            change.replace(" of 0.1 sd a day", ""),
            tuple((float(days), _found(figures, change, days)) for days in DAYS),
        )
        for change in CHANGES
    )
    return _drawn(lines)


@cache
def _drawn(lines: tuple[Line, ...]) -> str:
    title = "Changes that the built-in policy finds"
    return draw_curves(Curves(title, "days after the change", "% found", lines), "light")


def _found(figures: Figures, change: str, days: int) -> float:
    return figures[f"{change} found within {days} days"]


def _block(figures: Figures) -> str:
    series = f"{figures['series per row']:,.0f}"
    rows = [
        f"The built-in policy, {series} daily series per row:",
        "",
        "| Healthy series | False warnings a year, one metric "
        "| False demotions a year, five metrics |",
        "|---|---|---|",
    ]
    for kind, words in KINDS.items():
        warnings = figures[f"false warnings a year, one metric, {kind}"]
        demotions = figures[f"false demotions a year, five metrics, {kind}"]
        rows.append(f"| {words} | {warnings:.2f} | {demotions:.2f} |")
    rows += [
        "",
        "| Change after 100 quiet days | Found within 2 days | 7 days | 30 days |",
        "|---|---|---|---|",
    ]
    for change in CHANGES:
        cells = " | ".join(f"{_found(figures, change, days):.1f} %" for days in DAYS)
        rows.append(f"| {change} | {cells} |")
    name = Path(PICTURE).name
    rows += [
        "",
        f"![Share of changes found within 2, 7 and 30 days, by size](../images/{name})",
        "",
        "A series that had a false alarm at the time counts as not found.",
        "",
        *_peer_rows(figures),
    ]
    return "\n".join(rows) + "\n"


def _peer_rows(figures: Figures) -> list[str]:
    """Detectors of others with their defaults, and the scores on marked series."""
    others = [claim.removesuffix(_ALARMS) for claim in figures if claim.endswith(_ALARMS)]
    count = figures["series per detector of others"]
    marked = figures.get("marked series (TCPD)")
    where = "marked series" if marked is None else f"{marked:.0f} marked series"
    rows = [
        f"Other detectors with their defaults, {count:.0f} series each, and the mean F1 on {where} "
        "of the Turing Change",
        "Point Dataset. Evidently and NannyML compare each week with the first 50 days and do not "
        "start afresh after a",
        "change, so that the marked series do not fit them.",
        "",
        "| Detector | False alarms a year, independent | 2 sd found within 7 days | Mean F1 |",
        "|---|---|---|---|",
        _peer_row(
            "gatemark, built-in policy",
            figures["false warnings a year, one metric, independent"],
            _found(figures, "shift of 2 sd", 7),
            figures.get(f"gatemark{_F1}"),
        ),
    ]
    rows += [
        _peer_row(name, *(figures.get(f"{name}{claim}") for claim in (_ALARMS, _FOUND, _F1)))
        for name in (*others, "never alarm")
    ]
    return rows


def _peer_row(name: str, alarms: float | None, found: float | None, score: float | None) -> str:
    texts = (
        "-" if alarms is None else f"{alarms:.2f}",
        "-" if found is None else f"{found:.1f} %",
        "-" if score is None else f"{score:.2f}",
    )
    return f"| {name} | {' | '.join(texts)} |"
