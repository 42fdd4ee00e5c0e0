"""Pictures of figures: Vega-Lite specifications turned into SVG, offline and repeatable.

Sizes, places and colours are all fixed here rather than measured, so that the fonts of a machine
cannot change a single byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import altair as alt
import msgspec
import vl_convert

from gatemark.core.figure import Matrix
from gatemark.report import words

CHART_LABELS_MAX: Final = 40
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
Theme = Literal["light", "dark"]
Colour = tuple[int, int, int]

_LABEL_MAX: Final = 18
_LETTER_PX: Final = 6.6


class Palette(msgspec.Struct, frozen=True):
    """The colours of one theme: an empty cell, the fullest one, and the words around."""

    empty: Colour
    full: Colour
    ground: Colour
    label: str
    title: str


PALETTES: Final[dict[Theme, Palette]] = {
    "light": Palette((239, 242, 246), (24, 78, 128), (255, 255, 255), "#20262d", "#56606b"),
    "dark": Palette((38, 44, 52), (134, 190, 240), (27, 31, 36), "#e6e9ec", "#a7b1bc"),
}
# Told apart by lightness too, for eyes that do not tell the hues apart; each is at least three
# times as dark or bright as its ground.
SERIES: Final[dict[Theme, tuple[str, ...]]] = {
    "light": (
        *("#184e80", "#b4530a", "#2f7d4f", "#8b3a86", "#8a6d00", "#5b6570", "#b02a3c"),
        *("#0f766e", "#6a4bc4", "#7c4a1e", "#3f6212", "#c0266f", "#1f2937"),
    ),
    "dark": (
        *("#86bef0", "#f0a35e", "#7fcf9f", "#d79ad2", "#d9c04a", "#aab4bf", "#f08a94"),
        *("#5fd0c5", "#b3a4f7", "#cfa37a", "#b5d36a", "#f29ac4", "#e6e9ec"),
    ),
}
# Black or white reaches 4.58 on any colour at all; nothing softer does.
_INKS: Final[tuple[Colour, Colour]] = ((0, 0, 0), (255, 255, 255))


def matrix_svg(matrix: Matrix, theme: Theme) -> str:
    """A heat map of a matrix with its counts written into the cells."""
    palette = PALETTES[theme]
    labels = distinct([words.shortened(words.one_line(t), _LABEL_MAX) for t in matrix.labels])
    side = _cell_side(len(labels))
    size = side * len(labels)
    longest = math.ceil(max((len(label) for label in labels), default=0) * _LETTER_PX)
    angle = 0 if longest <= side - 4 else -40 if side >= 32 else -90
    left = longest + 40
    top = {0: 52, -40: math.ceil(longest * 0.72) + 38, -90: longest + 36}[angle]
    base = alt.Chart(alt.InlineData(values=_cells(matrix, labels, palette))).encode(
        x=alt.X(
            "column:N",
            sort=None,
            scale=alt.Scale(domain=labels, paddingInner=0.04),
            axis=_axis(matrix.column_axis, palette, "top", (size / 2, 12 - top), angle=angle),
        ),
        y=alt.Y(
            "row:N",
            sort=None,
            scale=alt.Scale(domain=labels, paddingInner=0.04),
            axis=_axis(matrix.row_axis, palette, "left", (14 - left, size / 2)),
        ),
    )
    layers = [base.mark_rect(cornerRadius=2).encode(fill=alt.Fill("fill:N", scale=None))]
    if side >= 32:
        text = base.mark_text(fontSize=13, font=FONT, baseline="middle")
        layers.append(
            text.encode(text=alt.Text("count:Q", format=",d"), fill=alt.Fill("ink:N", scale=None))
        )
    chart = alt.layer(*layers).properties(
        width=size,
        height=size,
        padding={"left": left, "top": top, "right": longest // 2 + 12, "bottom": 8},
        autosize={"type": "none"},
    )
    return svg(chart.configure(background="transparent").configure_view(strokeOpacity=0))


def svg(chart: alt.TopLevelMixin) -> str:
    """The SVG of a chart; a chart that would fetch anything cannot be drawn."""
    specification: dict[str, Any] = chart.to_dict()
    return str(vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]))


def distinct(labels: Sequence[str]) -> list[str]:
    """Labels that stay apart on an axis even when cutting made them equal."""
    seen: set[str] = set()
    kept = []
    for label in labels:
        name, copy = label, 2
        while name in seen:
            name, copy = f"{label} ({copy})", copy + 1
        seen.add(name)
        kept.append(name)
    return kept


def contrast(left: Colour, right: Colour) -> float:
    """The WCAG contrast ratio of two colours."""
    lighter, darker = sorted((_luminance(left), _luminance(right)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def between(start: Colour, end: Colour, share: float) -> Colour:
    """The colour a share of the way from one to another."""
    red, green, blue = (
        round(low + (high - low) * share) for low, high in zip(start, end, strict=True)
    )
    return red, green, blue


def axis_style(palette: Palette, number_format: str) -> dict[str, Any]:
    """How the axes of every chart on a plane look; nothing in it is measured."""
    return {
        "domain": False,
        "grid": False,
        "ticks": False,
        "format": number_format,
        "labelColor": palette.label,
        "labelFont": FONT,
        "labelFontSize": 12,
        "labelLimit": 0,
        "labelOverlap": False,
        "labelBound": False,
        "labelFlush": False,
        "labelPadding": 8,
        "titleAlign": "center",
        "titleBaseline": "middle",
        "titleColor": palette.title,
        "titleFont": FONT,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleLimit": 0,
    }


def plane(rows: list[dict[str, Any]]) -> alt.Chart:
    """A chart over some rows."""
    return alt.Chart(alt.InlineData(values=rows))


def round_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers that span a range, both ends included; the last is not below ``high``."""
    spread = high - low
    if not spread > 1e-9 * max(1e-9, abs(low), abs(high)):
        return [low, low + max(1.0, abs(low))]
    rough = spread / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * size for size in (1, 2, 2.5, 5) if rough <= power * size), power * 10)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    decimals = 3 - math.floor(math.log10(step))
    return [round(step * count, decimals) for count in range(first, last + 1)]


def hex_colour(colour: Colour) -> str:
    """A colour as pictures and pages write it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _cells(matrix: Matrix, labels: Sequence[str], palette: Palette) -> list[dict[str, Any]]:
    top = max((count for row in matrix.counts for count in row), default=0)
    cells = []
    for row, counts in zip(labels, matrix.counts, strict=True):
        for column, count in zip(labels, counts, strict=True):
            # The square root keeps a rare disagreement visible beside a full diagonal.
            fill = between(palette.empty, palette.full, (count / top) ** 0.5 if count > 0 else 0)
            ink = max(_INKS, key=lambda colour: contrast(colour, fill))
            cells.append(
                {
                    "row": row,
                    "column": column,
                    "count": count,
                    "fill": hex_colour(fill),
                    "ink": hex_colour(ink),
                }
            )
    return cells


def _cell_side(label_count: int) -> int:
    for most, side in ((4, 76), (8, 56), (16, 40)):
        if label_count <= most:
            return side
    return 18


def _axis(
    title: str,
    palette: Palette,
    orient: Literal["top", "left"],
    title_place: tuple[float, float],
    *,
    angle: int = 0,
) -> alt.Axis:
    return alt.Axis(
        title=words.shortened(words.one_line(title), 40) or None,
        orient=orient,
        domain=False,
        ticks=False,
        labelAngle=angle,
        labelAlign="left" if angle else "center" if orient == "top" else "right",
        labelBaseline="middle" if orient == "left" or angle == -90 else "bottom",
        labelColor=palette.label,
        labelFont=FONT,
        labelFontSize=12,
        labelLimit=0,
        labelOverlap=False,
        labelPadding=8,
        titleAlign="center",
        titleBaseline="middle",
        titleColor=palette.title,
        titleFont=FONT,
        titleFontSize=12,
        titleFontWeight="normal",
        titleLimit=0,
        titleX=title_place[0],
        titleY=title_place[1],
    )
