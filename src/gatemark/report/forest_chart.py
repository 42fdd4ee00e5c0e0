"""Values with their intervals, group by group on one scale, as SVG."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from gatemark.core.figure import Forest
from gatemark.report import charts, words
from gatemark.report.series_charts import (
    drawn,
    hair_uprights,
    label_texts,
    number_axis,
    pixel_place,
)

ROWS_MAX: Final = 150

_WIDTH: Final = 420
_ROW_PX: Final = 18
_HEAD_PX: Final = 26
_NAME_MAX: Final = 14
_LETTER_PX: Final = 6.9


def forest_svg(figure: Forest, theme: charts.Theme) -> str:
    """Dots on lines; the name of a group and how to read it stand above its rows."""
    palette = charts.PALETTES[theme]
    ends = [
        end
        for group in figure.groups
        for row in group.rows
        for end in (row.low, row.high, row.value)
    ]
    ticks = charts.round_ticks(min(0.0, *ends), max(ends))
    rows, heads, names, height = _places(figure, theme)
    x = number_axis("x", figure.axis, ticks, (ticks[0], ticks[-1]), (_WIDTH / 2, 40))
    y = pixel_place()["y"]
    stroke = alt.Stroke("colour:N", scale=None)
    plane = charts.plane(rows)
    left = max(len(name["text"]) for name in names) * _LETTER_PX + 24
    layers = [
        hair_uprights(ticks, x, height, palette),
        plane.mark_rule(strokeWidth=2).encode(x=x, x2="high", y=y, stroke=stroke),
        plane.mark_circle(size=58, opacity=1).encode(
            x=alt.X("value:Q", scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False)),
            y=y,
            fill=alt.Fill("colour:N", scale=None),
        ),
        label_texts(names, palette, "right"),
        *(_heads(heads, palette, 8 - left)),
    ]
    padding = {"left": left, "top": 10, "right": 24, "bottom": 52}
    return drawn(layers, palette, (_WIDTH, height), padding)


def _places(
    figure: Forest, theme: charts.Theme
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], float]:
    """Every row, head and name with its height; a name has one colour in all groups."""
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
            name = words.shortened(words.one_line(row.name), _NAME_MAX)
            names.append({"x": -10, "y": middle, "text": name})
            height += _ROW_PX
    return rows, heads, names, height


def _heads(heads: list[dict[str, Any]], palette: charts.Palette, x: float) -> list[alt.Chart]:
    mark = charts.plane([{**head, "x": x} for head in heads]).mark_text(
        align="left",
        baseline="middle",
        font=charts.FONT,
        fontSize=12,
        fontWeight="bold",
        fill=palette.label,
    )
    return [mark.encode(**pixel_place(), text="text:N")]
