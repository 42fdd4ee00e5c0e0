from __future__ import annotations

import json

import hypothesis
from hypothesis import strategies as st

from gatemark.core.text import inert_cell, visible, visible_json, visible_line


def test_what_drives_a_terminal_is_spelled_out() -> None:
    assert visible("a\x1b[2Jb\x9bc\u202ed\x7f") == r"a\x1b[2Jb\x9bc\u202ed\x7f"


def test_line_breaks_stay_in_a_text_and_are_spelled_out_in_a_line() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible_line("a\ngatemark: PASS") == r"a\ngatemark: PASS"


def test_bytes_of_a_file_name_that_is_not_text_are_spelled_out() -> None:
    assert visible_line(b"a\xffb".decode("utf-8", "surrogateescape")) == r"a\xffb"


def test_words_of_any_language_stay_as_they_are() -> None:
    for words in ("größer ≥ 3", "日本語", "नमस्ते", "👩‍🔬"):
        assert visible(words) == words


@hypothesis.given(st.text())
def test_json_says_the_same(text: str) -> None:
    shown = visible_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert not set(shown) & set("\x1b\x7f\x9b\u202e\u2066")


def test_a_cell_that_a_spreadsheet_would_run_is_inert() -> None:
    assert [inert_cell(text) for text in ("=1+1", "+1", "-1", "@a", "a=1", "")] == [
        *("\\=1+1", "\\+1", "\\-1", "\\@a", "a=1", "")
    ]
