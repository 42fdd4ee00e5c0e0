"""The glossary: one line per term, sorted, each with a link to the page that explains it."""

from __future__ import annotations

import re

from .transcript import ROOT

ROWS = re.findall(
    r"^\| (.+?) \| (.+) \|$",
    (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)[1:]
TERMS = [term for term, _ in ROWS]


def test_terms_are_sorted_and_unique() -> None:
    assert sorted(set(TERMS)) == TERMS


def test_every_term_has_a_link() -> None:
    assert not [term for term, meaning in ROWS if "](" not in meaning]


def test_readme_and_index_lead_to_it() -> None:
    for page, link in (("README.md", "docs/reference/"), ("docs/README.md", "reference/")):
        assert f"({link}glossary.md)" in (ROOT / page).read_text(encoding="utf-8")
