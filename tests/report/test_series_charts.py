from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import measured
from gatemark.core.result import (
    Curves,
    Figure,
    Forest,
    ForestGroup,
    ForestRow,
    Line,
    Stack,
    Stacks,
    Timeline,
    TimelineSpan,
)
from gatemark.report import charts, outline
from gatemark.report.html import render
from gatemark.report.markdown import render as render_markdown
from gatemark.report.series_charts import draw_curves, draw_forest, draw_stacks, draw_timeline

from .sample_results import result
from .test_reliability_chart import SVG, words_in

CURVES = Curves(
    "Coverage",
    "budget in CTU",
    "coverage",
    (
        Line("V0", ((250, 0.1), (500, 0.2), (1000, 0.25))),
        Line("V1", ((250, 0.1), (1000, 0.25))),
    ),
)
STACKS = Stacks(
    "Flushes",
    "flushes per case",
    ("boundary_cue", "end_of_trace"),
    (Stack("V0", (30.0, 3.0)), Stack("V1", (0.0, 0.0))),
)
TIMELINE = Timeline(
    "One case",
    "seconds",
    ("doctor0", "flushes"),
    (
        TimelineSpan("doctor0", "turn", -1.0, 10.0),
        TimelineSpan("flushes", "boundary_cue", 5.0, 5.0),
        TimelineSpan("flushes", "end_of_trace", 10.0, 10.0, "the last words"),
    ),
)
FOREST = Forest(
    "Shares",
    "share",
    (
        ForestGroup(
            "M4 coverage",
            "higher is better",
            (ForestRow("V0", 0.6, 0.5, 0.7), ForestRow("V1", 0.9, 0.8, 0.95)),
        ),
        ForestGroup("M6b unsupported", "lower is better", (ForestRow("V0", 0.1, 0.1, 0.1),)),
    ),
)
DRAWN = {CURVES: draw_curves, STACKS: draw_stacks, FOREST: draw_forest, TIMELINE: draw_timeline}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("figure", DRAWN, ids=lambda figure: figure.title)
def test_every_word_stands_inside_the_picture(figure: Figure, theme: charts.Theme) -> None:
    root = ET.fromstring(DRAWN[figure](figure, theme))
    _, _, width, height = (float(side) for side in root.get("viewBox", "").split())
    places = list(words_in(root, 0.0, 0.0))
    assert len(places) >= 5
    for text, x, y in places:
        assert 0 < x < width, text
        assert 4 < y < height - 4, text


def texts(svg: str) -> set[str]:
    return {text.text or "" for text in ET.fromstring(svg).iter(SVG + "text")}


def test_lines_bars_and_lanes_are_named() -> None:
    assert {"V0", "V1", "budget in CTU", "coverage", "1,000"} <= texts(draw_curves(CURVES, "light"))
    assert {"V0", "V1", "boundary_cue", "flushes per case", "40"} <= texts(
        draw_stacks(STACKS, "light")
    )
    assert {"doctor0", "flushes", "turn", "seconds"} <= texts(draw_timeline(TIMELINE, "dark"))
    assert {"M4 coverage (higher is better)", "V1", "share"} <= texts(draw_forest(FOREST, "dark"))


def test_names_at_equal_heights_are_moved_apart() -> None:
    root = ET.fromstring(draw_curves(CURVES, "light"))
    heights = {text: y for text, _, y in words_in(root, 0.0, 0.0) if text in ("V0", "V1")}
    assert abs(heights["V0"] - heights["V1"]) > 12


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_series_stand_out_from_the_ground(theme: charts.Theme) -> None:
    ground = charts.PALETTES[theme].ground
    for colour in charts.SERIES[theme]:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        assert charts.compute_contrast((red, green, blue), ground) >= 3
    assert len(set(charts.SERIES[theme])) == len(charts.SERIES[theme])


@pytest.mark.parametrize("figure", DRAWN, ids=lambda figure: figure.title)
def test_pages_show_the_picture_and_the_numbers(figure: Figure) -> None:
    shown = result(figures=(figure,))
    page = render(shown).decode()
    assert page.count("data:image/svg+xml;base64,") >= 2
    grid = outline.figure_grid(figure, rows_max=10)
    assert grid.rows
    assert all(len(row) == len(grid.columns) for row in grid.rows)
    assert all(cell in page for row in grid.rows for cell in row)
    assert figure.title in render_markdown(shown).decode()


def test_an_figure_too_large_to_draw_is_still_a_table() -> None:
    many = Curves("Many", "x", "y", tuple(Line(f"L{at}", ((1.0, 1.0),)) for at in range(9)))
    page = render(result(figures=(many,))).decode()
    assert "data:image" not in page
    assert "L8" in page


def test_tables_are_cut_and_say_so() -> None:
    for figure in DRAWN:
        grid = outline.figure_grid(figure, rows_max=1)
        assert len(grid.rows) == 1
        assert grid.more_rows >= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Curves("t", "x", "y", ()),
        lambda: Curves("t", "x", "y", (Line("a", ()),)),
        lambda: Curves("t", "x", "y", (Line("a", ((2, 0), (1, 0))),)),
        lambda: Curves("t", "x", "y", (Line("a", ((1, math.nan),)),)),
        lambda: Curves("t", "x", "y", (Line("a", ((1, 0),)), Line("a", ((1, 0),)))),
        lambda: Stacks("t", "x", (), (Stack("a", ()),)),
        lambda: Stacks("t", "x", ("p",), ()),
        lambda: Stacks("t", "x", ("p",), (Stack("a", (-1.0,)),)),
        lambda: Stacks("t", "x", ("p",), (Stack("a", (1.0, 2.0)),)),
        lambda: Stacks("t", "x", ("p",), (Stack("a", (math.inf,)),)),
        lambda: Forest("t", "x", ()),
        lambda: Forest("t", "x", (ForestGroup("g", "", ()),)),
        lambda: Forest("t", "x", (ForestGroup("g", "", (ForestRow("a", 0, 1, 0),)),)),
        lambda: Forest("t", "x", (ForestGroup("g", "", (ForestRow("a", math.nan, 0, 1),)),)),
        lambda: Timeline("t", "s", (), (TimelineSpan("a", "k", 0, 1),)),
        lambda: Timeline("t", "s", ("a",), ()),
        lambda: Timeline("t", "s", ("a",), (TimelineSpan("b", "k", 0, 1),)),
        lambda: Timeline("t", "s", ("a",), (TimelineSpan("a", "k", 1, 0),)),
        lambda: Timeline("t", "s", ("a",), (TimelineSpan("a", "k", 0, math.inf),)),
    ],
)
def test_an_figure_that_could_not_be_drawn_cannot_be_made(make) -> None:
    with pytest.raises(InvalidValueError):
        make()


@settings(deadline=None, max_examples=80)
@given(st.floats(-1e6, 1e6, allow_nan=False), st.floats(0, 1e6, allow_nan=False), st.integers(2, 9))
def test_round_ticks_span_their_range(low: float, spread: float, wanted: int) -> None:
    ticks = charts.round_ticks(low, low + spread, wanted)
    assert ticks == sorted(set(ticks))
    assert ticks[0] <= low + 1e-6
    assert ticks[-1] >= low + spread - 1e-6 * max(1.0, spread)
    assert 2 <= len(ticks) <= wanted + 3


def test_a_measurement_with_a_lane_is_told_from_its_siblings() -> None:
    numbers = tuple(
        measured("m4_trace_coverage", 0.5, n=3, direction="higher_is_better", scope=scope)
        for scope in ("V0", "V1")
    )
    page = render(result(figures=(CURVES,), measurements=numbers)).decode()
    assert page.count('class="scope"') == 2
