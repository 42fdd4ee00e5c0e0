"""The site: every page has a place in its menu, and its plots are what the tool draws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs_pages.llms import llms_page
from draw_concepts import PICTURES
from plot_statistics import FOLDER, PLOTS

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("tutorial", "how-to", "reference", "explanation")


def test_every_page_is_in_the_menu_and_every_entry_is_a_page() -> None:
    menu = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert len(menu) == len(set(menu))
    pages = {
        f"{part}/{page.name}" for part in PARTS for page in (ROOT / "docs" / part).glob("*.md")
    }
    assert set(menu) == pages | {"README.md", "architecture.md", "adr/README.md"}


@pytest.mark.parametrize("name", [*PLOTS, *PICTURES])
def test_a_picture_is_what_its_tool_draws(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == (PLOTS | PICTURES)[name]()


def test_every_page_has_a_line_for_language_models() -> None:
    text = llms_page()
    lines = re.findall(r"^- \[.+\]\(([\w/.-]+\.md)\): (.+)$", text, re.MULTILINE)
    listed = {path for path, words in lines if len(words) > 10}
    for part in PARTS:
        for page in (ROOT / "docs" / part).glob("*.md"):
            assert f"{part}/{page.name}" in listed, page.name
