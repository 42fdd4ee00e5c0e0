from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from gatemark.core.result import Reliability, ReliabilityBin
from gatemark.report import charts
from gatemark.report.plane_charts import CHART_BINS_MAX, draw_reliability, mix_bar_colour

from .hostile import reliabilities
from .sample_results import RELIABILITY

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {SVG + name for name in ("svg", "g", "path", "line", "text", "rect", "tspan")}


def marks(svg: str, kind: str) -> list[list[ET.Element]]:
    """The shapes of each layer of one kind that is drawn from data."""
    groups = [g for g in ET.fromstring(svg).iter(SVG + "g") if f"{kind} " in g.get("class", "")]
    return [list(group) for group in groups if "role-mark" in group.get("class", "")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_bin_with_answers_has_a_dot_and_every_interval_a_line(theme: charts.Theme) -> None:
    svg = draw_reliability(RELIABILITY, theme)
    assert [len(layer) for layer in marks(svg, "mark-symbol")] == [3]
    levels, uprights, diagonal, spans = (len(layer) for layer in marks(svg, "mark-rule"))
    assert (levels, uprights, diagonal, spans) == (7, 6, 1, 2)
    bars, *caps = (len(layer) for layer in marks(svg, "mark-rect"))
    assert (bars, caps) == (4, [2, 2])


def test_axes_and_the_tallest_bar_are_named() -> None:
    root = ET.fromstring(draw_reliability(RELIABILITY, "light"))
    texts = [text.text for text in root.iter(SVG + "text")]
    assert {"stated confidence", "accuracy", "answers", "1,180", "0.0", "1.0"} <= set(texts)


def test_every_word_stands_inside_the_picture() -> None:
    root = ET.fromstring(draw_reliability(RELIABILITY, "light"))
    _, _, width, height = (float(side) for side in root.get("viewBox", "").split())
    places = list(words_in(root, 0.0, 0.0))
    assert "stated confidence" in [text for text, _, _ in places]
    for text, x, y in places:
        assert 0 < x < width, text
        assert 8 < y < height - 4, text


def words_in(element: ET.Element, x: float, y: float) -> Iterator[tuple[str, float, float]]:
    """Every text below an element with the place its moves add up to."""
    move = re.match(r"translate\((-?[\d.]+),(-?[\d.]+)\)", element.get("transform", ""))
    if move is not None:
        x, y = x + float(move[1]), y + float(move[2])
    if element.tag == SVG + "text":
        yield element.text or "", x, y
    for child in element:
        yield from words_in(child, x, y)


def test_dots_stand_at_their_rates() -> None:
    def place(confidence: float, accuracy: float) -> tuple[float, float]:
        bin_ = ReliabilityBin(0.0, 1.0, 5, confidence, accuracy, None, None)
        svg = draw_reliability(Reliability("r", (bin_,)), "light")
        found = re.match(
            r"translate\(([\d.]+),([\d.]+)\)", marks(svg, "mark-symbol")[0][0].get("transform", "")
        )
        assert found is not None
        return float(found[1]), float(found[2])

    (left, bottom), (right, top) = place(0.0, 0.0), place(1.0, 1.0)
    assert (left, top) == (0.0, 0.0)
    x, y = place(0.75, 0.5)
    assert x == pytest.approx(0.75 * right)
    assert y == pytest.approx(bottom / 2, abs=0.01)


def test_the_two_themes_differ_and_each_is_the_same_twice() -> None:
    light, dark = draw_reliability(RELIABILITY, "light"), draw_reliability(RELIABILITY, "dark")
    assert light != dark
    assert light == draw_reliability(RELIABILITY, "light")


def test_a_picture_names_no_address_but_its_namespaces() -> None:
    svg = draw_reliability(RELIABILITY, "light")
    assert set(re.findall(r"\w+://[^\"' ]+", svg)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "href=" not in svg


@pytest.mark.parametrize("palette", charts.PALETTES.values())
def test_shapes_and_words_stand_out_from_the_ground(palette: charts.Palette) -> None:
    assert charts.compute_contrast(mix_bar_colour(palette), palette.ground) >= 3
    assert charts.compute_contrast(palette.full, palette.ground) >= 3
    for colour in (palette.label, palette.title):
        red, green, blue = bytes.fromhex(colour.removeprefix("#"))
        assert charts.compute_contrast((red, green, blue), palette.ground) >= 4.5


def test_one_bin_and_the_most_bins_can_be_drawn() -> None:
    for count in (1, CHART_BINS_MAX):
        bins = tuple(
            ReliabilityBin(at / count, (at + 1) / count, 1, at / count, 0.5, 0.0, 1.0)
            for at in range(count)
        )
        svg = draw_reliability(Reliability("r", bins), "dark")
        assert len(marks(svg, "mark-symbol")[0]) == count


@settings(deadline=None, max_examples=12)
@given(reliabilities())
def test_any_bins_leave_the_picture_well_formed(figure: Reliability) -> None:
    svg = draw_reliability(figure, "dark")
    root = ET.fromstring(svg)
    assert {element.tag for element in root.iter()} <= TAGS
    assert "NaN" not in svg
