from __future__ import annotations

import base64
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from gatemark.core.errors import InvalidValueError
from gatemark.core.result import ShiftBin, Shifts
from gatemark.report import charts, html, markdown, outline
from gatemark.report.plane_charts import SHIFT_BINS_MAX, draw_shift, find_shift_span

from .hostile import shifts
from .sample_results import result
from .test_reliability_chart import SVG, marks, words_in

SHIFTS = Shifts(
    title="Shift of every window",
    axis="nats per token",
    bins=tuple(ShiftBin(at, at, at / 100, at / 100, at / 100) for at in range(1, 9)),
    mean=0.02,
    bound=0.05,
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_window_has_a_dot_and_each_line_a_name(theme: charts.Theme) -> None:
    svg = draw_shift(SHIFTS, theme)
    assert [len(layer) for layer in marks(svg, "mark-symbol")] == [8]
    assert [len(layer) for layer in marks(svg, "mark-rule")] == [1, 8, 1, 1]
    texts = [text.text for text in ET.fromstring(svg).iter(SVG + "text")]
    assert {"mean", "budget", "window", "nats per token", "1", "8"} <= set(texts)


def test_every_word_stands_inside_the_picture() -> None:
    root = ET.fromstring(draw_shift(SHIFTS, "light"))
    _, _, width, height = (float(side) for side in root.get("viewBox", "").split())
    for text, x, y in words_in(root, 0.0, 0.0):
        assert 0 < x < width, text
        assert 8 < y < height - 4, text


def test_names_of_close_lines_do_not_stand_on_each_other() -> None:
    close = Shifts("s", "a", SHIFTS.bins, mean=0.0501, bound=0.05)
    root = ET.fromstring(draw_shift(close, "light"))
    places = {text: y for text, _, y in words_in(root, 0.0, 0.0) if text in ("mean", "budget")}
    assert places["budget"] - places["mean"] > 12


def test_worse_windows_stand_higher() -> None:
    dots = marks(draw_shift(SHIFTS, "light"), "mark-symbol")[0]
    heights = []
    for dot in dots:
        found = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", dot.get("transform", ""))
        assert found is not None
        heights.append(float(found[2]))
    assert heights == sorted(heights, reverse=True)


def test_a_picture_repeats_bit_for_bit_and_fetches_nothing() -> None:
    svg = draw_shift(SHIFTS, "dark")
    assert svg == draw_shift(SHIFTS, "dark")
    assert "href" not in svg


def test_windows_that_never_moved_can_be_drawn() -> None:
    still = Shifts("s", "a", (ShiftBin(1, 5, 0.0, 0.0, 0.0),), mean=0.0, bound=None)
    assert find_shift_span(still) == (-1.0, 1.0)
    assert "mark-symbol" in draw_shift(still, "light")


def test_the_page_shows_the_picture_and_folds_the_table() -> None:
    page = html.render(result(figures=(SHIFTS,))).decode()
    drawn = [
        base64.b64decode(found).decode() for found in re.findall(r"svg\+xml;base64,([^\" ]+)", page)
    ]
    assert drawn == [draw_shift(SHIFTS, theme) for theme in ("dark", "light")]
    assert "Shift of 8 windows in order (nats per token): the mean is 0.0200" in page
    assert "Dot: one window." in page
    grouped = Shifts("s", "a", (ShiftBin(1, 9, 0.0, 0.1, 0.2),), mean=0.1, bound=None)
    assert (
        "Dot: the middle of neighbouring windows."
        in html.render(result(figures=(grouped,))).decode()
    )
    text = markdown.render(result(figures=(grouped,))).decode()
    assert "| 1 to 9 | 0.0000 | 0.1000 | 0.2000 |" in text


def test_what_cannot_be_drawn_is_only_listed() -> None:
    many = tuple(ShiftBin(at, at, 0.0, 0.0, 0.0) for at in range(1, SHIFT_BINS_MAX + 2))
    wide = (ShiftBin(1, 1, -1.7e308, 0.0, 1.7e308),)
    for bins in (many, wide):
        page = html.render(result(figures=(Shifts("s", "a", bins, 0.0, None),))).decode()
        assert "<img" not in page


@settings(deadline=None, max_examples=6)
@given(shifts())
def test_any_shifts_can_be_drawn_or_are_told_to_be_too_wide(figure: Shifts) -> None:
    low, high = find_shift_span(figure)
    if math.isfinite(high - low):
        assert ET.fromstring(draw_shift(figure, "light")).tag.endswith("svg")
    else:
        assert "<img" not in html.render(result(figures=(figure,))).decode()


def test_hostile_words_stay_words() -> None:
    nasty = "<script>alert(1)</script> | [a](b) `c`"
    figure = Shifts(nasty, nasty, SHIFTS.bins, 0.0, None)
    page = html.render(result(figures=(figure,))).decode()
    assert "<script" not in page
    assert "<script" not in draw_shift(figure, "light")
    text = markdown.render(result(figures=(figure,))).decode()
    assert "<script" not in text
    assert "[a](b)" not in text


@pytest.mark.parametrize(
    "make",
    [
        lambda: ShiftBin(0, 1, 0.0, 0.0, 0.0),
        lambda: ShiftBin(2, 1, 0.0, 0.0, 0.0),
        lambda: ShiftBin(1, 1, 0.1, 0.0, 0.2),
        lambda: ShiftBin(1, 1, 0.0, math.nan, 0.0),
        lambda: Shifts("s", "a", (), 0.0, None),
        lambda: Shifts("s", "a", (SHIFTS.bins[0], SHIFTS.bins[2]), 0.0, None),
        lambda: Shifts("s", "a", SHIFTS.bins, math.inf, None),
        lambda: Shifts("s", "a", SHIFTS.bins, 0.0, math.nan),
    ],
)
def test_shifts_that_cannot_be_are_refused(make: object) -> None:
    with pytest.raises(InvalidValueError):
        make()  # type: ignore[operator]


def test_windows_on_their_own_need_one_number_and_neighbours_three() -> None:
    grid = outline.figure_grid(SHIFTS, rows_max=5)
    assert (grid.columns, grid.rows[0], grid.more_rows) == (("Window", "Shift"), ("1", "0.0100"), 3)
    grouped = Shifts("s", "a", (ShiftBin(1, 9, 0.0, 0.1, 0.2),), mean=0.1, bound=None)
    grid = outline.figure_grid(grouped, rows_max=5)
    assert grid.columns == ("Windows", "Lowest", "Middle", "Highest")
    assert grid.rows == (("1 to 9", "0.0000", "0.1000", "0.2000"),)
