from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.result import Matrix
from gatemark.report import charts, plane_charts

from .hostile import matrices
from .sample_results import MATRIX

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {SVG + name for name in ("svg", "g", "path", "line", "text", "rect", "tspan")}


def texts_of(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(SVG + "text")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_heat_map_shows_every_count_label_and_axis(theme: charts.Theme) -> None:
    texts = texts_of(plane_charts.draw_matrix(MATRIX, theme))
    counts = [str(count) for row in MATRIX.counts for count in row]
    assert texts[:9] == counts
    assert {*MATRIX.labels, "scholar", "auditor"} <= set(texts)


def test_the_two_themes_differ_and_each_is_the_same_twice() -> None:
    light, dark = (
        plane_charts.draw_matrix(MATRIX, "light"),
        plane_charts.draw_matrix(MATRIX, "dark"),
    )
    assert light != dark
    assert light == plane_charts.draw_matrix(MATRIX, "light")


def test_a_picture_names_no_address_but_its_namespaces() -> None:
    svg = plane_charts.draw_matrix(MATRIX, "light")
    assert set(re.findall(r"\w+://[^\"' ]+", svg)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "href=" not in svg


def test_labels_that_look_alike_keep_their_own_rows() -> None:
    twice = Matrix("t", "r", "c", ("a", "a"), ((1, 2), (3, 4)))
    assert {"1", "2", "3", "4", "a", "a (2)"} <= set(
        texts_of(plane_charts.draw_matrix(twice, "light"))
    )
    assert charts.number_repeats(["a", "a", "a (2)", "a"]) == ["a", "a (2)", "a (2) (2)", "a (3)"]


def test_a_large_matrix_is_drawn_without_words_in_its_cells() -> None:
    size = plane_charts.CHART_LABELS_MAX
    counts = tuple(tuple(7000 + row for _ in range(size)) for row in range(size))
    big = Matrix("t", "r", "c", tuple(f"l{at}" for at in range(size)), counts)
    texts = texts_of(plane_charts.draw_matrix(big, "light"))
    assert "7,000" not in texts
    assert "l39" in texts


@pytest.mark.parametrize("theme", ["light", "dark"])
@given(share=st.floats(0, 1))
def test_counts_can_be_read_on_every_shade(theme: charts.Theme, share: float) -> None:
    palette = charts.PALETTES[theme]
    fill = charts.mix_colours(palette.empty, palette.full, share)
    assert max(charts.compute_contrast(ink, fill) for ink in plane_charts._INKS) >= 4.5


def test_contrast_is_the_wcag_ratio() -> None:
    assert charts.compute_contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert charts.compute_contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(
        4.48, abs=0.005
    )


@settings(deadline=None, max_examples=12)
@given(matrices())
def test_any_label_leaves_the_picture_well_formed(matrix: Matrix) -> None:
    root = ET.fromstring(plane_charts.draw_matrix(matrix, "dark"))
    assert {element.tag for element in root.iter()} <= TAGS
    names = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name]
