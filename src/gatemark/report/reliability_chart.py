"""The reliability diagram: how often answers of a stated confidence came true, as SVG.

Dots and the bars below them share one plane, because only a single plane can be laid out without
measuring the fonts of the machine.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from gatemark.core.figure import Reliability
from gatemark.report import charts

CHART_BINS_MAX: Final = 100

_WIDTH: Final = 380
_HEIGHT: Final = 480
# In units of accuracy: the bars stand on the floor of the plane and end well below accuracy 0.
_FLOOR: Final = -0.26
_BAR_HEIGHT: Final = 0.18
_TICKS: Final = (0, 0.2, 0.4, 0.6, 0.8, 1)
_DOT_AREA_MIN: Final = 36
_DOT_AREA_MAX: Final = 320
_PADDING: Final = {"left": 64, "top": 14, "right": 20, "bottom": 46}


def reliability_svg(figure: Reliability, theme: charts.Theme) -> str:
    """Accuracy against stated confidence with intervals, over the number of answers per bin."""
    palette = charts.PALETTES[theme]
    dot = charts.hex_colour(palette.full)
    dots = charts.plane([row for row in _rows(figure) if row["n"]])
    spans = charts.plane([row for row in _rows(figure) if row["interval_low"] is not None])
    place = {"x": _x("confidence"), "y": _y("accuracy")}
    layers = [
        *_ground(palette),
        charts.plane(_rows(figure))
        .mark_rect(fill=charts.hex_colour(bar_colour(palette)))
        .encode(x=_x("left"), x2="right", y=_y("floor"), y2="top"),
        *_words(figure, palette),
        spans.mark_rule(stroke=dot, strokeWidth=2).encode(
            x=_x("confidence"), y=_y("interval_low"), y2="interval_high"
        ),
        *(
            spans.mark_tick(orient="horizontal", size=9, thickness=1.5, fill=dot).encode(
                x=_x("confidence"), y=_y(end)
            )
            for end in ("interval_low", "interval_high")
        ),
        dots.mark_circle(
            fill=dot, fillOpacity=1, stroke=charts.hex_colour(palette.ground), strokeWidth=1.5
        ).encode(**place, size=alt.Size("area:Q", scale=None)),
    ]
    chart = alt.layer(*layers).properties(
        width=_WIDTH, height=_HEIGHT, padding=_PADDING, autosize={"type": "none"}
    )
    return charts.svg(
        chart.configure(background="transparent")
        .configure_view(strokeOpacity=0)
        .configure_axis(**charts.axis_style(palette, ".1f"))
    )


def bar_colour(palette: charts.Palette) -> charts.Colour:
    """The bars: softer than the dots, yet three times as bright or dark as the ground."""
    return charts.between(palette.ground, palette.full, 0.65)


def _rows(figure: Reliability) -> list[dict[str, Any]]:
    most = max(1, *(bin_.n for bin_ in figure.bins))
    rows = []
    for bin_ in figure.bins:
        gap = (bin_.high - bin_.low) * 0.06
        rows.append(
            {
                "n": bin_.n,
                "confidence": bin_.confidence,
                "accuracy": bin_.accuracy,
                "interval_low": bin_.interval_low,
                "interval_high": bin_.interval_high,
                "area": _DOT_AREA_MIN + (_DOT_AREA_MAX - _DOT_AREA_MIN) * bin_.n / most,
                "left": bin_.low + gap,
                "right": bin_.high - gap,
                "floor": _FLOOR,
                "top": _FLOOR + _BAR_HEIGHT * bin_.n / most,
            }
        )
    return rows


def _ground(palette: charts.Palette) -> list[alt.Chart]:
    """Hair lines at the ticks and the dashed line on which promises come true."""
    hair = charts.hex_colour(charts.between(palette.ground, palette.full, 0.16))
    levels = charts.plane([{"x": 0, "x2": 1, "y": tick} for tick in (*_TICKS, _FLOOR)])
    uprights = charts.plane([{"x": tick, "y": 0, "y2": 1} for tick in _TICKS])
    diagonal = charts.plane([{"x": 0, "y": 0, "x2": 1, "y2": 1}])
    return [
        levels.mark_rule(stroke=hair).encode(x=_x("x"), x2="x2", y=_y("y")),
        uprights.mark_rule(stroke=hair).encode(x=_x("x"), y=_y("y"), y2="y2"),
        diagonal.mark_rule(stroke=palette.title, strokeWidth=1.5, strokeDash=[5, 4]).encode(
            x=_x("x"), x2="x2", y=_y("y"), y2="y2"
        ),
    ]


def _words(figure: Reliability, palette: charts.Palette) -> list[alt.Chart]:
    """What the bars count and how tall the tallest is, to the left of them."""
    most = max(bin_.n for bin_ in figure.bins)
    texts = (
        ("answers", _FLOOR + _BAR_HEIGHT / 2, palette.title),
        (f"{most:,}", _FLOOR + _BAR_HEIGHT, palette.label),
        ("0", _FLOOR, palette.label),
    )
    return [
        charts.plane([{"x": 0, "y": height, "text": text}])
        .mark_text(
            align="right", baseline="middle", dx=-8, font=charts.FONT, fontSize=12, fill=colour
        )
        .encode(x=_x("x"), y=_y("y"), text="text:N")
        for text, height, colour in texts
    ]


def _x(field: str) -> alt.X:
    axis = alt.Axis(title="stated confidence", values=list(_TICKS), titleX=_WIDTH / 2, titleY=36)
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)


def _y(field: str) -> alt.Y:
    middle = _HEIGHT * 0.5 / (1 - _FLOOR)
    axis = alt.Axis(title="accuracy", values=list(_TICKS), titleX=-46, titleY=middle)
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=[_FLOOR, 1], nice=False), axis=axis)
