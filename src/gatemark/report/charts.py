"""The chart engine: turn Vega-Lite specifications into SVG, offline and reproducibly.

Every chart of a report is drawn here, in a light and a dark theme. Sizes, positions and colours are
fixed, so the fonts of a machine cannot change the output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import altair as alt
import msgspec
import vl_convert

from gatemark.report import words

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
Theme = Literal["light", "dark"]
Colour = tuple[int, int, int]
Rows = Sequence[Mapping[str, object]]
"""The data of a chart: one mapping per mark."""

NAME_MAX: Final = 18
LETTER_PX: Final = 6.9
_KEY_PX: Final = 22


class Palette(msgspec.Struct, frozen=True):
    """The colours of one theme: empty cell, fullest cell, background, labels and titles."""

    empty: Colour
    full: Colour
    ground: Colour
    label: str
    title: str


PALETTES: Final[dict[Theme, Palette]] = {
    "light": Palette((239, 242, 246), (24, 78, 128), (255, 255, 255), "#20262d", "#56606b"),
    "dark": Palette((38, 44, 52), (134, 190, 240), (27, 31, 36), "#e6e9ec", "#a7b1bc"),
}
# The colours also differ in lightness, for readers who cannot tell the hues apart. Each has a
# contrast of at least three to its background.
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


def number_repeats(labels: Sequence[str]) -> list[str]:
    """Number repeated labels, so that an axis keeps them apart."""
    seen: set[str] = set()
    kept = []
    for label in labels:
        name, copy = label, 2
        while name in seen:
            name, copy = f"{label} ({copy})", copy + 1
        seen.add(name)
        kept.append(name)
    return kept


def compute_contrast(left: Colour, right: Colour) -> float:
    """Return the WCAG contrast ratio of two colours."""
    lighter, darker = sorted((_compute_luminance(left), _compute_luminance(right)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mix_colours(start: Colour, end: Colour, share: float) -> Colour:
    """Mix two colours: a share of 0 gives the first, 1 the second."""
    red, green, blue = (
        round(low + (high - low) * share) for low, high in zip(start, end, strict=True)
    )
    return red, green, blue


def _style_axis(palette: Palette, number_format: str) -> dict[str, object]:
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


def make_plane(rows: Rows) -> alt.Chart:
    """Return an empty chart over some rows."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def round_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers from at or below ``low`` to at or above ``high``."""
    spread = high - low
    if not spread > 1e-9 * max(1e-9, abs(low), abs(high)):
        return [low, low + max(1.0, abs(low))]
    rough = spread / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * size for size in (1, 2, 2.5, 5) if rough <= power * size), power * 10)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    decimals = 3 - math.floor(math.log10(step))
    return [round(step * count, decimals) for count in range(first, last + 1)]


def format_hex(colour: Colour) -> str:
    """Return a colour as ``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _compute_luminance(colour: Colour) -> float:
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def draw_colour_key(
    colours: Mapping[str, str], palette: Palette, width: float
) -> tuple[list[alt.Chart], float]:
    """Draw a colour key above a chart; return its layers and height."""
    squares: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    left, row = 0.0, 0
    for part, colour in colours.items():
        name = shorten_label(part, 30)
        wide = 44 + len(name) * LETTER_PX
        if left and left + wide > width:
            left, row = 0.0, row + 1
        squares.append({"x": left + 6, "y": row, "fill": colour})
        texts.append({"x": left + 18, "y": row, "text": name})
        left += wide
    for entry in (*squares, *texts):
        entry["y"] = -10 - _KEY_PX * (row - entry["y"])
    at = encode_pixels()
    marks = make_plane(squares).mark_square(size=130, opacity=1)
    parts = [marks.encode(**at, fill=alt.Fill("fill:N", scale=None)), draw_labels(texts, palette)]
    return parts, 12.0 + _KEY_PX * (row + 1)


def draw_labels(
    rows: Rows,
    palette: Palette,
    align: Literal["left", "right"] = "left",
) -> alt.Chart:
    """Draw texts at positions in pixels."""
    mark = make_plane(rows).mark_text(
        align=align, baseline="middle", font=FONT, fontSize=12, fill=palette.label
    )
    labels: alt.Chart = mark.encode(**encode_pixels(), text="text:N")
    return labels


def encode_pixels() -> dict[str, alt.X | alt.Y]:
    """Return x and y encodings in pixels, without axes."""
    return {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}


def draw_hairlines(
    ticks: Sequence[float], x: alt.X | alt.Y, height: float, palette: Palette
) -> alt.Chart:
    """Draw thin vertical lines at the ticks."""
    hair = format_hex(mix_colours(palette.ground, palette.full, 0.16))
    rows = [{"x": tick, "y": 0, "y2": height} for tick in ticks]
    y = encode_pixels()["y"]
    lines: alt.Chart = make_plane(rows).mark_rule(stroke=hair).encode(x=x, y=y, y2="y2")
    return lines


def draw_svg(
    layers: Sequence[alt.Chart],
    palette: Palette,
    size: tuple[float, float],
    padding: Mapping[str, float],
    number_format: str = ",~r",
) -> str:
    """Draw layers on one chart of a fixed size; raise if that would need the network."""
    # Put together here: ``alt.layer`` copies and checks all layers again and again, which takes
    # longer than to draw them.
    datasets: dict[str, object] = {}
    context = {"top_level": False, "datasets": datasets}
    view = {"strokeOpacity": 0, "clip": False}
    axis = _style_axis(palette, number_format)
    specification = {
        "$schema": alt.SCHEMA_URL,
        "width": size[0],
        "height": size[1],
        "padding": dict(padding),
        "autosize": {"type": "none"},
        "layer": [layer.to_dict(validate=False, context=context) for layer in layers],
        "datasets": datasets,
        "config": {"background": "transparent", "view": view, "axis": axis},
    }
    return str(vl_convert.vegalite_to_svg(specification, allowed_base_urls=[]))


def make_number_axis(
    channel: Literal["x", "y"],
    title: str,
    ticks: Sequence[float],
    domain: tuple[float, float],
    title_place: tuple[float, float],
) -> alt.X | alt.Y:
    """Return a numeric axis with ticks at given values."""
    axis = alt.Axis(
        title=shorten_label(title, 40),
        values=list(ticks),
        titleX=title_place[0],
        titleY=title_place[1],
    )
    scale = alt.Scale(domain=list(domain), nice=False, zero=False)
    made = alt.X if channel == "x" else alt.Y
    return made(f"{channel}:Q", scale=scale, axis=axis)


def shorten_label(text: str, limit: int = NAME_MAX) -> str:
    """Shorten a text to one line that fits a label."""
    return words.shortened(words.one_line(text), limit)
