from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gatemark.core.result import Matrix, Result, Table
from gatemark.report import words
from gatemark.report.markdown import TEXT_MAX, escape_text, format_code, render

from .hostile import NASTY, hostile_results, texts
from .sample_results import BARE, FAILING, INCONCLUSIVE, PASSING, SAMPLES, WAIVED, result

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def text_of(token: Token) -> str:
    return "".join(child.content for child in token.children or ()).replace("\u200b", "")


def tables_of(markdown: str) -> list[list[list[str]]]:
    tables: list[list[list[str]]] = []
    for token in PARSER.parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and tables and token.level >= 4:
            tables[-1][-1].append(text_of(token))
    return tables


def inline_kinds(tokens: Sequence[Token]) -> set[str]:
    return {child.type for token in tokens for child in token.children or ()}


def headings_of(markdown: str) -> list[str]:
    tokens = PARSER.parse(markdown)
    return [
        text_of(after)
        for token, after in itertools.pairwise(tokens)
        if token.type == "heading_open"
    ]


def page(judged: Result) -> str:
    return render(judged).decode()


def test_the_verdict_line_comes_first() -> None:
    assert page(FAILING).startswith(
        "**FAIL** Label agreement of the triage prompt — "
        "agreement.kappa must be >= 0.75, got 0.612 (n=240)\n"
    )
    assert page(PASSING).startswith("**PASS** Label agreement of the triage prompt — All 4 rules")


def test_sections_stand_in_order_and_only_when_they_have_something_to_say() -> None:
    assert headings_of(page(FAILING)) == [
        "Blockers",
        "Findings",
        "Measurements",
        "Scholar against auditor",
        "Disagreements",
        "Reliability of the triage prompt",
        "Caveats",
        "Evidence",
        "Seal",
    ]
    assert "Waivers" in headings_of(page(WAIVED))
    assert headings_of(page(BARE)) == ["Findings", "Seal"]


def test_numbers_carry_interval_direction_and_notes() -> None:
    rows = tables_of(page(FAILING))[1]
    assert rows[3] == [
        "agreement.abstain_rate",
        "0.0125",
        "[0.0043, 0.0360] 95 % Wilson",
        "243",
        "↓ lower is better",
        "excluded: 2 unpaired, 1 unknown label",
    ]


def test_an_unmeasured_number_prints_its_reason() -> None:
    text = page(INCONCLUSIVE)
    row = tables_of(text)[1][2]
    assert row[:3] == [
        "agreement.kappa",
        "not measured",
        "both raters used a single label, so chance agreement is 1",
    ]
    assert "Bench score: not measured, suite recent has no score (must be ≥ 0.85)" in text


def test_a_matrix_is_a_table_with_its_counts() -> None:
    matrix = tables_of(page(FAILING))[2]
    assert matrix[0] == ["scholar ↓ auditor →", "SUPPORTED", "REFUTED", "NOT_IN_CONTEXT"]
    assert matrix[3] == ["NOT_IN_CONTEXT", "0", "4", "33"]


def test_a_reliability_is_a_table_with_its_bins() -> None:
    bins = tables_of(page(FAILING))[4]
    assert bins[0][:2] == ["Confidence", "Answers"]
    assert bins[1:3] == [
        ["[0.000, 0.250]", "12", "0.2000", "0.2500", "[0.0889, 0.5323]"],
        ["(0.250, 0.500]", "0", "no answers", "no answers", "no answers"],
    ]
    assert bins[4] == ["(0.750, 1.000]", "1,180", "0.9300", "0.9000", "no interval"]


def test_a_wide_matrix_lists_its_largest_cells() -> None:
    size = 30
    counts = tuple(tuple(row * (row == column) for column in range(size)) for row in range(size))
    wide = Matrix("Wide", "was", "is", tuple(f"l{at}" for at in range(size)), counts)
    text = page(result(figures=(wide,)))
    assert tables_of(text)[2][:2] == [["was", "is", "Count"], ["l29", "l29", "29"]]
    assert "\n\n9 more rows\n" in text


def test_a_long_table_says_how_many_rows_it_leaves_out() -> None:
    rows = tuple((at,) for at in range(40))
    text = page(result(figures=(Table("Long", ("x",), rows, 1000),)))
    assert len(tables_of(text)[2]) == 21
    assert "\n\n980 more rows\n" in text


def test_the_evidence_account_has_counts_and_digests() -> None:
    account, files = tables_of(page(FAILING))[5:7]
    assert account[1] == ["1", "246", "243", "3", "2", "1", "248"]
    assert files[1][1:] == ["scholar.jsonl", "88,123", FAILING.evidence[0].files[0].digest]


def test_a_waiver_shows_owner_reason_and_end() -> None:
    table = tables_of(page(WAIVED))[5]
    assert table[1] == ["kappa", "ana.kovac", WAIVED.waivers[0].reason, "2025-04-01 00:00:00Z"]


def test_addresses_and_people_are_not_called() -> None:
    assert "://" not in escape_text("see https://evil.example").replace("\\://", "")
    assert escape_text("WWW.evil.example") == "WWW\\.evil.example"
    assert "@everyone" not in escape_text("@everyone")
    assert "#12" not in escape_text("#12")


@pytest.mark.parametrize("text", [*NASTY, "0.95", "12) x", "+ x", "=", "---", "a\\"])
def test_prose_and_code_read_as_the_text_they_hold(text: str) -> None:
    for written in (escape_text(text), format_code(text)):
        tokens = PARSER.parse(f"- {written}\n")
        inline = [token for token in tokens if token.type == "inline"]
        assert [text_of(token) for token in inline] == ([words.one_line(text)] if inline else [])
        assert inline or not words.one_line(text)


@settings(deadline=None, max_examples=200)
@given(texts)
def test_any_text_keeps_to_its_cell(text: str) -> None:
    line = words.shortened(words.one_line(text), TEXT_MAX).replace("\u200b", "")
    table = tables_of(
        f"| a | b |\n| --- | --- |\n| x{escape_text(text)} | {format_code(text)}x |\n"
    )
    assert len(table) == 1
    assert table[0][1][1].removesuffix("x") == line
    assert len(table[0]) == 2


@settings(deadline=None, max_examples=60)
@given(hostile_results())
def test_any_text_leaves_the_comment_whole(judged: Result) -> None:
    text = page(judged)
    tokens = PARSER.parse(text)
    block_kinds = {token.type for token in tokens}
    assert not block_kinds & {"html_block", "fence", "code_block", "blockquote_open", "hr"}
    assert inline_kinds(tokens) <= {
        "text",
        "text_special",
        "code_inline",
        "softbreak",
        "hardbreak",
        "strong_open",
        "strong_close",
    }
    assert "<" not in text
    headings = [token.tag for token in tokens if token.type == "heading_open"]
    assert set(headings) == {"h3"}
    matrix_count = 1 if isinstance(judged.figures[0], Matrix) else 0
    assert len(tables_of(text)) == 7 + matrix_count
    table = judged.figures[1]
    assert isinstance(table, Table)
    drawn = tables_of(text)[3]
    expected = [
        [
            words.shortened(words.one_line(words.cell(value)), TEXT_MAX).replace("\u200b", "")
            for value in row
        ]
        for row in table.rows
    ]
    assert drawn[1:] == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_no_page_shows_nan_or_none(name: str) -> None:
    text = page(SAMPLES[name])
    assert "nan" not in text.lower()
    assert "None" not in text
