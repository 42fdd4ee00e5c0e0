"""Lines over a plane and bars cut into parts, as SVG; names stand beside what they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

import altair as alt

from gatemark.core.figure import Curves, Stacks
from gatemark.report import charts, words

LINES_MAX: Final = 7
BARS_MAX: Final = 30

_NAME_MAX: Final = 18
_LETTER_PX: Final = 6.9
_WIDTH: Final = 460
_HEIGHT: Final = 280
_BAR_PX: Final = 34
_BARS_WIDTH: Final = 440
_KEY_PX: Final = 22
_LABEL_GAP: Final = 0.055
_DASHES: Final = ([1, 0], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [1, 5])


def curves_svg(figure: Curves, theme: charts.Theme) -> str:
    """Each line in its own colour and dash, with its name at its last point."""
    palette = charts.PALETTES[theme]
    names = charts.distinct([_short(line.name) for line in figure.lines])
    xs = sorted({x for line in figure.lines for x, _ in line.points})
    ys = [y for line in figure.lines for _, y in line.points]
    y_ticks = charts.round_ticks(min(0.0, *ys), max(ys))
    x = number_axis("x", figure.x_axis, xs, (0.0, xs[-1]), (_WIDTH / 2, 40))
    y = number_axis("y", figure.y_axis, y_ticks, (y_ticks[0], y_ticks[-1]), (-52, _HEIGHT / 2))
    hair = charts.hex_colour(charts.between(palette.ground, palette.full, 0.16))
    levels = [{"x": 0, "x2": xs[-1], "y": tick} for tick in y_ticks]
    layers = [charts.plane(levels).mark_rule(stroke=hair).encode(x=x, x2="x2", y=y)]
    for place, line in enumerate(figure.lines):
        colour = charts.SERIES[theme][place % LINES_MAX]
        points = charts.plane([{"x": at, "y": height} for at, height in line.points])
        layers.append(
            points.mark_line(
                stroke=colour, strokeWidth=2.5, strokeDash=_DASHES[place % LINES_MAX]
            ).encode(x=x, y=y)
        )
        layers.append(points.mark_circle(fill=colour, size=52, opacity=1).encode(x=x, y=y))
    ends = [line.points[-1] for line in figure.lines]
    heights = _spread([height for _, height in ends], (y_ticks[0], y_ticks[-1]))
    for place, (name, (at, _), height) in enumerate(zip(names, ends, heights, strict=True)):
        layers.append(
            charts.plane([{"x": at, "y": height, "text": name}])
            .mark_text(
                align="left",
                baseline="middle",
                dx=10,
                font=charts.FONT,
                fontSize=12,
                fontWeight="bold",
                fill=charts.SERIES[theme][place % LINES_MAX],
            )
            .encode(x=x, y=y, text="text:N")
        )
    right = max(len(name) for name in names) * _LETTER_PX + 26
    padding = {"left": 70, "top": 14, "right": right, "bottom": 52}
    return drawn(layers, palette, (_WIDTH, _HEIGHT), padding)


def stacks_svg(figure: Stacks, theme: charts.Theme) -> str:
    """Horizontal bars; the parts are keyed by colour above them."""
    palette = charts.PALETTES[theme]
    names = charts.distinct([_short(bar.name) for bar in figure.bars])
    totals = [sum(bar.amounts) for bar in figure.bars]
    ticks = charts.round_ticks(0.0, max(totals) or 1.0)
    height = _BAR_PX * len(names)
    x = number_axis("x", figure.axis, ticks, (0.0, ticks[-1]), (_BARS_WIDTH / 2, 40))
    band = alt.Y(
        "bar:N",
        sort=None,
        scale=alt.Scale(domain=names, paddingInner=0.3, paddingOuter=0.15),
        axis=alt.Axis(title=None, format=""),
    )
    layers = [hair_uprights(ticks, x, height, palette)]
    for place, _ in enumerate(figure.parts):
        pieces = [
            {"bar": name, "x": sum(bar.amounts[:place]), "x2": sum(bar.amounts[: place + 1])}
            for name, bar in zip(names, figure.bars, strict=True)
            if bar.amounts[place] > 0
        ]
        colour = charts.SERIES[theme][place % LINES_MAX]
        layers.append(
            charts.plane(pieces)
            .mark_bar(fill=colour, stroke=charts.hex_colour(palette.ground), strokeWidth=1)
            .encode(x=x, x2="x2", y=band)
        )
    colours = {part: charts.SERIES[theme][at % LINES_MAX] for at, part in enumerate(figure.parts)}
    key, top = colour_key(colours, palette, _BARS_WIDTH)
    left = max(len(name) for name in names) * _LETTER_PX + 24
    padding = {"left": left, "top": top, "right": 24, "bottom": 52}
    return drawn([*layers, *key], palette, (_BARS_WIDTH, height), padding)


def colour_key(
    colours: Mapping[str, str], palette: charts.Palette, width: float
) -> tuple[list[alt.Chart], float]:
    """Coloured squares with their names above a plane, and the height that they need."""
    squares: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    left, row = 0.0, 0
    for part, colour in colours.items():
        name = _short(part, 30)
        wide = 44 + len(name) * _LETTER_PX
        if left and left + wide > width:
            left, row = 0.0, row + 1
        squares.append({"x": left + 6, "y": row, "fill": colour})
        texts.append({"x": left + 18, "y": row, "text": name})
        left += wide
    for entry in (*squares, *texts):
        entry["y"] = -10 - _KEY_PX * (row - entry["y"])
    at = pixel_place()
    marks = charts.plane(squares).mark_square(size=130, opacity=1)
    drawn = [marks.encode(**at, fill=alt.Fill("fill:N", scale=None)), label_texts(texts, palette)]
    return drawn, 12.0 + _KEY_PX * (row + 1)


def label_texts(
    rows: list[dict[str, Any]],
    palette: charts.Palette,
    align: Literal["left", "right"] = "left",
) -> Any:
    """Texts at places given in pixels."""
    mark = charts.plane(rows).mark_text(
        align=align, baseline="middle", font=charts.FONT, fontSize=12, fill=palette.label
    )
    return mark.encode(**pixel_place(), text="text:N")


def pixel_place() -> dict[str, Any]:
    """Places in pixels of the plane, on no axis."""
    return {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}


def hair_uprights(ticks: Sequence[float], x: Any, height: float, palette: charts.Palette) -> Any:
    """Thin lines from top to bottom at the ticks."""
    hair = charts.hex_colour(charts.between(palette.ground, palette.full, 0.16))
    rows = [{"x": tick, "y": 0, "y2": height} for tick in ticks]
    return charts.plane(rows).mark_rule(stroke=hair).encode(x=x, y=pixel_place()["y"], y2="y2")


def drawn(
    layers: Sequence[alt.Chart],
    palette: charts.Palette,
    size: tuple[float, float],
    padding: dict[str, float],
) -> str:
    """The SVG of layers on one plane of a fixed size."""
    chart = alt.layer(*layers).properties(
        width=size[0], height=size[1], padding=padding, autosize={"type": "none"}
    )
    return charts.svg(
        chart.configure(background="transparent")
        .configure_view(strokeOpacity=0, clip=False)
        .configure_axis(**charts.axis_style(palette, ",~r"))
    )


def number_axis(
    channel: Literal["x", "y"],
    title: str,
    ticks: Sequence[float],
    domain: tuple[float, float],
    title_place: tuple[float, float],
) -> Any:
    """An axis of numbers with ticks at given values."""
    axis = alt.Axis(
        title=_short(title, 40), values=list(ticks), titleX=title_place[0], titleY=title_place[1]
    )
    scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    made = alt.X if channel == "x" else alt.Y
    return made(f"{channel}:Q", scale=scale, axis=axis)


def _spread(heights: Sequence[float], ends: tuple[float, float]) -> list[float]:
    """Label heights moved apart just so far that no two overlap and none leaves the plane."""
    gap = (ends[1] - ends[0]) * _LABEL_GAP
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    placed = list(heights)
    for below, above in pairwise(order):
        placed[above] = max(placed[above], placed[below] + gap)
    ceiling = ends[1]
    for place in reversed(order):
        placed[place] = min(placed[place], ceiling)
        ceiling = placed[place] - gap
    return placed


def _short(text: str, limit: int = _NAME_MAX) -> str:
    return words.shortened(words.one_line(text), limit)
