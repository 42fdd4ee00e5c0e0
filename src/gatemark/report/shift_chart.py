"""How far every window moved, in order, as SVG: dots, or ranges where windows are many."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from gatemark.core.figure import Shifts
from gatemark.report import charts, words

CHART_BINS_MAX: Final = 2_000

_WIDTH: Final = 640
_HEIGHT: Final = 300
_PADDING: Final = {"left": 84, "top": 14, "right": 96, "bottom": 46}
_HEADROOM: Final = 0.06
_LABEL_GAP: Final = 0.055


def shift_svg(figure: Shifts, theme: charts.Theme) -> str:
    """Shifts by position with lines at zero, at the mean and at the bound."""
    palette = charts.PALETTES[theme]
    low, high = span(figure)
    scale = alt.Scale(domain=[low, high], nice=False)
    last = figure.bins[-1].last
    x_scale = alt.Scale(domain=[0.5, last + 0.5], nice=False)
    dot = charts.hex_colour(palette.full)
    soft = charts.hex_colour(charts.between(palette.ground, palette.full, 0.45))
    ticks = sorted({1, *(round(1 + (last - 1) * share / 4) for share in range(1, 4)), last})
    x_axis = alt.Axis(
        title="window", values=ticks, format=",d", titleX=_WIDTH / 2, titleY=36, **_style(palette)
    )
    y_axis = alt.Axis(
        title=words.shortened(words.one_line(figure.axis), 60),
        tickCount=6,
        format="~g",
        titleX=-66,
        titleY=_HEIGHT / 2,
        titleAngle=-90,
        **_style(palette),
    )
    middle = {
        "x": alt.X("at:Q", scale=x_scale, axis=x_axis),
        "y": alt.Y("middle:Q", scale=scale, axis=y_axis),
    }
    bins = alt.Chart(alt.InlineData(values=_rows(figure)))
    ranges = alt.Y("low:Q", scale=scale, axis=y_axis)
    size = 30 if len(figure.bins) <= 120 else 14
    layers = [
        _line(0.0, scale, charts.hex_colour(charts.between(palette.ground, palette.full, 0.3))),
        bins.mark_rule(stroke=soft, strokeWidth=2).encode(x=middle["x"], y=ranges, y2="high"),
        bins.mark_circle(fill=dot, fillOpacity=0.9, size=size).encode(**middle),
        *_named_lines(figure, scale, palette),
    ]
    chart = alt.layer(*layers).properties(
        width=_WIDTH, height=_HEIGHT, padding=_PADDING, autosize={"type": "none"}
    )
    return charts.svg(chart.configure(background="transparent").configure_view(strokeOpacity=0))


def span(figure: Shifts) -> tuple[float, float]:
    """The range of the plane: every shift and every line, and some air."""
    values = [0.0, figure.mean, *(end for bin_ in figure.bins for end in (bin_.low, bin_.high))]
    if figure.bound is not None:
        values.append(figure.bound)
    low, high = min(values), max(values)
    air = (high - low) * _HEADROOM or 1.0
    return low - air, high + air


def _rows(figure: Shifts) -> list[dict[str, Any]]:
    return [
        {
            "at": (bin_.first + bin_.last) / 2,
            "low": bin_.low,
            "middle": bin_.middle,
            "high": bin_.high,
        }
        for bin_ in figure.bins
    ]


def _named_lines(figure: Shifts, scale: alt.Scale, palette: charts.Palette) -> list[alt.Chart]:
    """The mean and the bound with their names at the right; names never stand on each other."""
    low, high = span(figure)
    gap = (high - low) * _LABEL_GAP
    named: list[tuple[str, float, list[int], str]] = [("mean", figure.mean, [], palette.label)]
    if figure.bound is not None:
        named.append(("budget", figure.bound, [6, 4], palette.title))
    places = {name: at for name, at, _, _ in named}
    if len(named) == 2 and abs(figure.mean - named[1][1]) < gap:
        up = gap / 2 if figure.mean >= named[1][1] else -gap / 2
        middle = (figure.mean + named[1][1]) / 2
        places = {"mean": middle + up, "budget": middle - up}
    layers: list[alt.Chart] = []
    for name, at, dash, colour in named:
        layers.append(_line(at, scale, colour, dash, width=1.5))
        text = alt.Chart(alt.InlineData(values=[{"y": places[name], "text": name}])).mark_text(
            align="left", baseline="middle", dx=8, font=charts.FONT, fontSize=12, fill=colour
        )
        layers.append(
            text.encode(x=alt.value(_WIDTH), y=alt.Y("y:Q", scale=scale), text=alt.Text("text:N"))
        )
    return layers


def _line(
    at: float,
    scale: alt.Scale,
    colour: str,
    dash: list[int] | None = None,
    *,
    width: float = 1.0,
) -> alt.Chart:
    rule: alt.Chart = alt.Chart(alt.InlineData(values=[{"y": at}]))
    rule = rule.mark_rule(stroke=colour, strokeWidth=width, strokeDash=dash or [1, 0])
    return rule.encode(y=alt.Y("y:Q", scale=scale), x=alt.value(0), x2=alt.value(_WIDTH))


def _style(palette: charts.Palette) -> dict[str, Any]:
    return {
        "domain": False,
        "grid": False,
        "ticks": False,
        "labelColor": palette.label,
        "labelFont": charts.FONT,
        "labelFontSize": 12,
        "labelLimit": 0,
        "labelOverlap": False,
        "labelBound": False,
        "labelFlush": False,
        "labelPadding": 8,
        "titleAlign": "center",
        "titleBaseline": "middle",
        "titleColor": palette.title,
        "titleFont": charts.FONT,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleLimit": 0,
    }
