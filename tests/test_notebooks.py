"""The notebooks: their cells run in order, in one namespace, as a kernel would run them."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from make_notebooks import FOLDER, NOTEBOOKS, notebook


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_what_the_tool_makes(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == notebook(NOTEBOOKS[name])


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_cells_of_a_notebook_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("notebooks", "ferry", "rag-answers"):
        shutil.copytree(FOLDER.parent / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path / "notebooks")
    document = json.loads((FOLDER / name).read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]
    shared: dict[str, object] = {"__name__": "__main__"}
    shown = [_run(cell, shared) for cell in cells]
    pages = [one._repr_html_() for one in shown if hasattr(one, "_repr_html_")]
    assert len(pages) == 1
    assert "FAIL" in pages[0]
    assert all(value is not None for value in shown[1:])


def _run(cell: str, shared: dict[str, object]) -> object:
    """Run a cell; return the value of its last line, which a notebook would show."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), shared)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), shared)
