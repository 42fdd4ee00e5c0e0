from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from check_docs import GENERATED, find_problems, main
from docs_pages import drift_figures
from docs_pages.links import anchors_of, links_of

from .transcript import ROOT

Edit = Callable[[str, str, str], list[str]]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """The problems of a copy of the documentation after one edit."""
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    shutil.copy(ROOT / "LICENSE", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")

    def edit(page: str, old: str, new: str) -> list[str]:
        path = tmp_path / page
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return list(find_problems(tmp_path))

    return edit


def test_documentation_and_program_agree() -> None:
    assert list(find_problems(ROOT)) == []


@pytest.mark.parametrize("page", GENERATED)
def test_a_stale_generated_page_is_noticed(edited: Edit, page: str) -> None:
    (problem,) = edited(page, "\n", "\nOld words.\n")
    assert problem.startswith(f"{page}: differs from what the program says; run ")


@pytest.mark.parametrize("old", ["flowchart TD\n", "<!-- made by tools/draw_imports.py -->\n"])
def test_a_stale_drawing_of_imports_is_noticed(edited: Edit, old: str) -> None:
    (problem,) = edited("docs/architecture.md", old, "")
    assert problem.startswith("docs/architecture.md: its drawing differs from the imports; run ")


def test_a_verb_without_a_heading_is_noticed(edited: Edit) -> None:
    problems = edited("docs/reference/commands.md", "## gatemark list\n", "## list\n")
    assert "docs/reference/commands.md: has no heading for gatemark list" in problems


@pytest.mark.parametrize(
    ("page", "kind", "name"),
    [
        ("docs/reference/schemas.md", "schema", "gatemark.pair/1"),
        ("docs/reference/measures.md", "measure", "krippendorff"),
        ("docs/reference/suites.md", "suite", "agreement"),
    ],
)
def test_a_name_without_a_heading_is_noticed(edited: Edit, page: str, kind: str, name: str) -> None:
    problems = edited(page, f"## {name}\n", "## other\n")
    assert f"{page}: has no heading for {kind} {name}" in problems


def test_a_link_to_nowhere_is_noticed(edited: Edit) -> None:
    assert edited("README.md", "(docs/README.md)", "(docs/none.md)") == [
        "README.md: link 'docs/none.md' leads to no file"
    ]


def test_an_image_to_nowhere_is_noticed(edited: Edit) -> None:
    assert edited("README.md", "images/report-dark.png", "images/none.png") == [
        "README.md: link 'docs/images/none.png' leads to no file"
    ]


def test_a_link_to_no_heading_is_noticed(edited: Edit) -> None:
    (problem,) = edited("docs/reference/files.md", "agreement.md#arbitration", "agreement.md#x")
    assert problem.endswith("agreement.md#x' leads to no heading")


def test_a_link_out_of_the_repository_is_noticed(edited: Edit) -> None:
    assert edited("README.md", "(LICENSE)", "(../LICENSE)") == [
        "README.md: link '../LICENSE' leaves the repository"
    ]


def test_another_number_of_a_step_is_noticed(edited: Edit) -> None:
    problems = edited("docs/explanation/gate.md", "## (4) ", "## (6) ")
    assert (
        "docs/explanation/gate.md: has steps ['1', '2', '3', '6', '5'], "
        "core/policy.py has ['1', '2', '3', '4', '5']"
    ) in problems


def test_a_decision_that_is_not_listed_is_noticed(edited: Edit) -> None:
    assert edited("docs/adr/README.md", "(0003-repeated-ids-by-hash.md)", "(README.md)") == [
        "docs/adr/README.md: does not list 0003-repeated-ids-by-hash.md"
    ]


def test_check_prints_one_line_per_problem_and_writes_only_when_asked(
    edited: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = edited("docs/reference/commands.md", "# Commands", "# Orders")
    assert main(["--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == problems
    assert "# Orders" in (tmp_path / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert main(["--root", str(tmp_path), "--write"]) == 0
    assert capsys.readouterr().out == ""


def test_check_needs_a_docs_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == 2
    assert "has no docs folder" in capsys.readouterr().err


def test_links_in_code_are_no_links() -> None:
    text = '[a](b.md) `[c](d.md)`\n```text\n[e](f.md)\n```\n![g](h.png) <img src="i.png">'
    assert links_of(text) == ["b.md", "h.png", "i.png"]


def test_equal_headings_get_numbered_anchors() -> None:
    assert anchors_of("# A `b` (c)\n## A b c\n```\n# no\n```\n") == {"a-b-c", "a-b-c-1"}


def test_a_figure_that_the_bench_did_not_print_is_noticed(edited: Edit, tmp_path: Path) -> None:
    (tmp_path / "bench/figures").mkdir(parents=True)
    shutil.copy(ROOT / drift_figures.KEPT, tmp_path / drift_figures.KEPT)
    (problem,) = edited(drift_figures.PAGE, "| shift of 2 sd | ", "| shift of 2 sd | 9")
    assert problem.startswith(f"{drift_figures.PAGE}: differs from {drift_figures.KEPT}; run ")
