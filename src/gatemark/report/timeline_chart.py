"""What happened when in one case, lane by lane, as SVG."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from gatemark.core.figure import Timeline
from gatemark.report import charts, words
from gatemark.report.series_charts import (
    colour_key,
    drawn,
    hair_uprights,
    label_texts,
    number_axis,
    pixel_place,
)

LANES_MAX: Final = 20
SPANS_MAX: Final = 2_000

_WIDTH: Final = 640
_LANE_PX: Final = 34
_LETTER_PX: Final = 6.9
_NAME_MAX: Final = 18


def timeline_svg(figure: Timeline, theme: charts.Theme) -> str:
    """Spans as bars, moments as ticks; the kinds are keyed by colour above them."""
    palette = charts.PALETTES[theme]
    lanes = charts.distinct(
        [words.shortened(words.one_line(lane), _NAME_MAX) for lane in figure.lanes]
    )
    series = charts.SERIES[theme]
    kinds = dict.fromkeys(span.kind for span in figure.spans)
    colours = {kind: series[at % len(series)] for at, kind in enumerate(kinds)}
    start = min(0.0, *(span.start for span in figure.spans))
    ticks = charts.round_ticks(start, max(span.end for span in figure.spans), 8)
    height = _LANE_PX * len(lanes)
    x = number_axis("x", figure.axis, ticks, (ticks[0], ticks[-1]), (_WIDTH / 2, 40))
    bars, moments = _marks(figure, colours)
    across = {"x": x, "y": pixel_place()["y"], "y2": "y2"}
    names = [{"x": -10, "y": (at + 0.5) * _LANE_PX, "text": lane} for at, lane in enumerate(lanes)]
    key, top = colour_key(colours, palette, _WIDTH)
    layers = [
        hair_uprights(ticks, x, height, palette),
        charts.plane(bars)
        .mark_rect(opacity=0.9, stroke=charts.hex_colour(palette.ground), strokeWidth=0.5)
        .encode(**across, x2="x2", fill=alt.Fill("fill:N", scale=None)),
        charts.plane(moments)
        .mark_rule(strokeWidth=2)
        .encode(**across, stroke=alt.Stroke("fill:N", scale=None)),
        label_texts(names, palette, "right"),
        *key,
    ]
    left = max(len(lane) for lane in lanes) * _LETTER_PX + 24
    padding = {"left": left, "top": top, "right": 24, "bottom": 52}
    return drawn(layers, palette, (_WIDTH, height), padding)


def _marks(
    figure: Timeline, colours: dict[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
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
