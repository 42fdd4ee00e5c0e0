"""Charts of matrices, reliability bins and shifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import altair as alt

from gatemark.core.result import Matrix, Reliability, Shifts
from gatemark.report import charts

CHART_LABELS_MAX: Final = 40
CHART_BINS_MAX: Final = 100
SHIFT_BINS_MAX: Final = 2_000

_MATRIX_LETTER_PX: Final = 6.6
# Black or white text has a contrast of at least 4.58 on any colour.
_INKS: Final[tuple[charts.Colour, charts.Colour]] = ((0, 0, 0), (255, 255, 255))


def draw_matrix(matrix: Matrix, theme: charts.Theme) -> str:
    """Draw a matrix as a heat map with the count in each cell."""
    palette = charts.PALETTES[theme]
    labels = charts.number_repeats([charts.shorten_label(t) for t in matrix.labels])
    side = _choose_cell_side(len(labels))
    size = side * len(labels)
    longest = math.ceil(max((len(label) for label in labels), default=0) * _MATRIX_LETTER_PX)
    angle = 0 if longest <= side - 4 else -40 if side >= 32 else -90
    left = longest + 40
    top = {0: 52, -40: math.ceil(longest * 0.72) + 38, -90: longest + 36}[angle]
    base = charts.make_plane(_make_cells(matrix, labels, palette)).encode(
        x=alt.X(
            "column:N",
            sort=None,
            scale=alt.Scale(domain=labels, paddingInner=0.04),
            axis=_make_axis(matrix.column_axis, "top", (size / 2, 12 - top), angle=angle),
        ),
        y=alt.Y(
            "row:N",
            sort=None,
            scale=alt.Scale(domain=labels, paddingInner=0.04),
            axis=_make_axis(matrix.row_axis, "left", (14 - left, size / 2)),
        ),
    )
    layers = [base.mark_rect(cornerRadius=2).encode(fill=alt.Fill("fill:N", scale=None))]
    if side >= 32:
        text = base.mark_text(fontSize=13, font=charts.FONT, baseline="middle")
        layers.append(
            text.encode(text=alt.Text("count:Q", format=",d"), fill=alt.Fill("ink:N", scale=None))
        )
    padding = {"left": left, "top": top, "right": longest // 2 + 12, "bottom": 8}
    return charts.draw_svg(layers, palette, (size, size), padding)


def _make_cells(matrix: Matrix, labels: Sequence[str], palette: charts.Palette) -> charts.Rows:
    top = max((count for row in matrix.counts for count in row), default=0)
    cells = []
    for row, counts in zip(labels, matrix.counts, strict=True):
        for column, count in zip(labels, counts, strict=True):
            # The square root keeps rare disagreements visible alongside a full diagonal.
            fill = charts.mix_colours(
                palette.empty, palette.full, (count / top) ** 0.5 if count > 0 else 0
            )
            ink = max(_INKS, key=lambda colour: charts.compute_contrast(colour, fill))
            cells.append(
                {
                    "row": row,
                    "column": column,
                    "count": count,
                    "fill": charts.format_hex(fill),
                    "ink": charts.format_hex(ink),
                }
            )
    return cells


def _choose_cell_side(label_count: int) -> int:
    for most, side in ((4, 76), (8, 56), (16, 40)):
        if label_count <= most:
            return side
    return 18


def _make_axis(
    title: str,
    orient: Literal["top", "left"],
    title_place: tuple[float, float],
    *,
    angle: int = 0,
) -> alt.Axis:
    return alt.Axis(
        title=charts.shorten_label(title, 40) or None,
        orient=orient,
        format="",
        labelAngle=angle,
        labelAlign="left" if angle else "center" if orient == "top" else "right",
        labelBaseline="middle" if orient == "left" or angle == -90 else "bottom",
        titleX=title_place[0],
        titleY=title_place[1],
    )


_BINS_WIDTH: Final = 380
_BINS_HEIGHT: Final = 480
# In units of accuracy: the bars start at the bottom of the chart and end well below accuracy 0.
_FLOOR: Final = -0.26
_BAR_HEIGHT: Final = 0.18
_TICKS: Final = (0, 0.2, 0.4, 0.6, 0.8, 1)
_DOT_AREA_MIN: Final = 36
_DOT_AREA_MAX: Final = 320
_BINS_PADDING: Final = {"left": 64, "top": 14, "right": 20, "bottom": 46}


def draw_reliability(figure: Reliability, theme: charts.Theme) -> str:
    """Draw accuracy against stated confidence, above the number of answers per bin."""
    palette = charts.PALETTES[theme]
    dot = charts.format_hex(palette.full)
    dots = charts.make_plane([row for row in _make_bin_rows(figure) if row["n"]])
    spans = charts.make_plane(
        [row for row in _make_bin_rows(figure) if row["interval_low"] is not None]
    )
    place = {"x": _encode_x("confidence"), "y": _encode_y("accuracy")}
    layers = [
        *_draw_ground(palette),
        charts.make_plane(_make_bin_rows(figure))
        .mark_rect(fill=charts.format_hex(mix_bar_colour(palette)))
        .encode(x=_encode_x("left"), x2="right", y=_encode_y("floor"), y2="top"),
        *_draw_bar_labels(figure, palette),
        spans.mark_rule(stroke=dot, strokeWidth=2).encode(
            x=_encode_x("confidence"), y=_encode_y("interval_low"), y2="interval_high"
        ),
        *(
            spans.mark_tick(orient="horizontal", size=9, thickness=1.5, fill=dot).encode(
                x=_encode_x("confidence"), y=_encode_y(end)
            )
            for end in ("interval_low", "interval_high")
        ),
        dots.mark_circle(
            fill=dot, fillOpacity=1, stroke=charts.format_hex(palette.ground), strokeWidth=1.5
        ).encode(**place, size=alt.Size("area:Q", scale=None)),
    ]
    size = (_BINS_WIDTH, _BINS_HEIGHT)
    return charts.draw_svg(layers, palette, size, _BINS_PADDING, ".1f")


def mix_bar_colour(palette: charts.Palette) -> charts.Colour:
    """Return the colour of bars: softer than the dots, with a contrast of 3 to the background."""
    return charts.mix_colours(palette.ground, palette.full, 0.65)


def _make_bin_rows(figure: Reliability) -> charts.Rows:
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


def _draw_ground(palette: charts.Palette) -> list[alt.Chart]:
    """Draw hairlines at the ticks and the dashed line of perfect calibration."""
    hair = charts.format_hex(charts.mix_colours(palette.ground, palette.full, 0.16))
    levels = charts.make_plane([{"x": 0, "x2": 1, "y": tick} for tick in (*_TICKS, _FLOOR)])
    uprights = charts.make_plane([{"x": tick, "y": 0, "y2": 1} for tick in _TICKS])
    diagonal = charts.make_plane([{"x": 0, "y": 0, "x2": 1, "y2": 1}])
    return [
        levels.mark_rule(stroke=hair).encode(x=_encode_x("x"), x2="x2", y=_encode_y("y")),
        uprights.mark_rule(stroke=hair).encode(x=_encode_x("x"), y=_encode_y("y"), y2="y2"),
        diagonal.mark_rule(stroke=palette.title, strokeWidth=1.5, strokeDash=[5, 4]).encode(
            x=_encode_x("x"), x2="x2", y=_encode_y("y"), y2="y2"
        ),
    ]


def _draw_bar_labels(figure: Reliability, palette: charts.Palette) -> list[alt.Chart]:
    """Label the bars on the left: what they count, and the largest count."""
    most = max(bin_.n for bin_ in figure.bins)
    texts = (
        ("answers", _FLOOR + _BAR_HEIGHT / 2, palette.title),
        (f"{most:,}", _FLOOR + _BAR_HEIGHT, palette.label),
        ("0", _FLOOR, palette.label),
    )
    return [
        charts.make_plane([{"x": 0, "y": height, "text": text}])
        .mark_text(
            align="right", baseline="middle", dx=-8, font=charts.FONT, fontSize=12, fill=colour
        )
        .encode(x=_encode_x("x"), y=_encode_y("y"), text="text:N")
        for text, height, colour in texts
    ]


def _encode_x(field: str) -> alt.X:
    axis = alt.Axis(
        title="stated confidence", values=list(_TICKS), titleX=_BINS_WIDTH / 2, titleY=36
    )
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)


def _encode_y(field: str) -> alt.Y:
    middle = _BINS_HEIGHT * 0.5 / (1 - _FLOOR)
    axis = alt.Axis(title="accuracy", values=list(_TICKS), titleX=-46, titleY=middle)
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=[_FLOOR, 1], nice=False), axis=axis)


_SHIFTS_WIDTH: Final = 640
_SHIFTS_HEIGHT: Final = 300
_SHIFTS_PADDING: Final = {"left": 84, "top": 14, "right": 96, "bottom": 46}
_HEADROOM: Final = 0.06
_LABEL_GAP: Final = 0.055


def draw_shift(figure: Shifts, theme: charts.Theme) -> str:
    """Draw shifts by position, with lines at zero, at the mean and at the bound."""
    palette = charts.PALETTES[theme]
    low, high = find_shift_span(figure)
    scale = alt.Scale(domain=[low, high], nice=False)
    last = figure.bins[-1].last
    x_scale = alt.Scale(domain=[0.5, last + 0.5], nice=False)
    dot = charts.format_hex(palette.full)
    soft = charts.format_hex(charts.mix_colours(palette.ground, palette.full, 0.45))
    ticks = sorted({1, *(round(1 + (last - 1) * share / 4) for share in range(1, 4)), last})
    x_axis = alt.Axis(
        title="window", values=ticks, format=",d", titleX=_SHIFTS_WIDTH / 2, titleY=36
    )
    y_axis = alt.Axis(
        title=charts.shorten_label(figure.axis, 60),
        tickCount=6,
        format="~g",
        titleX=-66,
        titleY=_SHIFTS_HEIGHT / 2,
        titleAngle=-90,
    )
    middle = {
        "x": alt.X("at:Q", scale=x_scale, axis=x_axis),
        "y": alt.Y("middle:Q", scale=scale, axis=y_axis),
    }
    bins = charts.make_plane(_make_shift_rows(figure))
    ranges = alt.Y("low:Q", scale=scale, axis=y_axis)
    size = 30 if len(figure.bins) <= 120 else 14
    layers = [
        _draw_line(
            0.0, scale, charts.format_hex(charts.mix_colours(palette.ground, palette.full, 0.3))
        ),
        bins.mark_rule(stroke=soft, strokeWidth=2).encode(x=middle["x"], y=ranges, y2="high"),
        bins.mark_circle(fill=dot, fillOpacity=0.9, size=size).encode(**middle),
        *_draw_named_lines(figure, scale, palette),
    ]
    return charts.draw_svg(layers, palette, (_SHIFTS_WIDTH, _SHIFTS_HEIGHT), _SHIFTS_PADDING)


def find_shift_span(figure: Shifts) -> tuple[float, float]:
    """Return the range of the y axis: all shifts and lines, with some room."""
    values = [0.0, figure.mean, *(end for bin_ in figure.bins for end in (bin_.low, bin_.high))]
    if figure.bound is not None:
        values.append(figure.bound)
    low, high = min(values), max(values)
    air = (high - low) * _HEADROOM or 1.0
    return low - air, high + air


def _make_shift_rows(figure: Shifts) -> charts.Rows:
    return [
        {
            "at": (bin_.first + bin_.last) / 2,
            "low": bin_.low,
            "middle": bin_.middle,
            "high": bin_.high,
        }
        for bin_ in figure.bins
    ]


def _draw_named_lines(figure: Shifts, scale: alt.Scale, palette: charts.Palette) -> list[alt.Chart]:
    """Draw the mean and the bound with labels on the right that do not overlap."""
    low, high = find_shift_span(figure)
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
        layers.append(_draw_line(at, scale, colour, dash, width=1.5))
        text = charts.make_plane([{"y": places[name], "text": name}]).mark_text(
            align="left", baseline="middle", dx=8, font=charts.FONT, fontSize=12, fill=colour
        )
        layers.append(
            text.encode(
                x=alt.value(_SHIFTS_WIDTH), y=alt.Y("y:Q", scale=scale), text=alt.Text("text:N")
            )
        )
    return layers


def _draw_line(
    at: float,
    scale: alt.Scale,
    colour: str,
    dash: list[int] | None = None,
    *,
    width: float = 1.0,
) -> alt.Chart:
    rule: alt.Chart = charts.make_plane([{"y": at}])
    rule = rule.mark_rule(stroke=colour, strokeWidth=width, strokeDash=dash or [1, 0])
    return rule.encode(y=alt.Y("y:Q", scale=scale), x=alt.value(0), x2=alt.value(_SHIFTS_WIDTH))
