from __future__ import annotations

import base64
import itertools
import re
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from gatemark.core.measurement import Measurement, measured
from gatemark.core.result import Matrix, Reliability, ReliabilityBin, Result, Table
from gatemark.report import charts, plane_charts, words
from gatemark.report.html import render

from .hostile import hostile_results
from .sample_results import (
    BARE,
    FAILING,
    INCONCLUSIVE,
    LOW_KAPPA,
    MATRIX,
    PASSING,
    RELIABILITY,
    SAMPLES,
    WAIVED,
    result,
)

VOID = {"meta", "img", "source", "br", "hr"}
SVG_LEAVES = {"line", "rect", "circle", "path"}


class Page(HTMLParser):
    """A strict reader: every tag closes in order; text is kept by the tags around it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.source = data.decode()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        assert len({name for name, _ in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_LEAVES
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def text(self, tag: str = "") -> str:
        return "".join(text for at, text in self.texts if at != "style" and (not tag or at == tag))


@cache
def page_of(name: str) -> Page:
    """The page of a sample result, drawn once."""
    return Page(render(SAMPLES[name]))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_page_needs_nothing_from_anywhere(name: str) -> None:
    page = page_of(name)
    assert "http://" not in page.source
    assert "https://" not in page.source
    assert "script" not in page.tags
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] in ("href", "style")]
    for _, attribute, value in page.attributes:
        if attribute in ("src", "srcset"):
            assert value.startswith("data:image/svg+xml;base64,")
    policy = next(value for _, name, value in page.attributes if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert page.source.startswith(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    )
    assert "url(" not in page.source
    assert "@import" not in page.source


@pytest.mark.parametrize(
    ("name", "word"),
    [("passing", "PASS"), ("failing", "FAIL"), ("inconclusive", "INCONCLUSIVE")],
)
def test_the_verdict_word_opens_the_page(name: str, word: str) -> None:
    body = page_of(name).source.partition("<body>")[2]
    visible = [text for _, text in Page(f"<body>{body}".replace("</html>", "").encode()).texts]
    assert next(text.strip() for text in visible if text.strip()) == word
    assert page_of(name).text("title") == f"{word}: Label agreement of the triage prompt"


def test_sections_stand_in_their_order() -> None:
    headings = re.findall(r"<h2[^>]*>([^<]+)</h2>", page_of("failing").source)
    assert headings == [
        "Blockers",
        "Numbers",
        "Findings",
        "Figures",
        "Caveats",
        "Evidence",
        "How to verify",
    ]
    assert "Caveats and waivers" in page_of("waived").text("h2")
    assert "Figures" not in page_of("bare").text("h2")


def test_tables_have_captions_and_scopes() -> None:
    for page in map(page_of, SAMPLES):
        assert page.tags.count("caption") == page.tags.count("table")
        assert page.tags.count("th") == sum(
            1 for tag, name, _ in page.attributes if (tag, name) == ("th", "scope")
        )
        assert page.tags.count("h1") == 1


def test_every_measured_number_with_a_bound_or_interval_has_a_bar() -> None:
    labels = [value for tag, name, value in page_of("failing").attributes if name == "aria-label"]
    assert "value 0.6120, interval [0.5210, 0.6903], must be ≥ 0.75" in labels
    assert page_of("failing").source.count('class="bar"') == 4


def counted(count: int) -> tuple[Measurement, ...]:
    return tuple(
        measured(f"count_{at}", at, n=9, direction="lower_is_better", scope=f"scope {at}")
        for at in range(count)
    )


def test_numbers_that_no_rule_judged_are_folded_away_when_there_are_many() -> None:
    many = (*counted(30), LOW_KAPPA)
    page = Page(render(result(measurements=many, figures=(), caveats=())))
    before, _, after = page.source.partition("<details>")
    assert LOW_KAPPA.name in before.partition('<section aria-labelledby="numbers">')[2]
    assert "count_0" not in before
    assert "30 further numbers" in after
    assert all(f"count_{at}<" in after for at in range(30))


def test_few_numbers_and_numbers_that_nobody_judged_are_shown() -> None:
    page = Page(render(result(measurements=counted(24), figures=())))
    assert "details" not in page.tags
    page = Page(render(result(measurements=counted(40), figures=())))
    before, _, after = page.source.partition("<details>")
    assert (before.count(">count_"), after.count(">count_")) == (24, 16)


def test_judged_numbers_are_never_the_ones_that_are_cut() -> None:
    page = Page(render(result(measurements=(*counted(500), LOW_KAPPA), figures=(), caveats=())))
    assert LOW_KAPPA.name in page.source.partition("<details>")[0]
    assert page.source.count(">count_") == 199
    assert "301 more rows" in page.text()


def test_unmeasured_numbers_print_their_reason() -> None:
    text = page_of("inconclusive").text()
    assert "not measured: both raters used a single label, so chance agreement is 1" in text
    assert "not measured: suite recent has no score" in text


@pytest.mark.parametrize("name", SAMPLES)
def test_no_page_shows_nan_none_or_an_empty_cell(name: str) -> None:
    page = page_of(name)
    assert "nan" not in re.findall(r"\w+", page.text().lower())
    assert "None" not in page.text()
    assert not re.search(r"<(td|th|dd)[^>]*>\s*</", page.source)


def test_waived_soft_and_warning_findings_are_told_apart_from_passes() -> None:
    text = page_of("waived").text()
    for words_shown in ("WAIVED", "SOFT PASS", "warn only", "lower end of the interval"):
        assert words_shown in text
    assert "ana.kovac" in text
    assert "2025-04-01 00:00:00Z" in text


def test_evidence_seal_and_runtime_are_on_the_page() -> None:
    text = page_of("passing").text()
    file = PASSING.evidence[0].files[0]
    for shown in (PASSING.id, PASSING.policy_digest, PASSING.pack.digest, file.digest, "numpy"):
        assert shown in text
    assert "No evidence counts were recorded." in page_of("bare").text()


def test_a_matrix_has_a_picture_for_light_and_dark_and_a_table() -> None:
    page = page_of("passing")
    pictures = [value for _, name, value in page.attributes if name in ("src", "srcset")]
    light, dark = (
        plane_charts.draw_matrix(MATRIX, "light"),
        plane_charts.draw_matrix(MATRIX, "dark"),
    )
    decoded = [base64.b64decode(value.partition(",")[2]).decode() for value in pictures]
    assert decoded[:2] == [dark, light]
    assert any(name == "media" and "dark" in value for _, name, value in page.attributes)
    alt = next(value for _, name, value in page.attributes if name == "alt")
    assert alt.startswith("Heat map of scholar (rows) by auditor (columns): 240 in all, 226 on")
    assert "131" in page.source.partition("<details>")[2]


def test_a_reliability_has_a_picture_for_light_and_dark_and_a_table() -> None:
    page = Page(render(result(figures=(RELIABILITY,))))
    pictures = [value for _, name, value in page.attributes if name in ("src", "srcset")]
    decoded = [base64.b64decode(value.partition(",")[2]).decode() for value in pictures]
    assert decoded == [
        plane_charts.draw_reliability(RELIABILITY, theme) for theme in ("dark", "light")
    ]
    alt = next(value for _, name, value in page.attributes if name == "alt")
    assert alt == (
        "Reliability diagram of 1,240 answers: accuracy by stated confidence. Of 3 bins with "
        "answers, 2 were right less often than stated and 1 more often; the widest gap is 0.0775. "
        "The numbers are in the table below."
    )
    folded = page.source.partition("<details>")[2]
    assert "Bins as a table" in folded
    for shown in ("(0.500, 0.750]", "0.5625", "[0.4228, 0.6930]", "no answers", "1,180"):
        assert shown in folded


@pytest.mark.parametrize("bin_count", [1, plane_charts.CHART_BINS_MAX + 1])
def test_a_reliability_without_answers_or_with_too_many_bins_is_only_listed(bin_count: int) -> None:
    answers = (0, None, None, None, None) if bin_count == 1 else (1, 0.5, 0.5, 0.0, 1.0)
    bins = tuple(
        ReliabilityBin(at / bin_count, (at + 1) / bin_count, *answers) for at in range(bin_count)
    )
    page = Page(render(result(figures=(Reliability("Bare", bins),))))
    assert "img" not in page.tags
    assert page.source.count('<th scope="row">') >= bin_count


def test_a_matrix_too_large_to_draw_is_still_listed() -> None:
    size = plane_charts.CHART_LABELS_MAX + 1
    counts = tuple(tuple(1 for _ in range(size)) for _ in range(size))
    big = Matrix("Big", "r", "c", tuple(f"l{at}" for at in range(size)), counts)
    page = Page(render(result(figures=(big,))))
    assert "img" not in page.tags
    assert f"{size * size - 200:,} more rows" in page.text()


def test_long_tables_are_cut_with_a_count() -> None:
    rows = tuple((at,) for at in range(300))
    page = Page(render(result(figures=(Table("Long", ("x",), rows, 5000),))))
    assert "4,800 more rows" in page.text()


@settings(deadline=None, max_examples=6)
@given(hostile_results())
def test_any_text_leaves_the_page_whole(judged: Result) -> None:
    data = render(judged)
    page = Page(data)
    assert set(page.tags) <= {tag for name in SAMPLES for tag in page_of(name).tags}
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] in ("href", "style")]
    assert page.text("h1") == words.clean(words.cell(judged.title))
    for blocker in judged.blockers:
        assert words.clean(blocker) in page.text("li")
    for _, attribute, value in page.attributes:
        if attribute in ("src", "srcset"):
            ET.fromstring(base64.b64decode(value.partition(",")[2]))
    assert data == render(judged)


def themes() -> dict[str, dict[str, charts.Colour]]:
    css = files("gatemark.report").joinpath("templates/report.css").read_text()
    light, dark = re.findall(r":root \{([^}]*--ground[^}]*)\}", css)
    return {
        name: {
            key: (int(value[:2], 16), int(value[2:4], 16), int(value[4:], 16))
            for key, value in re.findall(r"--([\w-]+): #([0-9a-f]{6});", block)
        }
        for name, block in (("light", light), ("dark", dark))
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_colour_has_aa_contrast_on_its_ground(theme: str) -> None:
    colours = themes()[theme]
    tones = ("pass", "fail", "inconclusive", "excused")
    pairs = [
        *itertools.product(("ink", "muted", "accent", "inconclusive"), ("paper",)),
        ("muted", "ground"),
        *((tone, f"{tone}-tint") for tone in tones),
        *(("ink", f"{tone}-tint") for tone in tones),
    ]
    low = {pair: charts.compute_contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def test_the_page_of_each_verdict_wears_its_own_tone() -> None:
    for sample in (PASSING, FAILING, INCONCLUSIVE, WAIVED, BARE):
        assert f'<header class="banner {sample.verdict}">' in render(sample).decode()
