"""Charts of curves, stacks, forests and timelines, labelled directly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import altair as alt

from gatemark.core.result import Curves, Forest, Stacks, Timeline
from gatemark.report import charts, words

LINES_MAX: Final = 7
BARS_MAX: Final = 30

_WIDTH: Final = 460
_HEIGHT: Final = 280
_BAR_PX: Final = 34
_BARS_WIDTH: Final = 440
_LABEL_GAP: Final = 0.055
_DASHES: Final = ([1, 0], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [1, 5])


def draw_curves(figure: Curves, theme: charts.Theme) -> str:
    """Draw each curve in its own colour and dash, with its name at the last point."""
    palette = charts.PALETTES[theme]
    names = charts.number_repeats([charts.shorten_label(line.name) for line in figure.lines])
    xs = sorted({x for line in figure.lines for x, _ in line.points})
    ys = [y for line in figure.lines for _, y in line.points]
    y_ticks = charts.round_ticks(min(0.0, *ys), max(ys))
    x = charts.make_number_axis("x", figure.x_axis, xs, (0.0, xs[-1]), (_WIDTH / 2, 40))
    y = charts.make_number_axis(
        "y", figure.y_axis, y_ticks, (y_ticks[0], y_ticks[-1]), (-52, _HEIGHT / 2)
    )
    hair = charts.format_hex(charts.mix_colours(palette.ground, palette.full, 0.16))
    levels = [{"x": 0, "x2": xs[-1], "y": tick} for tick in y_ticks]
    layers = [charts.make_plane(levels).mark_rule(stroke=hair).encode(x=x, x2="x2", y=y)]
    for place, line in enumerate(figure.lines):
        colour = charts.SERIES[theme][place % LINES_MAX]
        points = charts.make_plane([{"x": at, "y": height} for at, height in line.points])
        layers.append(
            points.mark_line(
                stroke=colour, strokeWidth=2.5, strokeDash=_DASHES[place % LINES_MAX]
            ).encode(x=x, y=y)
        )
        layers.append(points.mark_circle(fill=colour, size=52, opacity=1).encode(x=x, y=y))
    ends = [line.points[-1] for line in figure.lines]
    heights = _spread_heights([height for _, height in ends], (y_ticks[0], y_ticks[-1]))
    for place, (name, (at, _), height) in enumerate(zip(names, ends, heights, strict=True)):
        layers.append(
            charts.make_plane([{"x": at, "y": height, "text": name}])
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
    right = max(len(name) for name in names) * charts.LETTER_PX + 26
    padding = {"left": 70, "top": 14, "right": right, "bottom": 52}
    return charts.draw_svg(layers, palette, (_WIDTH, _HEIGHT), padding)


def draw_stacks(figure: Stacks, theme: charts.Theme) -> str:
    """Draw horizontal stacked bars with a colour key above them."""
    palette = charts.PALETTES[theme]
    names = charts.number_repeats([charts.shorten_label(bar.name) for bar in figure.bars])
    totals = [sum(bar.amounts) for bar in figure.bars]
    ticks = charts.round_ticks(0.0, max(totals) or 1.0)
    height = _BAR_PX * len(names)
    x = charts.make_number_axis("x", figure.axis, ticks, (0.0, ticks[-1]), (_BARS_WIDTH / 2, 40))
    band = alt.Y(
        "bar:N",
        sort=None,
        scale=alt.Scale(domain=names, paddingInner=0.3, paddingOuter=0.15),
        axis=alt.Axis(title=None, format=""),
    )
    layers = [charts.draw_hairlines(ticks, x, height, palette)]
    for place, _ in enumerate(figure.parts):
        pieces = [
            {"bar": name, "x": sum(bar.amounts[:place]), "x2": sum(bar.amounts[: place + 1])}
            for name, bar in zip(names, figure.bars, strict=True)
            if bar.amounts[place] > 0
        ]
        colour = charts.SERIES[theme][place % LINES_MAX]
        layers.append(
            charts.make_plane(pieces)
            .mark_bar(fill=colour, stroke=charts.format_hex(palette.ground), strokeWidth=1)
            .encode(x=x, x2="x2", y=band)
        )
    colours = {part: charts.SERIES[theme][at % LINES_MAX] for at, part in enumerate(figure.parts)}
    key, top = charts.draw_colour_key(colours, palette, _BARS_WIDTH)
    left = max(len(name) for name in names) * charts.LETTER_PX + 24
    padding = {"left": left, "top": top, "right": 24, "bottom": 52}
    return charts.draw_svg([*layers, *key], palette, (_BARS_WIDTH, height), padding)


def _spread_heights(heights: Sequence[float], ends: tuple[float, float]) -> list[float]:
    """Move label heights apart just enough that none overlap and none leave the chart."""
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


ROWS_MAX: Final = 150

_FOREST_WIDTH: Final = 420
_ROW_PX: Final = 18
_HEAD_PX: Final = 26
_ROW_NAME_MAX: Final = 14


def draw_forest(figure: Forest, theme: charts.Theme) -> str:
    """Draw dots with intervals, with the name and a reading note above each group."""
    palette = charts.PALETTES[theme]
    ends = [
        end
        for group in figure.groups
        for row in group.rows
        for end in (row.low, row.high, row.value)
    ]
    ticks = charts.round_ticks(min(0.0, *ends), max(ends))
    rows, heads, names, height = _place_rows(figure, theme)
    x = charts.make_number_axis(
        "x", figure.axis, ticks, (ticks[0], ticks[-1]), (_FOREST_WIDTH / 2, 40)
    )
    y = charts.encode_pixels()["y"]
    stroke = alt.Stroke("colour:N", scale=None)
    plane = charts.make_plane(rows)
    left = max(len(str(name["text"])) for name in names) * charts.LETTER_PX + 24
    layers = [
        charts.draw_hairlines(ticks, x, height, palette),
        plane.mark_rule(strokeWidth=2).encode(x=x, x2="high", y=y, stroke=stroke),
        plane.mark_circle(size=58, opacity=1).encode(
            x=alt.X("value:Q", scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False)),
            y=y,
            fill=alt.Fill("colour:N", scale=None),
        ),
        charts.draw_labels(names, palette, "right"),
        *(_draw_heads(heads, palette, 8 - left)),
    ]
    padding = {"left": left, "top": 10, "right": 24, "bottom": 52}
    return charts.draw_svg(layers, palette, (_FOREST_WIDTH, height), padding)


def _place_rows(
    figure: Forest, theme: charts.Theme
) -> tuple[charts.Rows, charts.Rows, charts.Rows, float]:
    """Return rows, group heads and names with their heights; a name has one colour everywhere."""
    series = charts.SERIES[theme]
    known = list(dict.fromkeys(row.name for group in figure.groups for row in group.rows))
    rows, heads, names = [], [], []
    height = 0.0
    for group in figure.groups:
        note = f" ({group.note})" if group.note else ""
        text = words.shortened(words.one_line(f"{group.name}{note}"), 70)
        heads.append({"y": height + _HEAD_PX / 2 + 4, "text": text})
        height += _HEAD_PX
        for row in group.rows:
            middle = height + _ROW_PX / 2
            colour = series[known.index(row.name) % len(series)]
            rows.append(
                {"x": row.low, "high": row.high, "value": row.value, "y": middle, "colour": colour}
            )
            name = charts.shorten_label(row.name, _ROW_NAME_MAX)
            names.append({"x": -10, "y": middle, "text": name})
            height += _ROW_PX
    return rows, heads, names, height


def _draw_heads(heads: charts.Rows, palette: charts.Palette, x: float) -> list[alt.Chart]:
    mark = charts.make_plane([{**head, "x": x} for head in heads]).mark_text(
        align="left",
        baseline="middle",
        font=charts.FONT,
        fontSize=12,
        fontWeight="bold",
        fill=palette.label,
    )
    return [mark.encode(**charts.encode_pixels(), text="text:N")]


LANES_MAX: Final = 20
SPANS_MAX: Final = 2_000

_TIMELINE_WIDTH: Final = 640
_LANE_PX: Final = 34


def draw_timeline(figure: Timeline, theme: charts.Theme) -> str:
    """Draw spans as bars and moments as ticks, with a colour key above them."""
    palette = charts.PALETTES[theme]
    lanes = charts.number_repeats([charts.shorten_label(lane) for lane in figure.lanes])
    series = charts.SERIES[theme]
    kinds = dict.fromkeys(span.kind for span in figure.spans)
    colours = {kind: series[at % len(series)] for at, kind in enumerate(kinds)}
    start = min(0.0, *(span.start for span in figure.spans))
    ticks = charts.round_ticks(start, max(span.end for span in figure.spans), 8)
    height = _LANE_PX * len(lanes)
    x = charts.make_number_axis(
        "x", figure.axis, ticks, (ticks[0], ticks[-1]), (_TIMELINE_WIDTH / 2, 40)
    )
    bars, moments = _make_marks(figure, colours)
    across = {"x": x, "y": charts.encode_pixels()["y"], "y2": "y2"}
    names = [{"x": -10, "y": (at + 0.5) * _LANE_PX, "text": lane} for at, lane in enumerate(lanes)]
    key, top = charts.draw_colour_key(colours, palette, _TIMELINE_WIDTH)
    layers = [
        charts.draw_hairlines(ticks, x, height, palette),
        charts.make_plane(bars)
        .mark_rect(opacity=0.9, stroke=charts.format_hex(palette.ground), strokeWidth=0.5)
        .encode(**across, x2="x2", fill=alt.Fill("fill:N", scale=None)),
        charts.make_plane(moments)
        .mark_rule(strokeWidth=2)
        .encode(**across, stroke=alt.Stroke("fill:N", scale=None)),
        charts.draw_labels(names, palette, "right"),
        *key,
    ]
    left = max(len(lane) for lane in lanes) * charts.LETTER_PX + 24
    padding = {"left": left, "top": top, "right": 24, "bottom": 52}
    return charts.draw_svg(layers, palette, (_TIMELINE_WIDTH, height), padding)


def _make_marks(figure: Timeline, colours: dict[str, str]) -> tuple[charts.Rows, charts.Rows]:
    place = {lane: at for at, lane in enumerate(figure.lanes)}
    bars, moments = [], []
    for span in figure.spans:
        top = place[span.lane] * _LANE_PX
        mark = {"x": span.start, "y": top + 6, "y2": top + 28, "fill": colours[span.kind]}
        if span.end > span.start:
            bars.append({**mark, "x2": span.end})
        else:
            moments.append(mark)
    return bars, moments
